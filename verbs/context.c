#include "context.h"
#include "broker.h"
#include "fork.h"
#include "move.h"
#include "owner.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#ifndef BEE_BUILD_ID
#define BEE_BUILD_ID "00000000000000000000000000000000"
#endif

int hello(int socket, struct bee_hello_reply *reply, struct passed p[HELLO_DESCRIPTORS])
{
	struct bee_hello ask = {.request = {sizeof ask, BEE_OP_HELLO, 0}, .protocol = BEE_PROTOCOL};
	uint32_t n = HELLO_DESCRIPTORS;
	int error;

	_Static_assert(sizeof BEE_BUILD_ID == BEE_BUILD + 1, "a build id has BEE_BUILD digits");
	memcpy(ask.build, BEE_BUILD_ID, BEE_BUILD);
	ask.pid = (uint32_t)sys(getpid);
	error = broker_exchange(socket, &ask, reply, sizeof *reply, p, &n);
	return error ? error : n == HELLO_DESCRIPTORS ? 0 : EPROTO;
}

/* watch_forks maps a word that the kernel clears in a forked child. */
static uint32_t *watch_forks(void)
{
	long p = sys(mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p < 0 && p > -4096)
		return NULL;
	sys(madvise, p, 4096, MADV_WIPEONFORK);
	*(uint32_t *)p = CONTEXT_MAGIC;
	return (uint32_t *)p;
}

static void offer(struct context *c)
{
	struct ibv_context *x = &c->v.context;

	c->v.sz = sizeof c->v;
	c->v.query_port = query_port_ex;
	c->v.query_device_ex = query_device_ex;
	c->v.query_rt_values = query_rt_values;
	c->v.alloc_parent_domain = alloc_parent_domain;
	c->v.alloc_td = alloc_td;
	c->v.dealloc_td = dealloc_td;
	c->v.create_cq_ex = create_cq_ex;
	c->v.modify_cq = modify_cq;
	c->v.create_qp_ex = create_qp_ex;
	c->v.create_srq_ex = create_srq_ex;
	c->v.get_srq_num = get_srq_num;
	x->abi_compat = __VERBS_ABI_IS_EXTENDED;
	x->num_comp_vectors = 1;
	x->ops.poll_cq = poll_cq;
	x->ops.req_notify_cq = req_notify_cq;
	x->ops.post_send = post_send;
	x->ops.post_recv = post_recv;
	x->ops.post_srq_recv = post_srq_recv;
}

/* A context with memory of the program stays for that, and for forks, with its connection. */
static void close_context(struct context *c)
{
	int stays = c->alive && !forked(c) && move_stays(c);

	if (!stays)
		fork_leave(c);
	owner_stop(c);
	for (struct process *p = c->processes, *next; p; p = next) {
		next = p->next;
		unmap((void *)p->page, BEE_PAGE_BYTES);
		unmap((void *)p->table, BEE_TABLE_BYTES);
		close_fd(p->wake);
		free(p);
	}
	unmap(c->page, BEE_PAGE_BYTES);
	unmap((void *)c->table, BEE_TABLE_BYTES);
	unmap(c->alive, 4096);
	close_fd(c->woken);
	close_fd(c->wake);
	close_fd(c->v.context.async_fd);
	close_fd(c->v.context.cmd_fd);
	if (stays)
		return;
	close_fd(c->socket);
	free(c);
}

static int open_context(struct context *c)
{
	struct passed p[HELLO_DESCRIPTORS] = {{-1, 0}, {-1, 0}, {-1, 0}, {-1, 0}, {-1, 0}};
	int error;

	c->socket = broker_dial();
	if (c->socket < 0)
		return -c->socket;
	error = hello(c->socket, &c->limits, p);
	c->v.context.async_fd = p[0].fd;
	c->woken = p[1].fd;
	c->wake = p[2].fd;
	if (!error) {
		c->page = map_shared(&p[3], BEE_PAGE_BYTES, 1);
		c->table = map_shared(&p[4], BEE_TABLE_BYTES, 0);
		c->alive = watch_forks();
		error = c->page && c->table && c->alive ? 0 : ENOMEM;
	}
	close_fd(p[3].fd);
	close_fd(p[4].fd);
	c->v.context.cmd_fd = (int)sys(openat, AT_FDCWD, "/dev/null", O_RDWR | O_CLOEXEC);
	return error;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct context *c = calloc(1, sizeof *c);
	int error;

	if (!c)
		return fail(ENOMEM);
	c->socket = c->woken = c->wake = c->v.context.async_fd = c->v.context.cmd_fd = -1;
	c->v.context.device = d;
	error = open_context(c);
	if (error) {
		close_context(c);
		return fail(error);
	}
	fork_join(c);
	offer(c);
	return &c->v.context;
}

EXPORT int ibv_close_device(struct ibv_context *x)
{
	close_context(context_of(x));
	return 0;
}

static int map_process(struct process *p, const struct passed *from)
{
	p->page = map_shared(&from[1], BEE_PAGE_BYTES, 0);
	p->table = map_shared(&from[2], BEE_TABLE_BYTES, 0);
	if (p->page && p->table)
		return 1;
	unmap((void *)p->page, BEE_PAGE_BYTES);
	unmap((void *)p->table, BEE_TABLE_BYTES);
	return 0;
}

struct process *process_of(struct context *c, uint32_t number, struct passed from[PROCESS_DESCRIPTORS])
{
	struct process *p;

	lock(&c->lock);
	for (p = c->processes; p && p->number != number; p = p->next)
		;
	if (!p && (p = calloc(1, sizeof *p))) {
		p->number = number;
		p->wake = from[0].fd;
		if (map_process(p, from)) {
			p->next = c->processes;
			c->processes = p;
			from[0].fd = -1;
		} else {
			free(p);
			p = NULL;
		}
	}
	unlock(&c->lock);
	for (int i = 0; i < PROCESS_DESCRIPTORS; i++) {
		close_fd(from[i].fd);
		from[i].fd = -1;
	}
	return p;
}

void wake(struct context *c, struct process *p)
{
	if (!p)
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&p->page->sleeping, __ATOMIC_RELAXED))
		return;
	send_wake(p->wake);
	count(c, BEE_COUNT_WAKES, 1);
}

/* Others may have changed the flags of the socket: each call says that it does not wait. */
void send_wake(int socket)
{
	char one = 0;

	sys(sendto, socket, &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);
}
