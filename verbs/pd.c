#include "broker.h"
#include "context.h"

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *x)
{
	struct pd *pd = calloc(1, sizeof *pd);
	int error;

	if (!pd)
		return fail(ENOMEM);
	pd->pd.context = x;
	error = broker_create(context_of(x), BEE_KIND_PD, 0, &pd->pd.handle);
	if (error) {
		free(pd);
		return fail(error);
	}
	return &pd->pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *p)
{
	struct pd *pd = (struct pd *)p;
	int error = 0;

	if (pd->parent) {
		__atomic_fetch_sub(&pd->parent->users, 1, __ATOMIC_RELAXED);
	} else {
		if (__atomic_load_n(&pd->users, __ATOMIC_RELAXED))
			return EBUSY;
		error = broker_destroy(context_of(p->context), p->handle);
	}
	if (!error)
		free(pd);
	return error;
}

/* A parent domain is another name for its protection domain: allocators are not used. */
struct ibv_pd *alloc_parent_domain(struct ibv_context *x, struct ibv_parent_domain_init_attr *a)
{
	struct pd *pd;

	if (!a->pd || (a->comp_mask & ~(uint32_t)(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)))
		return fail(EINVAL);
	pd = calloc(1, sizeof *pd);
	if (!pd)
		return fail(ENOMEM);
	pd->parent = (struct pd *)a->pd;
	while (pd->parent->parent)
		pd->parent = pd->parent->parent;
	pd->pd.context = x;
	pd->pd.handle = pd->parent->pd.handle;
	__atomic_fetch_add(&pd->parent->users, 1, __ATOMIC_RELAXED);
	return &pd->pd;
}

struct ibv_td *alloc_td(struct ibv_context *x, struct ibv_td_init_attr *a)
{
	struct ibv_td *td;

	if (a->comp_mask)
		return fail(EINVAL);
	td = calloc(1, sizeof *td);
	if (!td)
		return fail(ENOMEM);
	td->context = x;
	return td;
}

int dealloc_td(struct ibv_td *td)
{
	free(td);
	return 0;
}
