#include "context.h"
#include "mr.h"
#include "qp.h"

/* rnr_ns holds the times of min_rnr_timer, in units of 10 µs (InfiniBand, table 45). */
static uint64_t rnr_ns(uint8_t code)
{
	static const uint16_t unit[32] = {65535, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384,
		512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

	return unit[code & 31] * 10000ull;
}

/* present reports whether the peer is there and can receive. */
static int present(const struct qp *qp)
{
	enum ibv_qp_state state;

	if (!qp->peer)
		return 0;
	state = state_of(qp->peer->table, qp->peer_slot);
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE;
}

int send_gone(const struct qp *qp)
{
	return qp->peer && state_of(qp->peer->table, qp->peer_slot) == IBV_QPS_ERR;
}

/* expired returns how a request that waits for its peer ends, once its time is over. */
static enum ibv_wc_status expired(struct qp *qp, struct request *r, int receiver)
{
	const struct ibv_qp_attr *a = &qp->attr;
	uint64_t now, limit;

	if (send_gone(qp))
		return IBV_WC_RETRY_EXC_ERR;
	now = monotonic_ns();
	if (!r->since)
		r->since = now;
	if (receiver && present(qp)) {
		limit = rnr_ns(a->min_rnr_timer) * (a->rnr_retry + 1u);
		return a->rnr_retry < 7 && now - r->since > limit ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_SUCCESS;
	}
	limit = (4096ull << (a->timeout & 31)) * (a->retry_cnt + 1u);
	return a->timeout && now - r->since > limit ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS;
}

int send_wait(struct qp *qp, struct request *r, int receiver)
{
	r->status = expired(qp, r, receiver);
	if (!r->status)
		return 0;
	r->stage = FINISHED;
	return 1;
}

int send_end(struct request *r, enum ibv_wc_status status)
{
	r->status = status;
	r->stage = FINISHED;
	return 1;
}

/* readable reports whether every scatter entry may be read. */
static int readable(struct qp *qp, const struct request *r)
{
	if (r->wr.send_flags & IBV_SEND_INLINE)
		return 1;
	for (int i = 0; i < r->wr.num_sge; i++)
		if (r->sge[i].length && !mr_at(qp, &r->sge[i], 0))
			return 0;
	return 1;
}

/*
 * shared_room reports whether the reader's shared receive queue has a receive for the message. The messages
 * before it, of this queue pair, may need one each until the ring is empty.
 */
static int shared_room(struct qp *qp, const struct request *r)
{
	uint32_t place = __atomic_load_n(&qp->tx.ring->shared, __ATOMIC_RELAXED) - 1;
	const struct bee_srq_room *room;

	if (!qp->peer && __atomic_load_n(&qp->rx.ring->attached, __ATOMIC_ACQUIRE))
		connect_pair(qp);
	if (qp->far || !qp->peer || place >= BEE_SRQS)
		return 0;
	if (__atomic_load_n(&qp->tx.ring->tail, __ATOMIC_ACQUIRE) == qp->tx.head)
		qp->ahead = 0;
	room = &qp->peer->page->srq[place];
	if (__atomic_load_n(&room->receives, __ATOMIC_ACQUIRE) <= qp->ahead)
		return 0;
	if (r->wr.opcode != IBV_WR_RDMA_WRITE_WITH_IMM && r->total > __atomic_load_n(&room->capacity, __ATOMIC_RELAXED))
		return 0;
	qp->ahead++;
	return 1;
}

/*
 * claim makes sure that the message will be received: 1, or 0 where it has to wait. A
 * reader whose shared receive queue has too few reports afterwards, as does another machine.
 */
static int claim(struct qp *qp, struct request *r)
{
	uint32_t capacity;

	if (r->claimed || r->number)
		return 1;
	if (__atomic_load_n(&qp->tx.ring->posted, __ATOMIC_ACQUIRE) == BEE_SHARED_RECEIVES) {
		if (shared_room(qp, r))
			r->claimed = 1;
		else
			r->number = ++qp->numbered;
		return 1;
	}
	if (!ring_claim(qp->tx.ring, qp->claimed, &capacity))
		return 0;
	qp->claimed++;
	r->claimed = 1;
	if (capacity == BEE_RECEIVE_VOID && qp->qp.qp_type == IBV_QPT_RC && r->wr.opcode != IBV_WR_RDMA_WRITE_WITH_IMM && r->total)
		r->status = IBV_WC_REM_OP_ERR;
	else if (capacity != BEE_RECEIVE_VOID && r->wr.opcode != IBV_WR_RDMA_WRITE_WITH_IMM && r->total > capacity)
		r->status = IBV_WC_REM_INV_REQ_ERR;
	else if (qp->far)
		r->number = ++qp->numbered;
	return 1;
}

static void head(const struct request *r, struct bee_entry *e, uint32_t bytes)
{
	memset(e, 0, sizeof *e);
	e->opcode = r->sent ? BEE_ENTRY_MORE : BEE_ENTRY_SEND;
	e->bytes = bytes;
	e->total = r->total;
	e->flags = r->claimed ? BEE_ENTRY_FLAG_CLAIMED : 0;
	if (r->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		e->opcode = BEE_ENTRY_IMMEDIATE;
	if (r->wr.opcode == IBV_WR_SEND_WITH_IMM || r->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		e->flags |= BEE_ENTRY_FLAG_IMM;
	if (r->wr.opcode == IBV_WR_SEND_WITH_INV)
		e->flags |= BEE_ENTRY_FLAG_INVALIDATE;
	if (r->wr.send_flags & IBV_SEND_SOLICITED)
		e->flags |= BEE_ENTRY_FLAG_SOLICITED;
	e->imm = r->wr.imm_data;
	e->request = r->number;
}

/* put writes the message into the ring; 0 where there is no room for all of it yet. */
static int put(struct qp *qp, struct request *r)
{
	struct context *c = context_of(qp->qp.context);
	uint64_t left = r->status || r->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? 0 : r->total - r->sent;

	do {
		uint32_t n = left < RING_FRAGMENT ? (uint32_t)left : RING_FRAGMENT;
		struct bee_entry *e = ring_reserve(&qp->tx, n);

		if (!e) {
			wake(c, qp->peer);
			return 0;
		}
		head(r, e, n);
		if (n)
			gather(qp, r, r->sent, (uint8_t *)(e + 1), n);
		ring_publish(&qp->tx);
		r->sent += n;
		left -= n;
		count(c, BEE_COUNT_RING_BYTES, n);
	} while (left);
	wake(c, qp->peer);
	return 1;
}

int send_message(struct qp *qp, struct request *r)
{
	int unreliable = qp->qp.qp_type == IBV_QPT_UC;

	if (!qp->pair)
		return unreliable ? send_end(r, IBV_WC_SUCCESS) : send_wait(qp, r, 0);
	if (!r->sent && !readable(qp, r))
		return send_end(r, IBV_WC_LOC_PROT_ERR);
	if (send_gone(qp) && !unreliable)
		return send_end(r, IBV_WC_RETRY_EXC_ERR);
	if (!claim(qp, r))
		return unreliable ? send_end(r, IBV_WC_SUCCESS) : send_wait(qp, r, 1);
	if (!put(qp, r))
		return 0;
	count(context_of(qp->qp.context), BEE_COUNT_SENDS, 1);
	if (r->claimed && (!qp->far || r->status))
		r->number = r->staged;
	r->stage = !r->number || unreliable ? FINISHED : WAITING;
	return 1;
}
