#include "move.h"
#include "broker.h"
#include "maps.h"
#include "userfault.h"

#include <sys/mman.h>

/* block is memory that has moved: all of one region. */
struct block {
	struct block *next;
	uint8_t *from, *to;
	uint32_t region;
	uint32_t users;
	int fd;
	int pieces;
	struct piece piece[];
};

static uint8_t *page_of(void *addr)
{
	return (uint8_t *)((uintptr_t)addr & ~4095ul);
}

static uint8_t *end_of(void *addr, size_t length)
{
	return (uint8_t *)(((uintptr_t)addr + length + 4095) & ~4095ul);
}

static void discard(struct context *c, struct block *b)
{
	if (b->region)
		broker_destroy(c, b->region);
	close_fd(b->fd);
	free(b);
}

static int region(struct context *c, struct block *b)
{
	struct bee_create_region ask = {{sizeof ask, BEE_OP_CREATE_REGION, 0}, (uint64_t)(b->to - b->from)};
	struct bee_create_region_reply reply;
	uint32_t fds = 1;
	int error = broker_call(c, &ask, &reply, sizeof reply, &b->fd, &fds);

	b->region = reply.handle;
	return error ? error : fds == 1 ? 0 : EPROTO;
}

/* back makes the first n pieces private again. */
static void back(struct block *b, int n)
{
	for (int i = 0; i < n; i++) {
		uint8_t *p = (uint8_t *)b->piece[i].from;

		make_private(p, b->piece[i].to - b->piece[i].from, b->piece[i].protection, b->fd, (size_t)(p - b->from));
	}
}

/* block_of moves a range that nothing of has moved yet; *cannot where it stays. */
static int block_of(struct context *c, uint8_t *from, uint8_t *to, struct block **made, int *cannot)
{
	struct piece piece[PIECES];
	int n = maps_private((uintptr_t)from, (uintptr_t)to, piece), error, i;
	struct block *b;

	*cannot = n == 0 || ((uint8_t *)piece >= from && (uint8_t *)piece < to); /* this thread's stack */
	if (*cannot)
		return 0;
	b = calloc(1, sizeof *b + (size_t)n * sizeof *piece);
	if (!b)
		return ENOMEM;
	b->from = from;
	b->to = to;
	b->fd = -1;
	b->pieces = n;
	memcpy(b->piece, piece, (size_t)n * sizeof *piece);
	error = region(c, b);
	for (i = 0; !error && i < n; i++) {
		uint8_t *p = (uint8_t *)piece[i].from;

		error = make_shared(p, piece[i].to - piece[i].from, piece[i].protection, b->fd, (size_t)(p - from));
		if (error) {
			back(b, i);
			*cannot = 1;
		}
	}
	if (error) {
		discard(c, b);
		return *cannot ? 0 : error;
	}
	*made = b;
	return 0;
}

/* drop ends one use of each block in a range, and moves blocks without uses back. */
static void drop(struct context *c, uint8_t *from, uint8_t *to)
{
	for (struct block **link = &c->blocks, *b; (b = *link);) {
		if (b->to <= from || b->from >= to || --b->users) {
			link = &b->next;
			continue;
		}
		*link = b->next;
		back(b, b->pieces);
		discard(c, b);
	}
}

/* cover makes [at, to) shared, one extent after the other. */
static int cover(struct context *c, uint8_t *from, uint8_t *to, struct bee_extent *extent, uint32_t *n, int *cannot)
{
	struct block **link = &c->blocks, *b;
	uint8_t *at = from, *end;
	int error;

	while (at < to) {
		while ((b = *link) && b->to <= at)
			link = &b->next;
		if (*n == BEE_EXTENTS) {
			*cannot = 1;
			return 0;
		}
		if (!b || b->from > at) {
			struct block *made;

			error = block_of(c, at, b && b->from < to ? b->from : to, &made, cannot);
			if (error || *cannot)
				return error;
			made->next = b;
			*link = b = made;
		}
		b->users++;
		end = b->to < to ? b->to : to;
		extent[(*n)++] = (struct bee_extent){.offset = (uint64_t)(at - from), .at = (uint64_t)(at - b->from),
			.bytes = (uint64_t)(end - at), .region = b->region};
		at = end;
	}
	return 0;
}

int move_in(struct context *c, void *addr, size_t length, struct bee_extent *extent, uint32_t *extents)
{
	uint8_t *from = page_of(addr), *to = end_of(addr, length);
	int cannot = 0, error;
	uint32_t n = 0;

	lock(&c->move_lock);
	error = cover(c, from, to, extent, &n, &cannot);
	if ((error || cannot) && n) {
		drop(c, from, from + extent[n - 1].offset + extent[n - 1].bytes);
		n = 0;
	}
	unlock(&c->move_lock);
	*extents = cannot ? 0 : n;
	return error;
}

void move_out(struct context *c, void *addr, size_t length)
{
	lock(&c->move_lock);
	drop(c, page_of(addr), end_of(addr, length));
	unlock(&c->move_lock);
}

void move_apart(struct context *c)
{
	for (const struct block *b = c->blocks; b; b = b->next) {
		for (int i = 0; i < b->pieces; i++) {
			const struct piece *p = &b->piece[i];
			size_t bytes = p->to - p->from;

			sys(mmap, p->from, bytes, p->protection, MAP_PRIVATE | MAP_FIXED, b->fd, p->from - (uintptr_t)b->from);
			sys(madvise, p->from, bytes, MADV_POPULATE_WRITE);
		}
	}
	c->blocks = NULL; /* their peers are the parent's */
}
