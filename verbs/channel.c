#include "broker.h"
#include "context.h"
#include "cq.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static int watch(int epoll, int fd)
{
	struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

	return (int)sys(epoll_ctl, epoll, EPOLL_CTL_ADD, fd, &e);
}

static void discard(struct channel *h)
{
	close_fd(h->channel.fd);
	close_fd(h->events);
	free(h);
}

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *x)
{
	struct context *c = context_of(x);
	struct channel *h = calloc(1, sizeof *h);
	int error;

	if (!h)
		return fail(ENOMEM);
	h->channel.context = x;
	h->channel.fd = (int)sys(epoll_create1, EPOLL_CLOEXEC);
	h->events = (int)sys(eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	error = h->channel.fd < 0 || h->events < 0 ? EMFILE : 0;
	if (!error && (watch(h->channel.fd, h->events) < 0 || watch(h->channel.fd, c->woken) < 0))
		error = ENOMEM;
	if (!error)
		error = broker_create(c, BEE_KIND_CHANNEL, 0, &h->handle);
	if (error) {
		discard(h);
		return fail(error);
	}
	return &h->channel;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *x)
{
	struct channel *h = (struct channel *)x;
	int error;

	if (h->queues)
		return EBUSY;
	error = broker_destroy(context_of(x->context), h->handle);
	if (!error)
		discard(h);
	return error;
}

void channel_join(struct channel *h, struct cq *cq)
{
	lock(&h->lock);
	cq->next = h->queues;
	h->queues = cq;
	h->channel.refcnt++;
	unlock(&h->lock);
}

void channel_leave(struct channel *h, struct cq *cq)
{
	struct cq **link;
	uint64_t one;

	lock(&h->lock);
	for (link = &h->queues; *link && *link != cq; link = &(*link)->next)
		;
	if (*link)
		*link = cq->next;
	for (; cq->pending; cq->pending--)
		sys(read, h->events, &one, sizeof one);
	h->channel.refcnt--;
	unlock(&h->lock);
}

/* taken returns a queue with an event, which is then over. */
static struct cq *taken(struct channel *h)
{
	struct cq *cq;
	uint64_t one;

	lock(&h->lock);
	for (cq = h->queues; cq && !__atomic_load_n(&cq->pending, __ATOMIC_ACQUIRE); cq = cq->next)
		;
	if (cq) {
		__atomic_fetch_sub(&cq->pending, 1, __ATOMIC_RELAXED);
		cq->events++;
		sys(read, h->events, &one, sizeof one);
	}
	unlock(&h->lock);
	return cq;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *x, struct ibv_cq **cq, void **user)
{
	struct channel *h = (struct channel *)x;
	struct context *c = context_of(x->context);
	struct epoll_event e;
	struct cq *found;
	long r;

	if (forked(c))
		goto broken;
	while (!(found = taken(h))) {
		context_woken(c);
		if ((found = taken(h)))
			break;
		r = sys(fcntl, x->fd, F_GETFL);
		if (r < 0)
			goto broken;
		if (r & O_NONBLOCK) {
			errno = EAGAIN;
			return -1;
		}
		r = sys(epoll_pwait, x->fd, &e, 1, -1, NULL, 8);
		if (r < 0) {
			errno = (int)-r;
			return -1;
		}
	}
	*cq = &found->cq;
	*user = found->cq.cq_context;
	return 0;
broken:
	errno = EIO;
	return -1;
}

void acknowledge(uint32_t *word, uint32_t events)
{
	__atomic_fetch_add(word, events, __ATOMIC_RELEASE);
	sys(futex, word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

void await(uint32_t *word, uint32_t events)
{
	uint32_t now;

	while ((now = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != events)
		sys(futex, word, FUTEX_WAIT_PRIVATE, now, 0);
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int events)
{
	acknowledge(&cq->comp_events_completed, events);
}
