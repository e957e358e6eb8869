#include "move.h"
#include "broker.h"
#include "maps.h"
#include "userfault.h"

#include <sys/mman.h>
#include <sys/stat.h>

/*
 * block is memory that has moved: all of one region. In a guest, where the region is a range of
 * a device, nothing makes threads wait while its pages become private again. There the memory
 * stays in the region when its last use ends, until the program has unmapped it, or ends.
 */
struct block {
	struct block *next;
	uint8_t *from, *to;
	uint32_t region;
	uint32_t users;         /* 0: the memory only lies there */
	struct passed shared;
	int device;
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
	close_fd(b->shared.fd);
	free(b);
}

static int region(struct context *c, struct block *b)
{
	struct bee_create_region ask = {{sizeof ask, BEE_OP_CREATE_REGION, 0}, (uint64_t)(b->to - b->from)};
	struct bee_create_region_reply reply;
	uint32_t n = 1;
	int error = broker_call(c, &ask, &reply, sizeof reply, &b->shared, &n);
	struct stat st = {0};

	b->region = reply.handle;
	if (!error && n != 1)
		error = EPROTO;
	if (!error && sys(fstat, b->shared.fd, &st))
		error = EIO;
	b->device = S_ISCHR(st.st_mode);
	return error;
}

/* is_there reports whether memory of a range still lies in its block, and *whole whether all does. */
static int is_there(const struct block *b, const uint8_t *from, const uint8_t *to, int *whole)
{
	uintptr_t start, end;
	int some = maps_run((uintptr_t)from, (uintptr_t)to, b->shared.at + (uint64_t)(from - b->from), &start, &end);

	*whole = some && start == (uintptr_t)from && end == (uintptr_t)to;
	return some;
}

/* reclaim gives back what the program has unmapped since its last use. */
static int reclaim(struct context *c)
{
	int any = 0, whole;

	for (struct block **link = &c->blocks, *b; (b = *link);) {
		if (b->users || is_there(b, b->from, b->to, &whole)) {
			link = &b->next;
			continue;
		}
		*link = b->next;
		discard(c, b);
		any = 1;
	}
	return any;
}

/* back makes the first n pieces private again. */
static void back(struct block *b, int n)
{
	for (int i = 0; i < n; i++) {
		uint8_t *p = (uint8_t *)b->piece[i].from;

		make_private(p, b->piece[i].to - b->piece[i].from, b->piece[i].protection, b->shared.fd, b->shared.at + (uint64_t)(p - b->from));
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
	b->shared.fd = -1;
	b->pieces = n;
	memcpy(b->piece, piece, (size_t)n * sizeof *piece);
	error = region(c, b);
	if (error == ENOMEM && reclaim(c))
		error = region(c, b);
	for (i = 0; !error && i < n; i++) {
		uint8_t *p = (uint8_t *)piece[i].from;

		error = make_shared(p, piece[i].to - piece[i].from, piece[i].protection, b->shared.fd, b->shared.at + (uint64_t)(p - from));
		if (error) {
			back(b, i);
			*cannot = 1;
		}
	}
	if (error && !(b->device && i > 1)) { /* which pieces before cannot leave */
		discard(c, b);
		return *cannot ? 0 : error;
	}
	*made = b;
	return 0;
}

/* insert adds a block to those of a context. */
static void insert(struct context *c, struct block *b)
{
	struct block **link = &c->blocks;

	while (*link && (*link)->from < b->from)
		link = &(*link)->next;
	b->next = *link;
	*link = b;
}

/* find returns the first block that ends behind an address, of those that the program has not unmapped. */
static struct block *find(struct context *c, const uint8_t *at, const uint8_t *to, int *cannot)
{
	struct block **link = &c->blocks, *b;
	int whole;

	while ((b = *link) && b->to <= at)
		link = &b->next;
	if (!b || b->users || b->from >= to)
		return b;
	is_there(b, b->from > at ? b->from : at, b->to < to ? b->to : to, &whole);
	if (whole)
		return b;
	if (is_there(b, b->from, b->to, &whole)) {
		*cannot = 1; /* other memory lies beside what is left */
		return b;
	}
	*link = b->next;
	discard(c, b);
	return find(c, at, to, cannot);
}

/* drop ends one use of each block in a range, and moves blocks without uses back, where that can be. */
static void drop(struct context *c, uint8_t *from, uint8_t *to)
{
	for (struct block **link = &c->blocks, *b; (b = *link);) {
		if (b->to <= from || b->from >= to || !b->users || --b->users || b->device) {
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
	struct block *b;
	uint8_t *at = from, *end;
	int error;

	while (at < to) {
		b = find(c, at, to, cannot);
		*cannot |= *n == BEE_EXTENTS;
		if (*cannot)
			return 0;
		if (!b || b->from > at) {
			struct block *made = NULL;

			error = block_of(c, at, b && b->from < to ? b->from : to, &made, cannot);
			if (made)
				insert(c, made);
			if (error || *cannot)
				return error;
			b = made;
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

/* leave makes private what still lies in a range of the device, of a piece. */
static void leave(const struct block *b, const struct piece *p)
{
	uintptr_t start, end, at = p->from;

	while (at < p->to && maps_run(at, p->to, b->shared.at + at - (uintptr_t)b->from, &start, &end)) {
		make_own((uint8_t *)start, end - start, p->protection);
		at = end;
	}
}

int move_stays(struct context *c)
{
	int stays = 0;

	lock(&c->move_lock);
	reclaim(c);
	for (const struct block *b = c->blocks; b; b = b->next)
		stays |= b->device;
	unlock(&c->move_lock);
	return stays;
}

void move_apart(struct context *c)
{
	for (const struct block *b = c->blocks; b; b = b->next) {
		for (int i = 0; i < b->pieces; i++) {
			const struct piece *p = &b->piece[i];
			size_t bytes = p->to - p->from;

			if (b->device) {
				leave(b, p);
				continue;
			}
			sys(mmap, p->from, bytes, p->protection, MAP_PRIVATE | MAP_FIXED, b->shared.fd, b->shared.at + p->from - (uintptr_t)b->from);
			sys(madvise, p->from, bytes, MADV_POPULATE_WRITE);
		}
	}
	c->blocks = NULL; /* their peers are the parent's */
}
