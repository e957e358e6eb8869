#include "maps.h"
#include "sys.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define LINE 512

/* reader reads a file by lines, with a buffer of its own. */
struct reader {
	int fd;
	size_t have, used;
	char buffer[4096];
};

static int get(struct reader *r)
{
	long n;

	if (r->used == r->have) {
		n = sys(read, r->fd, r->buffer, sizeof r->buffer);
		if (n <= 0)
			return -1;
		r->have = (size_t)n;
		r->used = 0;
	}
	return (unsigned char)r->buffer[r->used++];
}

/* line reads a line without its end; what is beyond LINE is dropped. */
static int line(struct reader *r, char *to)
{
	size_t n = 0;
	int c;

	while ((c = get(r)) >= 0 && c != '\n')
		if (n < LINE - 1)
			to[n++] = (char)c;
	to[n] = 0;
	return c >= 0 || n > 0;
}

static const char *hex(const char *s, uintptr_t *value)
{
	*value = 0;
	for (;; s++) {
		if (*s >= '0' && *s <= '9')
			*value = *value * 16 + (uintptr_t)(*s - '0');
		else if (*s >= 'a' && *s <= 'f')
			*value = *value * 16 + (uintptr_t)(*s - 'a' + 10);
		else
			return s;
	}
}

/* after returns what follows n spaces. */
static const char *after(const char *s, int n)
{
	while (*s && n > 0)
		if (*s++ == ' ')
			n--;
	return s;
}

/* movable reports whether a line shows private anonymous memory, and its protection. */
static int movable(const char *rest, int *protection)
{
	if (strlen(rest) < 6 || rest[0] != ' ' || rest[1] != 'r' || rest[4] != 'p' || rest[3] == 'x')
		return 0;
	*protection = PROT_READ | (rest[2] == 'w' ? PROT_WRITE : 0);
	return !strncmp(after(rest + 1, 3), "0 ", 2) && !strstr(rest, "[stack") && !strstr(rest, "[v");
}

int maps_private(uintptr_t from, uintptr_t to, struct piece piece[PIECES])
{
	struct reader r = {.fd = (int)sys(openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC)};
	uintptr_t start, end, at = from;
	char text[LINE];
	int n = 0, protection;

	if (r.fd < 0)
		return 0;
	while (at < to && n < PIECES && line(&r, text)) {
		const char *rest = hex(text, &start);

		rest = hex(*rest ? rest + 1 : rest, &end);
		if (end <= at)
			continue;
		if (start > at || !movable(rest, &protection))
			break;
		piece[n++] = (struct piece){at, end < to ? end : to, protection};
		at = piece[n - 1].to;
	}
	close_fd(r.fd);
	return at == to ? n : 0;
}

int maps_run(uintptr_t from, uintptr_t to, uint64_t at, uintptr_t *start, uintptr_t *end)
{
	struct reader r = {.fd = (int)sys(openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC)};
	uintptr_t first, last, offset;
	char text[LINE];

	*start = *end = 0;
	while (r.fd >= 0 && line(&r, text)) {
		const char *rest = hex(text, &first);

		rest = hex(*rest ? rest + 1 : rest, &last);
		if (last <= from)
			continue;
		hex(after(rest, 2), &offset);
		if (first >= to || (*end && first != *end))
			break;
		if (strlen(rest) < 6 || rest[4] != 's' || (uint64_t)offset - first != at - from) {
			if (*end)
				break;
			continue;
		}
		if (!*end)
			*start = first > from ? first : from;
		*end = last < to ? last : to;
	}
	close_fd(r.fd);
	return *end != 0;
}
