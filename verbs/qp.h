/* Queue pairs: what their parts call of one another. The caller has qp->lock. */
#ifndef BEE_QP_H
#define BEE_QP_H

#include "object.h"

/*
 * qp_poll does what is to do for a queue pair, if anything; it takes the lock itself. A
 * caller that will not poll again by itself waits for the lock.
 */
void qp_poll(struct qp *qp, int wait);

/*
 * qp_fail puts a queue pair into the error state, for an error in sending UC and UD into
 * SQE, and its peer where `peer`, with an event.
 */
void qp_fail(struct qp *qp, int sending, int peer, int peer_event);

/* qp_state returns the current state. */
enum ibv_qp_state qp_state(const struct qp *qp);

/* qp_reset empties the queues and ends the connection; qp_flush fails what is posted. */
void qp_reset(struct qp *qp);
void qp_flush(struct qp *qp);

/* connect_pair maps the rings and, once that is there, the peer; disconnect_pair unmaps them. */
int connect_pair(struct qp *qp);
void disconnect_pair(struct qp *qp);

/* receive_progress reads what the peer has sent. */
void receive_progress(struct qp *qp);

/* srq_taken raises the event of an SRQ that falls below its limit. */
void srq_taken(struct srq *srq);

/* srq_show publishes what an SRQ has for messages. The caller has its lock. */
void srq_show(struct srq *srq);

/* receive_take takes the oldest receive, own or shared: NULL without one. */
struct receive *receive_take(struct qp *qp);

/* scatter copies bytes of a message into a receive, from `offset` on. */
enum ibv_wc_status scatter(struct qp *qp, const struct receive *r, uint64_t offset, const uint8_t *from, uint64_t bytes);

/* receive_complete adds the completion of a receive. */
void receive_complete(struct qp *qp, const struct receive *r, struct ibv_wc *wc, int solicited);

/* receives_init makes a receive queue; receives_add posts to it: ENOMEM, EINVAL. */
int receives_init(struct receives *q, uint32_t size, uint32_t max_sge);
int receives_add(struct receives *q, const struct ibv_recv_wr *wr);
void receives_free(struct receives *q);

/* receive_capacity is what a sender learns of a receive. */
uint32_t receive_capacity(const struct receive *r);

/* receives_show publishes how many receives of a datagram queue pair are posted. */
void receives_show(struct qp *qp);

/* receives_review shows senders which receives still have their memory, after some was registered again. */
void receives_review(struct context *c);

/* send_progress carries out posted requests, and completes them in order. */
void send_progress(struct qp *qp);
int sends_init(struct qp *qp, uint32_t size, uint32_t max_sge, uint32_t max_inline);
void sends_free(struct qp *qp);

/* send_message sends two-sided, or the immediate data of a WRITE; 0 where it has to wait. */
int send_message(struct qp *qp, struct request *r);

/* send_gone reports whether the peer was there and is in error, or away. */
int send_gone(const struct qp *qp);

/* send_wait is 0 while a request may wait for its peer, or receiver; send_end ends a request. */
int send_wait(struct qp *qp, struct request *r, int receiver);
int send_end(struct request *r, enum ibv_wc_status status);
void send_complete(struct qp *qp, const struct request *r);

/*
 * Memory that cannot be shared: stage_post sends a one-sided request in the ring, stage_serve
 * carries one out for the peer, or keeps a question until stage_answer has room for the answer,
 * and stage_answered takes the peer's answer.
 */
int stage_post(struct qp *qp, struct request *r);
void stage_answer(struct qp *qp);
int stage_serve(struct qp *qp, const struct bee_entry *e, const uint8_t *payload);
void stage_answered(struct qp *qp, struct request *r, const struct bee_entry *e, const uint8_t *data);

/* send_reply notes the answer of the peer to a request that it carried out. */
void send_reply(struct qp *qp, const struct bee_entry *e, const uint8_t *data);

/* gather copies `bytes` of a request, from `offset` on. */
enum ibv_wc_status gather(struct qp *qp, const struct request *r, uint64_t offset, uint8_t *to, uint64_t bytes);

/* one_sided carries out WRITE, READ or an atomic operation; 0 where it has to wait. */
int one_sided(struct qp *qp, struct request *r);
void remotes_free(struct qp *qp);

/* datagram_send and datagram_progress are the same for UD. */
int datagram_send(struct qp *qp, struct request *r);
void datagram_progress(struct qp *qp);
int datagram_waiting(const struct qp *qp);
void targets_free(struct qp *qp);

/* wr_offer sets the functions of ibv_wr_*. */
int wr_offer(struct qp *qp, uint64_t operations);
void wr_free(struct qp *qp);

#endif
