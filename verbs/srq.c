#include "broker.h"
#include "context.h"
#include "cq.h"
#include "qp.h"

/* take_place reserves a place in the process page: 0 where all are taken. */
static uint32_t take_place(struct context *c)
{
	uint32_t place = 0;

	lock(&c->lock);
	while (place < BEE_SRQS && c->srqs[place])
		place++;
	if (place < BEE_SRQS)
		c->srqs[place] = 1;
	unlock(&c->lock);
	return place < BEE_SRQS ? place + 1 : 0;
}

static void leave_place(struct context *c, uint32_t place)
{
	if (!place)
		return;
	__atomic_store_n(&c->page->srq[place - 1].receives, 0, __ATOMIC_RELEASE);
	lock(&c->lock);
	c->srqs[place - 1] = 0;
	unlock(&c->lock);
}

void srq_show(struct srq *srq)
{
	struct context *c = context_of(srq->srq.context);

	if (srq->place)
		__atomic_store_n(&c->page->srq[srq->place - 1].receives, (uint32_t)(srq->queue.posted - srq->queue.taken), __ATOMIC_RELEASE);
}

/* show_posted publishes the receive that was posted last. */
static void show_posted(struct srq *srq)
{
	struct receives *q = &srq->queue;
	uint32_t bytes = receive_capacity(&q->entry[(q->posted - 1) % q->size]);
	struct bee_srq_room *room;

	if (!srq->place)
		return;
	room = &context_of(srq->srq.context)->page->srq[srq->place - 1];
	if (q->posted - q->taken == 1 || bytes < room->capacity)
		__atomic_store_n(&room->capacity, bytes, __ATOMIC_RELAXED);
	srq_show(srq);
}

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
	srq->place = take_place(c);
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
	leave_place(c, srq->place);
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
	for (; wr && !error; wr = error ? wr : wr->next) {
		error = receives_add(&srq->queue, wr);
		if (!error)
			show_posted(srq);
	}
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
