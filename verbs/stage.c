#include "context.h"
#include "mr.h"
#include "qp.h"

/*
 * Requests on memory that cannot be shared travel in the ring, and the owner's process
 * carries them out. `total` of an entry counts the bytes that are left, this entry's
 * included, so that the last one is known.
 */

static void fill(const struct request *r, struct bee_entry *e)
{
	memset(e, 0, sizeof *e);
	e->total = r->total - r->sent;
	e->request = r->number;
	e->address = r->wr.wr.rdma.remote_addr + r->sent;
	e->key = r->wr.wr.rdma.rkey;
}

/* post_write sends the data in parts; 0 where the ring is full. */
static int post_write(struct qp *qp, struct request *r)
{
	while (r->sent < r->total) {
		uint64_t left = r->total - r->sent;
		uint32_t n = left < RING_FRAGMENT ? (uint32_t)left : RING_FRAGMENT;
		struct bee_entry *e = ring_reserve(&qp->tx, n);

		if (!e)
			return 0;
		fill(r, e);
		e->opcode = BEE_ENTRY_WRITE;
		e->bytes = n;
		if (gather(qp, r, r->sent, (uint8_t *)(e + 1), n))
			e->key = 0; /* the entries were there when the request was posted */
		ring_publish(&qp->tx);
		r->sent += n;
	}
	return 1;
}

static int post_question(struct qp *qp, struct request *r)
{
	struct bee_entry *e;

	if (qp->open && qp->open >= qp->attr.max_rd_atomic)
		return 0;
	e = ring_reserve(&qp->tx, 0);
	if (!e)
		return 0;
	fill(r, e);
	e->opcode = BEE_ENTRY_READ;
	if (r->wr.opcode != IBV_WR_RDMA_READ) {
		e->opcode = r->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? BEE_ENTRY_ATOMIC_ADD : BEE_ENTRY_ATOMIC_SWAP;
		e->address = r->wr.wr.atomic.remote_addr;
		e->key = r->wr.wr.atomic.rkey;
		e->operand[0] = r->wr.wr.atomic.compare_add;
		e->operand[1] = r->wr.wr.atomic.swap;
	}
	ring_publish(&qp->tx);
	qp->open++;
	return 1;
}

int stage_post(struct qp *qp, struct request *r)
{
	int writing = r->wr.opcode == IBV_WR_RDMA_WRITE || r->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM, sent;

	for (int i = 0; i < r->wr.num_sge && !(r->wr.send_flags & IBV_SEND_INLINE); i++)
		if (r->sge[i].length && !mr_at(qp, &r->sge[i], writing ? 0 : IBV_ACCESS_LOCAL_WRITE))
			return send_end(r, IBV_WC_LOC_PROT_ERR);
	if (!r->number)
		r->number = ++qp->numbered;
	sent = writing ? post_write(qp, r) : post_question(qp, r);
	wake(context_of(qp->qp.context), qp->peer);
	if (!sent)
		return 0;
	r->stage = WAITING;
	return 1;
}

/* owned returns the memory behind an entry, NULL where the peer may not reach it. */
static uint8_t *owned(struct qp *qp, const struct bee_entry *e, uint64_t bytes, uint32_t access)
{
	struct ibv_sge at = {e->address, (uint32_t)bytes, e->key};

	if (bytes > UINT32_MAX || (qp->attr.qp_access_flags & access) != access)
		return NULL;
	return mr_at(qp, &at, access);
}

/* served counts bytes that were copied; the last ones of a request count that, too. */
static void served(struct qp *qp, uint64_t bytes, int last)
{
	struct context *c = context_of(qp->qp.context);

	count(c, BEE_COUNT_STAGED, (uint64_t)last);
	count(c, BEE_COUNT_STAGED_BYTES, bytes);
}

static void refuse(struct qp *qp, enum ibv_wc_status status)
{
	__atomic_store_n(&qp->rx.ring->done_status, status, __ATOMIC_RELAXED);
	qp->refusing = 1;
}

static int serve_write(struct qp *qp, const struct bee_entry *e, const uint8_t *payload)
{
	uint8_t *to = owned(qp, e, e->bytes, IBV_ACCESS_REMOTE_WRITE);

	if (to) {
		memcpy(to, payload, e->bytes);
		served(qp, e->bytes, e->bytes >= e->total);
	} else {
		refuse(qp, IBV_WC_REM_ACCESS_ERR);
	}
	if (e->bytes >= e->total || !to)
		__atomic_store_n(&qp->rx.ring->done, e->request, __ATOMIC_RELEASE);
	return 1;
}

