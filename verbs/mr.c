#include "mr.h"
#include "broker.h"
#include "context.h"
#include "move.h"
#include "owner.h"
#include "qp.h"

#include <sys/mman.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define WRITING (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define KNOWN (IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)

static struct mr **bucket(struct context *c, uint32_t key)
{
	return &c->keys[(key ^ key >> 16) % KEY_BUCKETS];
}

static void publish(struct context *c, struct mr *mr)
{
	struct mr **b = bucket(c, mr->mr.lkey);

	lock(&c->key_lock);
	mr->next = *b;
	*b = mr;
	unlock(&c->key_lock);
}

static void withdraw(struct context *c, struct mr *mr)
{
	struct mr **link;

	lock(&c->key_lock);
	for (link = bucket(c, mr->mr.lkey); *link && *link != mr; link = &(*link)->next)
		;
	if (*link)
		*link = mr->next;
	__atomic_fetch_add(&c->key_generation, 1, __ATOMIC_RELEASE);
	unlock(&c->key_lock);
}

static struct mr *find(struct context *c, uint32_t key)
{
	struct mr *mr;

	lock(&c->key_lock);
	for (mr = *bucket(c, key); mr && mr->mr.lkey != key; mr = mr->next)
		;
	unlock(&c->key_lock);
	return mr;
}

/* populate faults the pages in, as pinning does: EFAULT where there is no such memory. */
static int populate(void *addr, size_t length, uint32_t access)
{
	uintptr_t from = (uintptr_t)addr & ~4095ul, to = ((uintptr_t)addr + length + 4095) & ~4095ul;
	long r = sys(madvise, from, to - from, access & IBV_ACCESS_LOCAL_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);

	return r == -ENOMEM || r == -EFAULT ? EFAULT : 0;
}

static int announce(struct context *c, struct mr *mr, const struct bee_extent *extent, uint32_t extents)
{
	union {
		struct bee_register ask;
		uint8_t room[sizeof(struct bee_register) + BEE_EXTENTS * sizeof(struct bee_extent)];
	} m = {.ask = {.request = {0, BEE_OP_REGISTER, 0}, .pd = mr->mr.pd->handle, .access = mr->access,
		.addr = (uintptr_t)mr->mr.addr, .length = mr->mr.length, .iova = mr->iova, .extents = extents, .replaces = mr->handle}};
	struct bee_register_reply reply;
	int error;

	m.ask.request.size = (uint32_t)(sizeof m.ask + extents * sizeof *extent);
	memcpy(m.ask.extent, extent, extents * sizeof *extent);
	error = broker_call(c, &m, &reply, sizeof reply, NULL, NULL);
	if (error)
		return error;
	mr->handle = mr->mr.handle = reply.handle;
	mr->mr.lkey = mr->mr.rkey = reply.key;
	mr->slot = reply.slot;
	mr->extents = extents;
	return 0;
}

static int enter(struct context *c, struct mr *mr)
{
	struct bee_extent extent[BEE_EXTENTS];
	uint32_t extents = 0;
	int error = populate(mr->mr.addr, mr->mr.length, mr->access);

	if (!error && (mr->access & REMOTE))
		error = move_in(c, mr->mr.addr, mr->mr.length, extent, &extents);
	if (error)
		return error;
	if ((mr->access & REMOTE) && !extents)
		error = owner_start(c);
	if (!error)
		error = announce(c, mr, extent, extents);
	if (error && extents)
		move_out(c, mr->mr.addr, mr->mr.length);
	return error;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct context *c = context_of(pd->context);
	struct mr *mr;
	int error;

	if (access & ~(unsigned)KNOWN)
		return fail(EOPNOTSUPP);
	if (length == 0 || (uintptr_t)addr + length < (uintptr_t)addr)
		return fail(EINVAL);
	if ((access & WRITING) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return fail(EINVAL);
	mr = calloc(1, sizeof *mr);
	if (!mr)
		return fail(ENOMEM);
	mr->mr.context = pd->context;
	mr->mr.pd = pd;
	mr->mr.addr = addr;
	mr->mr.length = length;
	mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	mr->access = access & (IBV_ACCESS_LOCAL_WRITE | REMOTE);
	error = enter(c, mr);
	if (error) {
		free(mr);
		return fail(error);
	}
	publish(c, mr);
	return &mr->mr;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	return fail(EOPNOTSUPP);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *x)
{
	struct mr *mr = (struct mr *)x;
	struct context *c = context_of(x->context);
	int error = mr->handle ? broker_destroy(c, mr->handle) : 0;

	if (error)
		return error;
	withdraw(c, mr);
	if (mr->extents)
		move_out(c, x->addr, x->length);
	free(mr);
	return 0;
}

/* The key remains, as peers have it, while the broker has slots for that. */
EXPORT int ibv_rereg_mr(struct ibv_mr *x, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct mr *mr = (struct mr *)x, next = *mr;
	struct context *c = context_of(x->context);
	int error;

	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED || !flags)
		return IBV_REREG_MR_ERR_INPUT;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		next.mr.pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		next.mr.addr = addr;
		next.mr.length = length;
		next.iova = (uintptr_t)addr;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		next.access = (uint32_t)access & (IBV_ACCESS_LOCAL_WRITE | REMOTE);
	if (next.mr.length == 0 || ((next.access & WRITING) && !(next.access & IBV_ACCESS_LOCAL_WRITE)))
		return IBV_REREG_MR_ERR_INPUT;
	error = enter(c, &next);
	if (error) {
		errno = error;
		return IBV_REREG_MR_ERR_INPUT;
	}
	withdraw(c, mr);
	if (mr->extents)
		move_out(c, x->addr, x->length);
	*mr = next;
	publish(c, mr);
	receives_review(c);
	return 0;
}

uint8_t *mr_at(struct qp *qp, const struct ibv_sge *sge, uint32_t access)
{
	struct context *c = context_of(qp->qp.context);
	uint32_t generation = __atomic_load_n(&c->key_generation, __ATOMIC_ACQUIRE);
	struct mr *mr = qp->last_mr;

	if (!mr || qp->last_key != sge->lkey || qp->last_generation != generation) {
		mr = find(c, sge->lkey);
		if (!mr)
			return NULL;
		qp->last_mr = mr;
		qp->last_key = sge->lkey;
		qp->last_generation = generation;
	}
	if (mr->mr.pd->handle != qp->qp.pd->handle || (mr->access & access) != access)
		return NULL;
	if (sge->addr < mr->iova || sge->length > mr->mr.length || sge->addr - mr->iova > mr->mr.length - sge->length)
		return NULL;
	return (uint8_t *)mr->mr.addr + (sge->addr - mr->iova);
}

int mr_void(struct context *c, struct ibv_pd *pd, uint32_t key)
{
	struct mr *mr = find(c, key);

	if (!mr || mr->mr.pd->handle != pd->handle)
		return 0;
	withdraw(c, mr);
	broker_destroy(c, mr->handle);
	mr->handle = 0; /* ibv_dereg_mr frees the rest */
	return 1;
}
