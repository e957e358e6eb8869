#include "context.h"
#include "cq.h"

void track(struct context *c, struct object *o, uint32_t handle, void *element)
{
	o->handle = handle;
	o->element = element;
	lock(&c->lock);
	o->next = c->objects;
	o->link = &c->objects;
	if (o->next)
		o->next->link = &o->next;
	c->objects = o;
	unlock(&c->lock);
}

void forget(struct context *c, struct object *o)
{
	lock(&c->lock);
	*o->link = o->next;
	if (o->next)
		o->next->link = o->link;
	unlock(&c->lock);
}

/* found fills in the object of an event; 0 where the object is gone. */
static int found(struct context *c, const struct bee_event *e, struct ibv_async_event *event)
{
	struct object *o;

	event->event_type = (enum ibv_event_type)e->event;
	if (e->handle == 0) {
		event->element.port_num = 1;
		return 1;
	}
	lock(&c->lock);
	for (o = c->objects; o && o->handle != e->handle; o = o->next)
		;
	if (o) {
		o->events++;
		event->element.qp = o->element;
	}
	unlock(&c->lock);
	return o != NULL;
}

EXPORT int ibv_get_async_event(struct ibv_context *x, struct ibv_async_event *event)
{
	struct context *c = context_of(x);
	struct bee_event e;
	long n;

	do {
		n = sys(read, x->async_fd, &e, sizeof e);
		if (n != (long)sizeof e) {
			errno = n < 0 ? (int)-n : EIO;
			return -1;
		}
	} while (!found(c, &e, event));
	return 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		acknowledge(&event->element.cq->async_events_completed, 1);
		return;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		acknowledge(&event->element.srq->events_completed, 1);
		return;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		acknowledge(&event->element.qp->events_completed, 1);
		return;
	default:
		return;
	}
}
