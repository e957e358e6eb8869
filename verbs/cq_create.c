#include "broker.h"
#include "context.h"
#include "cq.h"
#include "poll.h"

static struct cq *create(struct context *c, uint32_t entries, void *user, struct ibv_comp_channel *channel, uint32_t vector)
{
	struct cq *cq;
	int error;

	if (entries == 0 || entries > c->limits.max_wr * 16 || vector != 0)
		return fail(EINVAL);
	cq = calloc(1, sizeof *cq);
	if (!cq)
		return fail(ENOMEM);
	cq->size = entries;
	cq->entry = calloc(entries, sizeof *cq->entry);
	cq->cq.context = &c->v.context;
	cq->cq.channel = channel;
	cq->cq.cq_context = user;
	cq->cq.cqe = (int)entries;
	error = cq->entry ? broker_create(c, BEE_KIND_CQ, 0, &cq->handle) : ENOMEM;
	if (error) {
		free(cq->entry);
		free(cq);
		return fail(error);
	}
	cq->cq.handle = cq->handle;
	track(c, &cq->object, cq->handle, cq);
	lock(&c->queues_lock);
	cq->sibling = c->queues;
	c->queues = cq;
	unlock(&c->queues_lock);
	if (channel)
		channel_join((struct channel *)channel, cq);
	return cq;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *x, int entries, void *user,
				    struct ibv_comp_channel *channel, int vector)
{
	struct cq *cq = create(context_of(x), entries < 0 ? 0 : (uint32_t)entries, user, channel, (uint32_t)vector);

	return cq ? &cq->cq : NULL;
}

struct ibv_cq_ex *create_cq_ex(struct ibv_context *x, struct ibv_cq_init_attr_ex *a)
{
	struct cq *cq;

	if (a->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
		return fail(EOPNOTSUPP);
	if (a->wc_flags & ~(uint64_t)(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK))
		return fail(EOPNOTSUPP);
	cq = create(context_of(x), a->cqe, a->cq_context, a->channel, a->comp_vector);
	if (!cq)
		return NULL;
	poll_offer(&cq->ex);
	return &cq->ex;
}

EXPORT int ibv_resize_cq(struct ibv_cq *x, int entries)
{
	struct cq *cq = (struct cq *)x;
	struct completion *grown;

	if (entries <= 0 || (uint32_t)entries > context_of(x->context)->limits.max_wr * 16)
		return EINVAL;
	grown = calloc((size_t)entries, sizeof *grown);
	if (!grown)
		return ENOMEM;
	lock(&cq->lock);
	if (cq->tail - cq->head > (uint32_t)entries) {
		unlock(&cq->lock);
		free(grown);
		return EINVAL;
	}
	for (uint64_t i = cq->head; i != cq->tail; i++)
		grown[i % (uint32_t)entries] = cq->entry[i % cq->size];
	free(cq->entry);
	cq->entry = grown;
	cq->size = (uint32_t)entries;
	x->cqe = entries;
	unlock(&cq->lock);
	return 0;
}

int modify_cq(struct ibv_cq *x, struct ibv_modify_cq_attr *a)
{
	(void)x, (void)a;
	return EOPNOTSUPP;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *x)
{
	struct cq *cq = (struct cq *)x;
	struct context *c = context_of(x->context);
	struct cq **link;
	int error;

	if (cq->pair_count)
		return EBUSY;
	error = broker_destroy(c, cq->handle);
	if (error)
		return error;
	forget(c, &cq->object);
	lock(&c->queues_lock);
	for (link = &c->queues; *link != cq; link = &(*link)->sibling)
		;
	*link = cq->sibling;
	unlock(&c->queues_lock);
	if (x->channel)
		channel_leave((struct channel *)x->channel, cq);
	if (cq->armed)
		__atomic_fetch_sub(&c->page->sleeping, 1, __ATOMIC_SEQ_CST);
	await(&x->comp_events_completed, cq->events);
	await(&x->async_events_completed, cq->object.events);
	free(cq->pairs);
	free(cq->entry);
	free(cq);
	return 0;
}
