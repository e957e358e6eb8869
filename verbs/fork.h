/* What a forked child keeps of its parent's device: nothing, and its memory for itself. */
#ifndef BEE_FORK_H
#define BEE_FORK_H

#include "object.h"

/* fork_join and fork_leave add and remove a context whose memory has moved. */
void fork_join(struct context *c);
void fork_leave(struct context *c);

#endif
