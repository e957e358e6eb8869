#include "context.h"
#include "cq.h"
#include "broker.h"
#include "mr.h"
#include "qp.h"

static int local_invalidate(struct qp *qp, struct request *r)
{
	int found = mr_void(context_of(qp->qp.context), qp->qp.pd, r->wr.invalidate_rkey);

	return send_end(r, found ? IBV_WC_SUCCESS : IBV_WC_LOC_QP_OP_ERR);
}

/* attempt carries out a request; 0 where it has to wait. */
static int attempt(struct qp *qp, struct request *r)
{
	if ((r->wr.send_flags & IBV_SEND_FENCE) && qp->open)
		return 0;
	if (qp->qp.qp_type == IBV_QPT_UD)
		return datagram_send(qp, r);
	switch (r->wr.opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return send_message(qp, r);
	case IBV_WR_LOCAL_INV:
		return local_invalidate(qp, r);
	default:
		return one_sided(qp, r);
	}
}

/* answered reports whether the peer is done with a request that it carries out. */
static int answered(const struct qp *qp, struct request *r)
{
	uint64_t done;

	if (r->stage != WAITING || r->wr.opcode == IBV_WR_RDMA_READ || r->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		r->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return r->stage == FINISHED; /* by an entry of the peer */
	done = __atomic_load_n(&qp->tx.ring->done, __ATOMIC_ACQUIRE);
	if (done < r->number || done > qp->numbered)
		return 0;
	if (done == r->number)
		r->status = (enum ibv_wc_status)__atomic_load_n(&qp->tx.ring->done_status, __ATOMIC_RELAXED);
	r->stage = FINISHED;
	return 1;
}

/* complete ends requests in order; a failed one takes the queue pair with it. */
static int complete(struct qp *qp)
{
	struct sends *s = &qp->sends;

	while (s->completed != s->next) {
		struct request *r = &s->entry[s->completed % s->size];

		if (!answered(qp, r)) {
			if (!send_gone(qp))
				return 0;
			send_end(r, IBV_WC_RETRY_EXC_ERR);
		}
		send_complete(qp, r);
		if (r->status == IBV_WC_REM_ACCESS_ERR)
			qp_fail(qp, 1, 1, IBV_EVENT_QP_ACCESS_ERR);
		else if (r->status == IBV_WC_REM_INV_REQ_ERR && !r->claimed)
			qp_fail(qp, 1, 1, IBV_EVENT_QP_REQ_ERR);
		else if (r->status)
			qp_fail(qp, 1, 0, -1);
		if (r->status)
			return 1;
	}
	return 0;
}

void send_progress(struct qp *qp)
{
	struct sends *s = &qp->sends;
	enum ibv_qp_state state = qp_state(qp);

	if (state != IBV_QPS_RTS && state != IBV_QPS_SQD)
		return;
	while (state == IBV_QPS_RTS && s->next != s->posted) {
		struct request *r = &s->entry[s->next % s->size];

		if (!attempt(qp, r))
			break;
		s->next++;
		if (r->status)
			break;
	}
	if (complete(qp))
		qp_flush(qp);
}

static void flush_sends(struct qp *qp)
{
	struct sends *s = &qp->sends;

	while (s->completed != s->posted) {
		struct request *r = &s->entry[s->completed % s->size];

		if (r->stage != FINISHED && !(qp->pair && answered(qp, r))) { /* it may be over since the last look */
			r->status = (r->since || r->number) && send_gone(qp)
				? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR;
			r->stage = FINISHED;
		}
		send_complete(qp, r);
	}
	s->next = s->posted;
}

static void flush_receives(struct qp *qp)
{
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV};
	struct receives *q = &qp->receives;

	if (qp->current)
		receive_complete(qp, qp->current, &wc, 0);
	qp->current = NULL;
	if (qp->qp.srq)
		return;
	for (; q->taken != q->posted; q->taken++)
		receive_complete(qp, &q->entry[q->taken % q->size], &wc, 0);
	receives_show(qp);
}

/* last raises the event after which no more receives of the SRQ come to this queue pair. */
static void last(struct qp *qp)
{
	struct bee_raise ask = {{sizeof ask, BEE_OP_RAISE, 0}, IBV_EVENT_QP_LAST_WQE_REACHED, qp->qp.handle};
	struct bee_reply reply;

	broker_call(context_of(qp->qp.context), &ask, &reply, sizeof reply, NULL, NULL);
}

/*
 * owed reports whether a message waits for a receive of the SRQ though its sender has seen it complete: several
 * senders have counted on one receive, and this one has ended since.
 */
static int owed(struct qp *qp)
{
	struct bee_entry e;
	uint8_t *payload;

	return qp->qp.srq && qp->pair && !qp->given_up && ring_next(&qp->rx, &e, &payload) > 0 && (e.flags & BEE_ENTRY_FLAG_CLAIMED);
}

void qp_flush(struct qp *qp)
{
	enum ibv_qp_state state = qp_state(qp);
	int first = !qp->flushed;

	if (state != IBV_QPS_ERR && state != IBV_QPS_SQE)
		return;
	qp->qp.state = state;
	flush_sends(qp);
	if (state != IBV_QPS_ERR || owed(qp))
		return;
	flush_receives(qp);
	qp->flushed = 1;
	if (first && qp->qp.srq)
		last(qp);
}

void qp_reset(struct qp *qp)
{
	struct sends *s = &qp->sends;

	s->posted = s->next = s->completed = 0;
	__atomic_store_n(&s->retired, 0, __ATOMIC_RELEASE);
	qp->receives.posted = qp->receives.taken = qp->posted = 0;
	qp->flushed = qp->given_up = 0;
	receives_show(qp);
	disconnect_pair(qp);
}
