/* The extended way to poll a completion queue. */
#ifndef BEE_POLL_H
#define BEE_POLL_H

#include "object.h"

/* poll_offer sets the functions of an extended completion queue. */
void poll_offer(struct ibv_cq_ex *cq);

#endif
