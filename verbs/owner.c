#include "owner.h"
#include "context.h"
#include "cq.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>

struct owner {
	pthread_t thread;
	uint32_t stopping;
};

/* Programs without threads may lack these: then peers wait until the program polls. */
#pragma weak pthread_create
#pragma weak pthread_join

static void *serve(void *context)
{
	struct context *c = context;
	struct pollfd wake = {.fd = c->woken, .events = POLLIN};

	while (!__atomic_load_n(&c->owner->stopping, __ATOMIC_ACQUIRE)) {
		sys(ppoll, &wake, 1, NULL, NULL, 8);
		context_woken(c);
	}
	return NULL;
}

/* create starts the thread with all signals blocked: handlers are the program's. */
static int create(struct context *c, struct owner *o)
{
	uint64_t all = ~(uint64_t)0, before;
	int error;

	sys(rt_sigprocmask, SIG_BLOCK, &all, &before, 8);
	error = pthread_create(&o->thread, NULL, serve, c);
	sys(rt_sigprocmask, SIG_SETMASK, &before, NULL, 8);
	return error;
}

int owner_start(struct context *c)
{
	int error = 0;

	if (!pthread_create || !pthread_join)
		return 0;
	lock(&c->queues_lock);
	if (!c->owner && (c->owner = calloc(1, sizeof *c->owner))) {
		__atomic_fetch_add(&c->page->sleeping, 1, __ATOMIC_SEQ_CST);
		error = create(c, c->owner);
		if (error) {
			free(c->owner);
			c->owner = NULL;
			__atomic_fetch_sub(&c->page->sleeping, 1, __ATOMIC_SEQ_CST);
		}
	} else if (!c->owner) {
		error = ENOMEM;
	}
	unlock(&c->queues_lock);
	return error;
}

void owner_stop(struct context *c)
{
	if (!c->owner || forked(c))
		return;
	__atomic_store_n(&c->owner->stopping, 1, __ATOMIC_RELEASE);
	send_wake(c->wake);
	pthread_join(c->owner->thread, NULL);
	free(c->owner);
	c->owner = NULL;
}