/* reply sends a part of an answer; 0 where the ring is full. */
static int reply(struct qp *qp, const struct bee_entry *e, const void *data, uint32_t bytes, uint64_t left, enum ibv_wc_status status)
{
	struct bee_entry *a = ring_reserve(&qp->tx, bytes);

	if (!a)
		return 0;
	if (status)
		refuse(qp, status);
	memset(a, 0, sizeof *a);
	a->opcode = BEE_ENTRY_REPLY;
	a->bytes = bytes;
	a->total = left;
	a->request = e->request;
	a->status = status;
	memcpy(a + 1, data, bytes);
	ring_publish(&qp->tx);
	return 1;
}

/* serve_read answers in parts; 0: the rest follows once there is room. */
static int serve_read(struct qp *qp, const struct bee_entry *e)
{
	uint8_t *from = owned(qp, e, e->total, IBV_ACCESS_REMOTE_READ);

	if (!from)
		return reply(qp, e, NULL, 0, 0, IBV_WC_REM_ACCESS_ERR);
	while (qp->served < e->total) {
		uint64_t left = e->total - qp->served;
		uint32_t n = left < RING_FRAGMENT ? (uint32_t)left : RING_FRAGMENT;

		if (!reply(qp, e, from + qp->served, n, left, IBV_WC_SUCCESS))
			return 0;
		qp->served += n;
	}
	qp->served = 0;
	served(qp, e->total, 1);
	return 1;
}

/* room reports whether a short answer fits: with what fills the ring to its end, at most. */
static int room(const struct qp *qp)
{
	return qp->tx.head - __atomic_load_n(&qp->tx.ring->tail, __ATOMIC_ACQUIRE) < BEE_RING_DATA - 4 * sizeof(struct bee_entry);
}

static int serve_atomic(struct qp *qp, const struct bee_entry *e)
{
	uint64_t *at = (uint64_t *)owned(qp, e, 8, IBV_ACCESS_REMOTE_ATOMIC), before = e->operand[0];

	if (!at || (uintptr_t)at % 8)
		return reply(qp, e, NULL, 0, 0, at ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
	if (!room(qp))
		return 0; /* before anything is changed */
	if (e->opcode == BEE_ENTRY_ATOMIC_ADD)
		before = __atomic_fetch_add(at, e->operand[0], __ATOMIC_SEQ_CST);
	else
		__atomic_compare_exchange_n(at, &before, e->operand[1], 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	served(qp, 8, 1);
	return reply(qp, e, &before, 8, 8, IBV_WC_SUCCESS);
}

/* Answers come later than what follows a question: two full rings must not wait for each other. */
int stage_serve(struct qp *qp, const struct bee_entry *e, const uint8_t *payload)
{
	if (e->opcode == BEE_ENTRY_WRITE)
		return serve_write(qp, e, payload);
	if (qp->asked - qp->answered == QUESTIONS)
		return -1;
	qp->question[qp->asked++ % QUESTIONS] = *e;
	return 1;
}

void stage_answer(struct qp *qp)
{
	uint64_t before = qp->answered, part = qp->served;

	for (; qp->answered != qp->asked; qp->answered++) {
		const struct bee_entry *e = &qp->question[qp->answered % QUESTIONS];

		if (!qp->refusing && !(e->opcode == BEE_ENTRY_READ ? serve_read(qp, e) : serve_atomic(qp, e)))
			break;
	}
	if (qp->answered != before || qp->served != part)
		wake(context_of(qp->qp.context), qp->peer);
}

/* store copies a part of an answer to where the request wants it. */
static enum ibv_wc_status store(struct qp *qp, const struct request *r, const struct bee_entry *e, const uint8_t *data)
{
	struct receive to = {.total = r->total, .count = (uint32_t)r->wr.num_sge, .sge = r->sge};

	return scatter(qp, &to, r->sent, data, e->bytes) ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}

void stage_answered(struct qp *qp, struct request *r, const struct bee_entry *e, const uint8_t *data)
{
	enum ibv_wc_status status = (enum ibv_wc_status)e->status;

	if (!status && e->bytes <= r->total - r->sent)
		status = store(qp, r, e, data);
	r->sent += e->bytes;
	if (status || r->sent >= r->total) {
		qp->open--;
		send_end(r, status);
	}
}
