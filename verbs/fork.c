#include "fork.h"
#include "move.h"

/* One of these is in each C library. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);
#pragma weak __register_atfork
#pragma weak pthread_atfork

static struct lock contexts_lock; /* guards the following */
static struct context *contexts;
static int registered;

/* Pages are moved by one thread, and the process is copied by another: one after the other. */
static void prepare(void)
{
	lock(&contexts_lock);
	for (struct context *c = contexts; c; c = c->next)
		lock(&c->move_lock);
}

static void resume(void)
{
	for (struct context *c = contexts; c; c = c->next)
		unlock(&c->move_lock);
	unlock(&contexts_lock);
}

static void separate(void)
{
	for (struct context *c = contexts; c; c = c->next)
		move_apart(c);
	resume();
}

void fork_join(struct context *c)
{
	lock(&contexts_lock);
	c->next = contexts;
	contexts = c;
	if (!registered && __register_atfork)
		registered = __register_atfork(prepare, resume, separate, NULL) == 0;
	else if (!registered && pthread_atfork)
		registered = pthread_atfork(prepare, resume, separate) == 0;
	unlock(&contexts_lock);
}

void fork_leave(struct context *c)
{
	struct context **link;

	lock(&contexts_lock);
	for (link = &contexts; *link && *link != c; link = &(*link)->next)
		;
	if (*link)
		*link = c->next;
	unlock(&contexts_lock);
}
