/* What /proc/self/maps says of a range of memory. */
#ifndef BEE_MAPS_H
#define BEE_MAPS_H

#include <stdint.h>

#define PIECES 64

struct piece {
	uintptr_t from, to;
	int protection;
};

/*
 * maps_private splits a range into its mappings, and returns their number. 0: the range
 * has holes, or memory that is not private and anonymous, or a stack, or too many pieces.
 */
int maps_private(uintptr_t from, uintptr_t to, struct piece piece[PIECES]);

/*
 * maps_run finds the first part of a range that is a shared mapping, in which `from` would lie
 * at the offset `at` of its file. 0: there is none.
 */
int maps_run(uintptr_t from, uintptr_t to, uint64_t at, uintptr_t *start, uintptr_t *end);

#endif
