/*
 * The thread that carries out requests of peers on memory that cannot be shared, while
 * the program's own threads do something else. There is none before such memory is
 * registered, and it sleeps while there is no request.
 */
#ifndef BEE_OWNER_H
#define BEE_OWNER_H

#include "object.h"

/* owner_start starts the thread of a context, unless it runs already. */
int owner_start(struct context *c);
void owner_stop(struct context *c);

#endif
