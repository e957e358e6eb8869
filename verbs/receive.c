#include "context.h"
#include "cq.h"
#include "mr.h"
#include "qp.h"

int receives_init(struct receives *q, uint32_t size, uint32_t max_sge)
{
	q->size = size;
	q->max_sge = max_sge;
	q->entry = calloc(size + 1, sizeof *q->entry);
	q->sge = calloc((size_t)(size + 1) * (max_sge + 1), sizeof *q->sge);
	if (!q->entry || !q->sge)
		return ENOMEM;
	for (uint32_t i = 0; i < size; i++)
		q->entry[i].sge = q->sge + (size_t)i * max_sge;
	return 0;
}

void receives_free(struct receives *q)
{
	free(q->entry);
	free(q->sge);
}

int receives_add(struct receives *q, const struct ibv_recv_wr *wr)
{
	struct receive *r;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > q->max_sge)
		return EINVAL;
	if (q->posted - q->taken >= q->size)
		return ENOMEM;
	r = &q->entry[q->posted % q->size];
	r->wr_id = wr->wr_id;
	r->count = (uint32_t)wr->num_sge;
	r->total = 0;
	for (uint32_t i = 0; i < r->count; i++) {
		r->sge[i] = wr->sg_list[i];
		r->total += wr->sg_list[i].length;
	}
	q->posted++;
	return 0;
}

uint32_t receive_capacity(const struct receive *r)
{
	return r->total < BEE_RECEIVE_VOID ? (uint32_t)r->total : BEE_RECEIVE_VOID - 1;
}

/* writable reports whether a message may be written to every scatter entry. */
static int writable(struct qp *qp, const struct receive *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		if (r->sge[i].length && !mr_at(qp, &r->sge[i], IBV_ACCESS_LOCAL_WRITE))
			return 0;
	return 1;
}

static void review(struct qp *qp)
{
	struct receives *q = &qp->receives;

	lock(&qp->lock);
	for (uint64_t i = q->taken; qp->pair && i != q->posted; i++) {
		const struct receive *r = &q->entry[i % q->size];
		uint64_t number = qp->posted - (q->posted - i);
		uint32_t *capacity = &qp->rx.ring->capacity[number % BEE_CREDITS];

		__atomic_store_n(capacity, writable(qp, r) ? receive_capacity(r) : BEE_RECEIVE_VOID, __ATOMIC_RELAXED);
	}
	unlock(&qp->lock);
}

void receives_review(struct context *c)
{
	lock(&c->queues_lock);
	for (struct cq *cq = c->queues; cq; cq = cq->sibling) {
		lock(&cq->pairs_lock);
		for (uint32_t i = 0; i < cq->pair_count; i++)
			if (cq->pairs[i]->qp.recv_cq == &cq->cq)
				review(cq->pairs[i]);
		unlock(&cq->pairs_lock);
	}
	unlock(&c->queues_lock);
}

void receives_show(struct qp *qp)
{
	if (qp->inbox && !qp->qp.srq)
		__atomic_store_n(&qp->inbox->receives, qp->receives.posted - qp->receives.taken, __ATOMIC_RELAXED);
}

int post_recv(struct ibv_qp *x, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *qp = (struct qp *)x;
	struct context *c = context_of(x->context);
	int error = forked(c) ? EIO : x->srq || x->state == IBV_QPS_RESET ? EINVAL : 0;

	lock(&qp->lock);
	for (; wr && !error; wr = wr->next) {
		error = receives_add(&qp->receives, wr);
		if (error)
			break;
		if (qp->pair)
			ring_post(qp->rx.ring, qp->posted++, receive_capacity(&qp->receives.entry[(qp->receives.posted - 1) % qp->receives.size]));
	}
	receives_show(qp);
	if (qp_state(qp) == IBV_QPS_ERR)
		qp_flush(qp);
	if (qp->pair && !qp->peer && __atomic_load_n(&qp->rx.ring->attached, __ATOMIC_ACQUIRE))
		connect_pair(qp);
	unlock(&qp->lock);
	if (error)
		*bad = wr;
	wake(c, qp->peer); /* it may wait for this receive */
	return error;
}

static struct receive *take_shared(struct qp *qp)
{
	struct srq *srq = (struct srq *)qp->qp.srq;
	struct receives *q = &srq->queue;
	struct receive *r = NULL, *from;

	lock(&srq->lock);
	if (q->taken != q->posted) {
		from = &q->entry[q->taken % q->size];
		r = &qp->spare;
		memcpy(r->sge, from->sge, from->count * sizeof *r->sge);
		r->wr_id = from->wr_id;
		r->total = from->total;
		r->count = from->count;
		q->taken++;
		srq_show(srq);
	}
	unlock(&srq->lock);
	if (r)
		srq_taken(srq);
	return r;
}

struct receive *receive_take(struct qp *qp)
{
	struct receives *q = &qp->receives;
	struct receive *from, *r = &qp->spare;

	if (qp->qp.srq)
		return take_shared(qp);
	if (q->taken == q->posted)
		return NULL;
	from = &q->entry[q->taken % q->size];
	memcpy(r->sge, from->sge, from->count * sizeof *r->sge);
	r->wr_id = from->wr_id;
	r->total = from->total;
	r->count = from->count;
	q->taken++;
	receives_show(qp);
	return r;
}

enum ibv_wc_status scatter(struct qp *qp, const struct receive *r, uint64_t offset, const uint8_t *from, uint64_t bytes)
{
	for (uint32_t i = 0; i < r->count && bytes > 0; i++) {
		const struct ibv_sge *s = &r->sge[i];
		uint64_t n;
		uint8_t *to;

		if (offset >= s->length) {
			offset -= s->length;
			continue;
		}
		to = mr_at(qp, s, IBV_ACCESS_LOCAL_WRITE);
		if (!to)
			return IBV_WC_LOC_PROT_ERR;
		n = s->length - offset < bytes ? s->length - offset : bytes;
		memcpy(to + offset, from, n);
		from += n;
		bytes -= n;
		offset = 0;
	}
	return bytes ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
}

void receive_complete(struct qp *qp, const struct receive *r, struct ibv_wc *wc, int solicited)
{
	struct completion e = {.wc = *wc};

	e.wc.wr_id = r->wr_id;
	e.wc.qp_num = qp->qp.qp_num;
	cq_push((struct cq *)qp->qp.recv_cq, &e, solicited);
	count(context_of(qp->qp.context), BEE_COUNT_RECEIVES, 1);
}
