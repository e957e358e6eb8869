#include "cq.h"
#include "broker.h"
#include "context.h"
#include "qp.h"

#include <sys/socket.h>

#define IDLE_POLLS 256 /* in vain, one after the other, before the processor is offered */

static void notify(struct cq *cq)
{
	struct channel *h = (struct channel *)cq->cq.channel;
	uint64_t one = 1;

	__atomic_store_n(&cq->armed, 0, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&context_of(cq->cq.context)->page->sleeping, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&cq->pending, 1, __ATOMIC_RELEASE);
	sys(write, h->events, &one, sizeof one);
}

/* overrun reports a completion that was lost: the queue is of no use any more. */
static void overrun(struct cq *cq)
{
	struct bee_raise ask = {{sizeof ask, BEE_OP_RAISE, 0}, IBV_EVENT_CQ_ERR, cq->handle};
	struct bee_reply reply;

	if (!cq->overrun)
		broker_call(context_of(cq->cq.context), &ask, &reply, sizeof reply, NULL, NULL);
	cq->overrun = 1;
}

void cq_push(struct cq *cq, const struct completion *e, int solicited)
{
	int failed = e->wc.status != IBV_WC_SUCCESS;

	lock(&cq->lock);
	if (cq->tail - cq->head >= cq->size) {
		overrun(cq);
	} else {
		cq->entry[cq->tail % cq->size] = *e;
		__atomic_store_n(&cq->tail, cq->tail + 1, __ATOMIC_RELEASE);
	}
	if (cq->armed == 1 || (cq->armed == 2 && (solicited || failed)))
		notify(cq);
	unlock(&cq->lock);
	if (failed)
		count(context_of(cq->cq.context), BEE_COUNT_ERRORS, 1);
}

void cq_progress(struct cq *cq, int wait)
{
	lock(&cq->pairs_lock);
	for (uint32_t i = 0; i < cq->pair_count; i++)
		qp_poll(cq->pairs[i], wait);
	unlock(&cq->pairs_lock);
}

void context_woken(struct context *c)
{
	char wakes[512];

	sys(recvfrom, c->woken, wakes, sizeof wakes, MSG_DONTWAIT, 0, 0);
	lock(&c->queues_lock);
	for (struct cq *cq = c->queues; cq; cq = cq->sibling)
		cq_progress(cq, 1);
	unlock(&c->queues_lock);
}

static int take(struct cq *cq, int n, struct completion *e)
{
	int k = 0;

	if (__atomic_load_n(&cq->tail, __ATOMIC_ACQUIRE) == __atomic_load_n(&cq->head, __ATOMIC_RELAXED))
		return 0;
	lock(&cq->lock);
	for (; k < n && cq->head != cq->tail; k++) {
		e[k] = cq->entry[cq->head % cq->size];
		__atomic_store_n(&cq->head, cq->head + 1, __ATOMIC_RELAXED);
		if (e[k].qp)
			__atomic_store_n(&e[k].qp->sends.retired, e[k].retired, __ATOMIC_RELEASE);
	}
	unlock(&cq->lock);
	return k;
}

/*
 * A program that polls may keep the processor from the one that it waits for, where there
 * are more of them than processors.
 */
static void yield(struct cq *cq, int found)
{
	uint32_t n = found ? 0 : cq->empty + 1;

	if (n >= IDLE_POLLS) {
		n = 0;
		sys(sched_yield);
	}
	cq->empty = n;
}

int cq_take(struct cq *cq, int n, struct completion *e)
{
	int k = take(cq, n, e);

	if (k < n) {
		cq_progress(cq, 0);
		k += take(cq, n - k, e + k);
	}
	yield(cq, k);
	return k;
}

#define BATCH 16

int poll_cq(struct ibv_cq *x, int n, struct ibv_wc *wc)
{
	struct cq *cq = (struct cq *)x;
	struct completion e[BATCH];
	int k = 0, got;

	if (forked(context_of(x->context)) || cq->overrun)
		return -1;
	while (k < n) {
		got = cq_take(cq, n - k < BATCH ? n - k : BATCH, e);
		for (int i = 0; i < got; i++)
			wc[k++] = e[i].wc;
		if (got < BATCH)
			break;
	}
	return k;
}

/* The queue is looked at once more after it is armed, so that no completion is missed. */
int req_notify_cq(struct ibv_cq *x, int solicited)
{
	struct cq *cq = (struct cq *)x;
	struct context *c = context_of(x->context);

	if (forked(c))
		return EIO;
	if (!x->channel)
		return 0;
	lock(&cq->lock);
	if (!cq->armed)
		__atomic_fetch_add(&c->page->sleeping, 1, __ATOMIC_SEQ_CST);
	if (cq->armed != 1)
		cq->armed = solicited ? 2 : 1;
	unlock(&cq->lock);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	cq_progress(cq, 1);
	return 0;
}

int cq_join(struct cq *cq, struct qp *qp)
{
	struct qp **grown;
	int error = 0;

	lock(&cq->pairs_lock);
	if (cq->pair_count == cq->pair_room) {
		grown = realloc(cq->pairs, (cq->pair_room * 2 + 4) * sizeof *grown);
		if (grown) {
			cq->pairs = grown;
			cq->pair_room = cq->pair_room * 2 + 4;
		} else {
			error = ENOMEM;
		}
	}
	if (!error)
		cq->pairs[cq->pair_count++] = qp;
	unlock(&cq->pairs_lock);
	return error;
}

void cq_leave(struct cq *cq, struct qp *qp)
{
	lock(&cq->pairs_lock);
	for (uint32_t i = 0; i < cq->pair_count; i++)
		if (cq->pairs[i] == qp)
			cq->pairs[i--] = cq->pairs[--cq->pair_count];
	unlock(&cq->pairs_lock);
}

void cq_clean(struct cq *cq, struct qp *qp)
{
	uint64_t to;

	lock(&cq->lock);
	to = cq->head;
	for (uint64_t i = cq->head; i != cq->tail; i++)
		if (cq->entry[i % cq->size].wc.qp_num != qp->qp.qp_num)
			cq->entry[to++ % cq->size] = cq->entry[i % cq->size];
	cq->tail = to;
	unlock(&cq->lock);
}
