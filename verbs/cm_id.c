#include "cm.h"
#include "broker.h"
#include "cq.h"

#define BUCKETS 256

static struct lock ids_lock; /* guards the following, and what events count */
static struct cm_id *ids[BUCKETS];

int cm_call(struct cm_id *id, uint16_t op, uint32_t value)
{
	struct bee_cm_call ask = {{sizeof ask, op, 0}, id->handle, value};
	struct bee_reply reply;

	return broker_call(id->context, &ask, &reply, sizeof reply, NULL, NULL);
}

struct cm_id *cm_adopt(struct rdma_event_channel *channel, uint32_t handle, enum rdma_port_space ps, void *user)
{
	struct cm_id *id = calloc(1, sizeof *id);

	if (!id)
		return NULL;
	id->context = ((struct cm_channel *)channel)->context;
	id->handle = handle;
	id->timeout = 14;
	id->id.channel = channel;
	id->id.context = user;
	id->id.ps = ps;
	id->id.qp_type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
	lock(&ids_lock);
	id->next = ids[handle % BUCKETS];
	ids[handle % BUCKETS] = id;
	unlock(&ids_lock);
	return id;
}

struct cm_id *cm_count(struct context *c, uint32_t handle)
{
	struct cm_id *id;

	lock(&ids_lock);
	for (id = ids[handle % BUCKETS]; id && (id->handle != handle || id->context != c); id = id->next)
		;
	if (id)
		id->taken++;
	unlock(&ids_lock);
	return id;
}

/* withdraw takes an identifier out of the table, so that no event of it is returned any more. */
static uint32_t withdraw(struct cm_id *id)
{
	struct cm_id **link;
	uint32_t taken;

	lock(&ids_lock);
	for (link = &ids[id->handle % BUCKETS]; *link && *link != id; link = &(*link)->next)
		;
	if (*link)
		*link = id->next;
	taken = id->taken;
	unlock(&ids_lock);
	return taken;
}

static int announce(struct cm_channel *h, enum rdma_port_space ps, uint32_t *handle)
{
	struct bee_cm_call ask = {{sizeof ask, BEE_OP_CM_ID, 0}, h->handle, ps};
	struct bee_create_reply reply;
	int error = broker_call(h->context, &ask, &reply, sizeof reply, NULL, NULL);

	*handle = reply.handle;
	return error;
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *user, enum rdma_port_space ps)
{
	struct rdma_event_channel *own = NULL;
	struct cm_channel *h;
	struct cm_id *id;
	uint32_t handle;
	int error;

	if (!channel && !(channel = own = rdma_create_event_channel()))
		return -1;
	h = (struct cm_channel *)channel;
	error = announce(h, ps, &handle);
	if (!error) {
		id = cm_adopt(channel, handle, ps, user);
		if (id) {
			id->sync = own != NULL;
			*out = &id->id;
			return 0;
		}
		broker_destroy(h->context, handle);
		error = ENOMEM;
	}
	if (own)
		rdma_destroy_event_channel(own);
	return cm_failed(error);
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *x)
{
	struct cm_id *id = (struct cm_id *)x;
	int error = broker_destroy(id->context, id->handle);
	uint32_t taken;

	if (error)
		return cm_failed(error);
	taken = withdraw(id);
	if (x->event)
		rdma_ack_cm_event(x->event);
	await(&id->acknowledged, taken);
	if (id->sync)
		rdma_destroy_event_channel(x->channel);
	cm_free_groups(id);
	free(x->route.path_rec);
	free(id->accept);
	free(id);
	return 0;
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *x, struct rdma_event_channel *channel)
{
	struct cm_id *id = (struct cm_id *)x;
	struct rdma_event_channel *own = NULL;
	int error;

	if (!channel && id->sync)
		return cm_failed(EINVAL);
	if (!channel && !(channel = own = rdma_create_event_channel()))
		return -1;
	if (((struct cm_channel *)channel)->context != id->context)
		error = EINVAL;
	else
		error = cm_call(id, BEE_OP_CM_MIGRATE, ((struct cm_channel *)channel)->handle);
	if (error) {
		if (own)
			rdma_destroy_event_channel(own);
		return cm_failed(error);
	}
	if (id->sync) {
		if (x->event)
			rdma_ack_cm_event(x->event);
		x->event = NULL;
		rdma_destroy_event_channel(x->channel);
	}
	id->sync = own != NULL;
	x->channel = channel;
	return 0;
}

EXPORT int rdma_set_option(struct rdma_cm_id *x, int level, int name, void *value, size_t bytes)
{
	if (level != RDMA_OPTION_ID)
		return cm_failed(ENOSYS);
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		return cm_failed(bytes == sizeof(uint8_t) ? 0 : EINVAL);
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		return cm_failed(bytes == sizeof(int) ? 0 : EINVAL);
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (bytes != sizeof(uint8_t) || *(uint8_t *)value > 31)
			return cm_failed(EINVAL);
		((struct cm_id *)x)->timeout = *(uint8_t *)value;
		return 0;
	default:
		return cm_failed(ENOSYS);
	}
}
