/*
 * Pages that peers reach lie in shared memory: they move there when they are registered,
 * while the program uses them, and back when the last registration ends. In a guest they stay.
 */
#ifndef BEE_MOVE_H
#define BEE_MOVE_H

#include "object.h"

/*
 * move_in makes the pages of a range shared and describes where they lie. No extents:
 * these pages cannot move, and their owner has to copy.
 */
int move_in(struct context *c, void *addr, size_t length, struct bee_extent *extent, uint32_t *extents);

/* move_apart gives a forked child pages of its own, with the contents of now. */
void move_apart(struct context *c);

/* move_stays reports whether memory of the program lies in regions, so that these have to stay. */
int move_stays(struct context *c);

/* move_out ends one use of the range. */
void move_out(struct context *c, void *addr, size_t length);

#endif
