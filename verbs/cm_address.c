#include "cm.h"
#include "broker.h"

#include <sys/socket.h>

int cm_read_address(const struct sockaddr *a, struct bee_cm_address *to)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;

	memset(to, 0, sizeof *to);
	switch (a ? a->sa_family : AF_UNSPEC) {
	case AF_INET:
		to->family = 4;
		to->port = __builtin_bswap16(v4->sin_port);
		memcpy(to->ip, &v4->sin_addr, 4);
		return 0;
	case AF_INET6:
		to->family = 6;
		to->port = __builtin_bswap16(v6->sin6_port);
		memcpy(to->ip, &v6->sin6_addr, 16);
		return 0;
	default:
		return EINVAL;
	}
}

void cm_address(const struct bee_cm_address *a, struct sockaddr_storage *to)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)to;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

	memset(to, 0, sizeof *to);
	if (a->family == 4) {
		v4->sin_family = AF_INET;
		v4->sin_port = __builtin_bswap16(a->port);
		memcpy(&v4->sin_addr, a->ip, 4);
	} else if (a->family == 6) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = __builtin_bswap16(a->port);
		memcpy(&v6->sin6_addr, a->ip, 16);
	}
}

static size_t bytes_of(const struct sockaddr *a)
{
	return a->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static int unspecified(const struct bee_cm_address *a)
{
	for (size_t i = 0; i < sizeof a->ip; i++)
		if (a->ip[i])
			return 0;
	return 1;
}

/* is_own asks the kernel whether an address is one of this network namespace. */
static uint32_t is_own(const struct sockaddr *a)
{
	struct sockaddr_storage copy = {0};
	long fd = sys(socket, a->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), r;

	if (fd < 0)
		return 0;
	memcpy(&copy, a, bytes_of(a));
	((struct sockaddr_in *)&copy)->sin_port = 0; /* where sin6_port is */
	r = sys(bind, fd, &copy, bytes_of(a));
	close_fd((int)fd);
	return r == 0;
}

/* source_of asks the kernel from which address a destination is reached. */
static void source_of(const struct sockaddr *destination, struct bee_cm_address *to)
{
	struct sockaddr_storage own = {0};
	uint32_t bytes = sizeof own;
	long fd = sys(socket, destination->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (sys(connect, fd, destination, bytes_of(destination)) == 0 && sys(getsockname, fd, &own, &bytes) == 0 &&
		cm_read_address((struct sockaddr *)&own, to) == 0) {
		to->port = 0;
		to->own = 1;
	}
	close_fd((int)fd);
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *x, struct sockaddr *a)
{
	struct cm_id *id = (struct cm_id *)x;
	struct bee_cm_bind ask = {.request = {sizeof ask, BEE_OP_CM_BIND, 0}, .handle = id->handle};
	struct bee_cm_bind_reply reply;
	int error = cm_read_address(a, &ask.address);

	if (error)
		return cm_failed(error);
	if (!unspecified(&ask.address))
		ask.address.own = is_own(a);
	error = broker_call(id->context, &ask, &reply, sizeof reply, NULL, NULL);
	if (error)
		return cm_failed(error);
	cm_address(&reply.local, &x->route.addr.src_storage);
	if (!unspecified(&ask.address))
		cm_attach(id);
	return 0;
}

EXPORT int rdma_listen(struct rdma_cm_id *x, int backlog)
{
	struct cm_id *id = (struct cm_id *)x;
	struct bee_cm_call ask = {{sizeof ask, BEE_OP_CM_LISTEN, 0}, id->handle, backlog > 0 ? (uint32_t)backlog : 0};
	struct bee_cm_bind_reply reply;
	int error = broker_call(id->context, &ask, &reply, sizeof reply, NULL, NULL);

	if (!error)
		cm_address(&reply.local, &x->route.addr.src_storage);
	return cm_failed(error);
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *x, struct sockaddr *source, struct sockaddr *destination, int timeout_ms)
{
	struct cm_id *id = (struct cm_id *)x;
	struct bee_cm_resolve ask = {.request = {sizeof ask, BEE_OP_CM_RESOLVE, 0}, .handle = id->handle};
	struct bee_cm_resolve_reply reply;
	int error = cm_read_address(destination, &ask.destination);

	(void)timeout_ms; /* the broker knows at once */
	if (!error && source)
		error = cm_read_address(source, &ask.source);
	if (error)
		return cm_failed(error);
	ask.destination.own = is_own(destination); /* an unspecified one is, too */
	if (source && !unspecified(&ask.source))
		ask.source.own = is_own(source);
	else
		source_of(destination, &ask.source);
	error = broker_call(id->context, &ask, &reply, sizeof reply, NULL, NULL);
	if (error)
		return cm_failed(error);
	cm_attach(id);
	cm_address(&reply.local, &x->route.addr.src_storage);
	memset(&x->route.addr.dst_storage, 0, sizeof x->route.addr.dst_storage);
	memcpy(&x->route.addr.dst_storage, destination, bytes_of(destination));
	id->peer.lid = reply.lid;
	memcpy(&x->route.addr.addr.ibaddr.dgid, reply.gid, sizeof reply.gid);
	return cm_complete(id);
}

int cm_path(struct cm_id *id, uint16_t lid, const uint8_t gid[16])
{
	struct rdma_route *route = &id->id.route;
	struct ibv_sa_path_rec *path = calloc(1, sizeof *path);

	if (!path)
		return ENOMEM;
	memcpy(&path->dgid, gid, sizeof path->dgid);
	memcpy(&route->addr.addr.ibaddr.dgid, gid, sizeof path->dgid);
	path->sgid = route->addr.addr.ibaddr.sgid;
	path->dlid = __builtin_bswap16(lid);
	path->slid = __builtin_bswap16(id->context->limits.lid);
	path->reversible = 1;
	path->numb_path = 1;
	path->pkey = 0xffff;
	path->mtu_selector = path->rate_selector = path->packet_life_time_selector = 2; /* exactly */
	path->mtu = IBV_MTU_4096;
	path->rate = IBV_RATE_100_GBPS;
	free(route->path_rec);
	route->path_rec = path;
	route->num_paths = 1;
	return 0;
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *x, int timeout_ms)
{
	struct cm_id *id = (struct cm_id *)x;
	union ibv_gid gid = x->route.addr.addr.ibaddr.dgid;
	int error = cm_path(id, id->peer.lid, gid.raw);

	(void)timeout_ms;
	if (!error)
		error = cm_call(id, BEE_OP_CM_ROUTE, 0);
	return error ? cm_failed(error) : cm_complete(id);
}

static __be16 port_of(const struct sockaddr *a)
{
	switch (a->sa_family) {
	case AF_INET:
		return ((const struct sockaddr_in *)a)->sin_port;
	case AF_INET6:
		return ((const struct sockaddr_in6 *)a)->sin6_port;
	default:
		return 0;
	}
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *x)
{
	return port_of(&x->route.addr.src_addr);
}

EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *x)
{
	return port_of(&x->route.addr.dst_addr);
}
