#include "broker.h"
#include "context.h"

static void describe(struct ibv_device *d)
{
	d->node_type = IBV_NODE_CA;
	d->transport_type = IBV_TRANSPORT_IB;
	strcpy(d->name, BEE_DEVICE);
	strcpy(d->dev_name, "uverbs0");
	strcpy(d->dev_path, "/sys/class/infiniband_verbs/uverbs0");
	strcpy(d->ibdev_path, "/sys/class/infiniband/" BEE_DEVICE);
}

/* A device is never freed: callers may keep it after the list and the context are gone. */
static struct ibv_device *the_device(void)
{
	static struct ibv_device *shared;
	struct ibv_device *d = __atomic_load_n(&shared, __ATOMIC_ACQUIRE), *none = NULL;

	if (d)
		return d;
	d = calloc(1, sizeof *d);
	if (!d)
		return NULL;
	describe(d);
	if (__atomic_compare_exchange_n(&shared, &none, d, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return d;
	free(d);
	return none;
}

/* ask greets the broker, for what it reports of the device. */
static int ask(struct bee_hello_reply *reply)
{
	struct passed p[HELLO_DESCRIPTORS] = {{-1, 0}, {-1, 0}, {-1, 0}, {-1, 0}, {-1, 0}};
	int socket = broker_dial(), error;

	if (socket < 0)
		return -socket;
	error = hello(socket, reply, p);
	for (int i = 0; i < HELLO_DESCRIPTORS; i++)
		close_fd(p[i].fd);
	close_fd(socket);
	return error;
}

/* Without a broker the list is empty: the host's devices are hidden with `rdma: bee`. */
EXPORT struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof *list);
	struct bee_hello_reply reply;
	int kept = errno;

	if (list && ask(&reply) == 0)
		list[0] = the_device();
	if (count)
		*count = list && list[0] ? 1 : 0;
	if (list)
		errno = kept;
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *d)
{
	return d->name;
}

EXPORT int ibv_get_device_index(struct ibv_device *d)
{
	(void)d;
	return 1;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *d)
{
	struct bee_hello_reply reply;

	(void)d;
	return ask(&reply) == 0 ? reply.node_guid : 0;
}

EXPORT int ibv_fork_init(void)
{
	return 0;
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

/* Objects of another process are not shared by descriptors. */
EXPORT struct ibv_context *ibv_import_device(int fd)
{
	(void)fd;
	return fail(EOPNOTSUPP);
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *c, uint32_t handle)
{
	(void)c, (void)handle;
	return fail(EOPNOTSUPP);
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	(void)pd;
}

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	(void)pd, (void)handle;
	return fail(EOPNOTSUPP);
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	(void)mr;
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *c, uint32_t handle)
{
	(void)c, (void)handle;
	return fail(EOPNOTSUPP);
}

EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)dm;
}
