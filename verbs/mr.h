/* Registered memory of this process. */
#ifndef BEE_MR_H
#define BEE_MR_H

#include "object.h"

/*
 * mr_at returns the memory behind a scatter entry of a queue pair: NULL where no
 * registration of its protection domain covers the entry with the right.
 */
uint8_t *mr_at(struct qp *qp, const struct ibv_sge *sge, uint32_t access);

/* mr_void ends a key that a peer invalidated; 0 where the protection domain has none such. */
int mr_void(struct context *c, struct ibv_pd *pd, uint32_t key);

#endif
