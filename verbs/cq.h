/* Completion queues and the channels that their events go to. */
#ifndef BEE_CQ_H
#define BEE_CQ_H

#include "object.h"

/* cq_push adds a completion, and an event where one was asked for. */
void cq_push(struct cq *cq, const struct completion *e, int solicited);

/* cq_take moves up to n completions out of the queue, after progress of its queue pairs. */
int cq_take(struct cq *cq, int n, struct completion *e);

/* cq_progress calls qp_poll for the queue pairs of a completion queue. */
void cq_progress(struct cq *cq, int wait);

/* context_woken handles what others have published for this process. */
void context_woken(struct context *c);

/* cq_join and cq_leave add and remove a queue pair; cq_clean drops its completions. */
int cq_join(struct cq *cq, struct qp *qp);
void cq_leave(struct cq *cq, struct qp *qp);
void cq_clean(struct cq *cq, struct qp *qp);

/* channel_join and channel_leave add and remove a completion queue. */
void channel_join(struct channel *h, struct cq *cq);
void channel_leave(struct channel *h, struct cq *cq);

/* await waits until *word, a count of acknowledged events, has reached `events`. */
void await(uint32_t *word, uint32_t events);
void acknowledge(uint32_t *word, uint32_t events);

#endif
