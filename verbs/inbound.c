#include "context.h"
#include "mr.h"
#include "qp.h"

/* carried reports to the sender that an unclaimed message is over. */
static void carried(struct qp *qp, const struct bee_entry *e, enum ibv_wc_status status)
{
	if (e->flags & BEE_ENTRY_FLAG_CLAIMED)
		return;
	if (status)
		__atomic_store_n(&qp->rx.ring->done_status, status, __ATOMIC_RELAXED);
	__atomic_store_n(&qp->rx.ring->done, e->request, __ATOMIC_RELEASE);
}

/* finish ends the message that is arriving. */
static void finish(struct qp *qp, const struct bee_entry *e, enum ibv_wc_status status)
{
	struct ibv_wc wc = {.status = status, .byte_len = (uint32_t)e->total, .src_qp = qp->attr.dest_qp_num,
		.slid = qp->attr.ah_attr.dlid};

	wc.opcode = e->opcode == BEE_ENTRY_IMMEDIATE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	if (e->flags & BEE_ENTRY_FLAG_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = e->imm;
	}
	if (e->flags & BEE_ENTRY_FLAG_INVALIDATE) {
		wc.wc_flags |= IBV_WC_WITH_INV;
		wc.invalidated_rkey = e->imm;
		mr_void(context_of(qp->qp.context), qp->qp.pd, e->imm);
	}
	receive_complete(qp, qp->current, &wc, !!(e->flags & BEE_ENTRY_FLAG_SOLICITED));
	qp->current = NULL;
	qp->refusing |= status != IBV_WC_SUCCESS;
	carried(qp, e, status == IBV_WC_LOC_LEN_ERR ? IBV_WC_REM_INV_REQ_ERR : status ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
	if (status)
		qp_fail(qp, 0, 0, -1);
}

/* fragment copies what an entry carries; a message that was dropped has no receive. */
static void fragment(struct qp *qp, const struct bee_entry *e, const uint8_t *payload)
{
	enum ibv_wc_status status;

	if (!qp->current)
		return;
	status = scatter(qp, qp->current, qp->arrived, payload, e->bytes);
	qp->arrived += e->bytes;
	if (status || qp->arrived >= e->total)
		finish(qp, e, status);
}

/* message begins one; 0 where no receive is posted for it yet. */
static int message(struct qp *qp, const struct bee_entry *e, const uint8_t *payload)
{
	qp->current = receive_take(qp);
	if (!qp->current)
		return qp->qp.qp_type == IBV_QPT_UC;
	qp->arrived = 0;
	if (e->opcode == BEE_ENTRY_IMMEDIATE)
		finish(qp, e, IBV_WC_SUCCESS);
	else if (e->total > qp->current->total)
		finish(qp, e, IBV_WC_LOC_LEN_ERR);
	else if (e->total && !e->bytes) /* its sender has found that the receive is void */
		finish(qp, e, IBV_WC_LOC_PROT_ERR);
	else
		fragment(qp, e, payload);
	return 1;
}

/* handle does what an entry asks; 0 where it has to stay, -1 where no writer may send such. */
static int handle(struct qp *qp, const struct bee_entry *e, const uint8_t *payload)
{
	if (qp->refusing && e->opcode != BEE_ENTRY_REPLY)
		return 1; /* the connection has failed, and its other side learns of that */
	switch (e->opcode) {
	case BEE_ENTRY_SEND:
	case BEE_ENTRY_IMMEDIATE:
		return message(qp, e, payload);
	case BEE_ENTRY_MORE:
		fragment(qp, e, payload);
		return 1;
	case BEE_ENTRY_WRITE:
	case BEE_ENTRY_READ:
	case BEE_ENTRY_ATOMIC_ADD:
	case BEE_ENTRY_ATOMIC_SWAP:
		return stage_serve(qp, e, payload);
	case BEE_ENTRY_REPLY:
		send_reply(qp, e, payload);
		return 1;
	default:
		return -1;
	}
}

void receive_progress(struct qp *qp)
{
	struct bee_entry e;
	uint8_t *payload;
	int r, moved = 0;

	while (!qp->flushed && (r = ring_next(&qp->rx, &e, &payload)) != 0) {
		if (r > 0)
			r = handle(qp, &e, payload);
		if (r < 0)
			qp_fail(qp, 0, 0, -1);
		if (r <= 0)
			break;
		ring_consume(&qp->rx, e.bytes);
		moved = 1;
	}
	if (moved)
		wake(context_of(qp->qp.context), qp->peer);
}
