#include "broker.h"
#include "context.h"
#include "qp.h"

enum ibv_qp_state qp_state(const struct qp *qp)
{
	return state_of(context_of(qp->qp.context)->table, qp->slot);
}

/* publish offers the receives that were posted before the rings were there. */
static void publish(struct qp *qp)
{
	struct receives *q = &qp->receives;

	if (qp->qp.srq) {
		qp->rx.ring->shared = ((struct srq *)qp->qp.srq)->place;
		__atomic_store_n(&qp->rx.ring->posted, BEE_SHARED_RECEIVES, __ATOMIC_RELEASE);
		return;
	}
	for (; qp->posted != q->posted; qp->posted++)
		ring_post(qp->rx.ring, qp->posted, receive_capacity(&q->entry[qp->posted % q->size]));
}

static int map_pair(struct qp *qp, const struct passed *p, const struct bee_connect_reply *reply)
{
	struct bee_ring *ring = qp->pair;

	if (!ring) {
		if (reply->tx > 1 || reply->rx > 1)
			return 0;
		ring = map_shared(p, BEE_PAIR_BYTES, 1);
		if (!ring)
			return 0;
		qp->tx = (struct ring_writer){.ring = ring + reply->tx};
		qp->rx = (struct ring_reader){.ring = ring + reply->rx};
		qp->posted = qp->receives.taken;
		qp->far = reply->far != 0;
		publish(qp);
		__atomic_store_n(&qp->pair, ring, __ATOMIC_RELEASE); /* busy reads the rest without the lock */
		__atomic_store_n(&qp->tx.ring->attached, 1, __ATOMIC_SEQ_CST);
	}
	return 1;
}

int connect_pair(struct qp *qp)
{
	struct context *c = context_of(qp->qp.context);
	struct bee_connect ask = {{sizeof ask, BEE_OP_CONNECT, 0}, qp->qp.handle, 0};
	struct bee_connect_reply reply;
	struct passed p[1 + PROCESS_DESCRIPTORS] = {{-1, 0}, {-1, 0}, {-1, 0}, {-1, 0}};
	uint32_t n = 1 + PROCESS_DESCRIPTORS;
	int error;

	_Static_assert(sizeof(struct bee_ring) == BEE_RING_BYTES, "a ring fills its part of the pair");
	error = broker_call(c, &ask, &reply, sizeof reply, p, &n);
	if (!error && !map_pair(qp, &p[0], &reply))
		error = ENOMEM;
	if (!error && reply.present) {
		qp->peer_slot = reply.slot;
		qp->peer = process_of(c, reply.process, p + 1);
		wake(c, qp->peer);
	}
	for (int i = 0; i < 1 + PROCESS_DESCRIPTORS; i++)
		close_fd(p[i].fd);
	return error;
}

void disconnect_pair(struct qp *qp)
{
	unmap(qp->pair, BEE_PAIR_BYTES);
	qp->pair = NULL;
	qp->tx = (struct ring_writer){0};
	qp->rx = (struct ring_reader){0};
	qp->peer = NULL;
	qp->claimed = qp->numbered = qp->served = 0;
	qp->ahead = 0;
	qp->asked = qp->answered = 0;
	qp->open = 0;
	qp->refusing = 0;
	qp->current = NULL;
	remotes_free(qp);
}

/* busy reports whether there is anything to do; without the lock, so only a hint. */
static int busy(const struct qp *qp)
{
	const struct bee_ring *pair = __atomic_load_n(&qp->pair, __ATOMIC_ACQUIRE);

	if (qp->sends.completed != qp->sends.posted || qp->asked != qp->answered)
		return 1;
	if (qp->inbox && datagram_waiting(qp))
		return 1;
	if (pair && ring_waiting(&qp->rx))
		return 1;
	if (pair && !qp->peer && __atomic_load_n(&qp->rx.ring->attached, __ATOMIC_ACQUIRE))
		return 1;
	return !qp->flushed && qp_state(qp) == IBV_QPS_ERR;
}

static void progress(struct qp *qp)
{
	if (qp->pair && !qp->peer && __atomic_load_n(&qp->rx.ring->attached, __ATOMIC_ACQUIRE) && qp_state(qp) != IBV_QPS_ERR)
		connect_pair(qp);
	if (qp->inbox)
		datagram_progress(qp);
	if (qp->pair)
		receive_progress(qp);
	if (qp->pair)
		stage_answer(qp);
	send_progress(qp);
	if (!qp->flushed && qp_state(qp) == IBV_QPS_ERR)
		qp_flush(qp);
}

void qp_poll(struct qp *qp, int wait)
{
	if (!busy(qp))
		return;
	if (wait)
		lock(&qp->lock);
	else if (!lock_try(&qp->lock))
		return;
	progress(qp);
	unlock(&qp->lock);
}

void qp_fail(struct qp *qp, int sending, int peer, int peer_event)
{
	struct bee_fail_qp ask = {
		.request = {sizeof ask, BEE_OP_FAIL_QP, 0}, .handle = qp->qp.handle,
		.sqe = sending && qp->qp.qp_type != IBV_QPT_RC, .event = -1, .peer = (uint32_t)peer, .peer_event = peer_event,
	};
	struct bee_reply reply;

	qp->given_up |= qp_state(qp) != IBV_QPS_ERR; /* else another has ended it before */
	broker_call(context_of(qp->qp.context), &ask, &reply, sizeof reply, NULL, NULL);
}
