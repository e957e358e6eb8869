#include "cm.h"
#include "broker.h"

static struct lock device_lock; /* guards the following */
static struct ibv_context *device;
static struct ibv_pd *domain;

static int open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int error = ENODEV;

	if (list && list[0]) {
		device = ibv_open_device(list[0]);
		domain = device ? ibv_alloc_pd(device) : NULL;
		error = domain ? 0 : errno;
	}
	if (list)
		ibv_free_device_list(list);
	if (error && device) {
		ibv_close_device(device);
		device = NULL;
	}
	return error;
}

/* A forked child opens the device again, and does not use its parent's objects. */
struct ibv_context *cm_context(void)
{
	struct ibv_context *found;
	int error = 0;

	lock(&device_lock);
	if (!device || forked(context_of(device))) {
		device = NULL;
		error = open_device();
	}
	found = device;
	unlock(&device_lock);
	return error ? fail(error) : found;
}

void cm_attach(struct cm_id *id)
{
	struct rdma_cm_id *x = &id->id;

	if (x->verbs)
		return;
	x->verbs = &id->context->v.context;
	x->port_num = 1;
	x->route.addr.addr.ibaddr.pkey = 0xffff;
	memcpy(&x->route.addr.addr.ibaddr.sgid, id->context->limits.gid, sizeof x->route.addr.addr.ibaddr.sgid);
	lock(&device_lock);
	if (!x->pd && x->verbs == device)
		x->pd = domain;
	unlock(&device_lock);
}

EXPORT struct ibv_context **rdma_get_devices(int *count)
{
	struct ibv_context **list = calloc(2, sizeof *list);

	if (count)
		*count = 0;
	if (!list || !(list[0] = cm_context())) {
		free(list);
		return NULL;
	}
	if (count)
		*count = 1;
	return list;
}

EXPORT void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
