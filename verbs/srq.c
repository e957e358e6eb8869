#include "broker.h"
#include "context.h"
#include "cq.h"
#include "qp.h"

struct ibv_srq *create_srq_ex(struct ibv_context *x, struct ibv_srq_init_attr_ex *a)
{
	struct context *c = context_of(x);
	struct srq *srq;
	int error;

	if (((a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && a->srq_type != IBV_SRQT_BASIC) || !(a->comp_mask & IBV_SRQ_INIT_ATTR_PD))
		return fail(EOPNOTSUPP);
	if (a->attr.max_wr > c->limits.max_wr || a->attr.max_sge > c->limits.max_sge)
		return fail(EINVAL);
	srq = calloc(1, sizeof *srq);
	if (!srq)
		return fail(ENOMEM);
	srq->srq.context = x;
	srq->srq.srq_context = a->srq_context;
	srq->srq.pd = a->pd;
	error = receives_init(&srq->queue, a->attr.max_wr, a->attr.max_sge);
	if (!error)
		error = broker_create(c, BEE_KIND_SRQ, a->pd->handle, &srq->handle);
	if (error) {
		receives_free(&srq->queue);
		free(srq);
		return fail(error);
	}
	srq->srq.handle = srq->number = srq->handle;
	track(c, &srq->object, srq->handle, srq);
	return &srq->srq;
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	struct ibv_srq_init_attr_ex ex = {.srq_context = a->srq_context, .attr = a->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD, .pd = pd};

	return create_srq_ex(pd->context, &ex);
}

int get_srq_num(struct ibv_srq *x, uint32_t *number)
{
	(void)x, (void)number;
	return EOPNOTSUPP; /* only XRC has such numbers */
}

static int resize(struct srq *srq, uint32_t size)
{
	struct receives grown = {0};

	if (size < srq->queue.posted - srq->queue.taken || receives_init(&grown, size, srq->queue.max_sge)) {
		receives_free(&grown);
		return size < srq->queue.posted - srq->queue.taken ? EINVAL : ENOMEM;
	}
	for (uint64_t i = srq->queue.taken; i != srq->queue.posted; i++) {
		struct receive *from = &srq->queue.entry[i % srq->queue.size], *to = &grown.entry[grown.posted++];
		struct ibv_sge *sge = to->sge;

		*to = *from;
		to->sge = sge;
		memcpy(sge, from->sge, from->count * sizeof *sge);
	}
	receives_free(&srq->queue);
	srq->queue = grown;
	return 0;
}

EXPORT int ibv_modify_srq(struct ibv_srq *x, struct ibv_srq_attr *a, int mask)
{
	struct srq *srq = (struct srq *)x;
	int error = 0;

	lock(&srq->lock);
	if (mask & IBV_SRQ_MAX_WR)
		error = a->max_wr == 0 || a->max_wr > context_of(x->context)->limits.max_wr ? EINVAL : resize(srq, a->max_wr);
	if (!error && (mask & IBV_SRQ_LIMIT)) {
		if (a->srq_limit > srq->queue.size)
			error = EINVAL;
		else
			srq->limit = a->srq_limit;
	}
	unlock(&srq->lock);
	return error;
}

EXPORT int ibv_query_srq(struct ibv_srq *x, struct ibv_srq_attr *a)
{
	struct srq *srq = (struct srq *)x;

	lock(&srq->lock);
	a->max_wr = srq->queue.size;
	a->max_sge = srq->queue.max_sge;
	a->srq_limit = srq->limit;
	unlock(&srq->lock);
	return 0;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *x)
{
	struct srq *srq = (struct srq *)x;
	struct context *c = context_of(x->context);
	int error = broker_destroy(c, srq->handle);

	if (error)
		return error;
	forget(c, &srq->object);
	await(&x->events_completed, srq->object.events);
	receives_free(&srq->queue);
	free(srq);
	return 0;
}

int post_srq_recv(struct ibv_srq *x, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct srq *srq = (struct srq *)x;
	int error = forked(context_of(x->context)) ? EIO : 0;

	lock(&srq->lock);
	for (; wr && !error; wr = error ? wr : wr->next)
		error = receives_add(&srq->queue, wr);
	unlock(&srq->lock);
	if (error)
		*bad = wr;
	return error;
}

void srq_taken(struct srq *srq)
{
	struct bee_raise ask = {{sizeof ask, BEE_OP_RAISE, 0}, IBV_EVENT_SRQ_LIMIT_REACHED, srq->handle};
	struct bee_reply reply;
	int reached;

	lock(&srq->lock);
	reached = srq->limit && srq->queue.posted - srq->queue.taken < srq->limit;
	if (reached)
		srq->limit = 0;
	unlock(&srq->lock);
	if (reached)
		broker_call(context_of(srq->srq.context), &ask, &reply, sizeof reply, NULL, NULL);
}
