/* The connection to the broker. */
#ifndef BEE_BROKER_H
#define BEE_BROKER_H

#include "object.h"

/* broker_dial connects, and returns a descriptor or a negative errno. */
int broker_dial(void);

/*
 * broker_call sends a request and reads its reply of at most `room` bytes; descriptors go
 * to p[0..*n). It returns 0 or an errno.
 */
int broker_call(struct context *c, void *request, void *reply, size_t room, struct passed *p, uint32_t *n);
int broker_exchange(int socket, void *request, void *reply, size_t room, struct passed *p, uint32_t *n);

/* broker_create and broker_destroy make and end an object that only counts. */
int broker_create(struct context *c, uint32_t kind, uint32_t pd, uint32_t *handle);
int broker_destroy(struct context *c, uint32_t handle);

#endif
