#include "cm.h"

#include <netdb.h>

static void ask(const struct rdma_addrinfo *hints, struct addrinfo *a)
{
	if (hints->ai_flags & RAI_PASSIVE)
		a->ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		a->ai_flags |= AI_NUMERICHOST;
	a->ai_family = hints->ai_family;
	if (hints->ai_qp_type == IBV_QPT_UD || hints->ai_port_space == RDMA_PS_UDP)
		a->ai_socktype = SOCK_DGRAM;
	else
		a->ai_socktype = SOCK_STREAM;
}

static int copy(struct sockaddr **to, socklen_t *bytes, const struct sockaddr *from, socklen_t n)
{
	*to = calloc(1, n);
	if (!*to)
		return ENOMEM;
	memcpy(*to, from, n);
	*bytes = n;
	return 0;
}

/* convert returns an errno. */
static int convert(const struct rdma_addrinfo *hints, const struct addrinfo *a, struct rdma_addrinfo *to)
{
	int datagram = a->ai_socktype == SOCK_DGRAM;

	to->ai_family = a->ai_family;
	to->ai_qp_type = hints->ai_qp_type ? hints->ai_qp_type : datagram ? IBV_QPT_UD : IBV_QPT_RC;
	to->ai_port_space = hints->ai_port_space ? hints->ai_port_space : datagram ? RDMA_PS_UDP : RDMA_PS_TCP;
	to->ai_flags = hints->ai_flags & RAI_PASSIVE;
	if (to->ai_flags)
		return copy(&to->ai_src_addr, &to->ai_src_len, a->ai_addr, a->ai_addrlen);
	return copy(&to->ai_dst_addr, &to->ai_dst_len, a->ai_addr, a->ai_addrlen);
}

/* look_up returns 0, an errno in *error, or an error of getaddrinfo. */
static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo *to, int *error)
{
	struct addrinfo wanted = {0}, *found;
	int r;

	ask(hints, &wanted);
	r = getaddrinfo(node, service, &wanted, &found);
	if (r)
		return r;
	*error = convert(hints, found, to);
	freeaddrinfo(found);
	return 0;
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;
	struct rdma_addrinfo *a;
	int error = 0, r = 0;

	if (!node && !service && !hints)
		return cm_failed(EINVAL);
	if (!hints)
		hints = &none;
	a = calloc(1, sizeof *a);
	if (!a)
		return cm_failed(ENOMEM);
	if (node || service) {
		r = look_up(node, service, hints, a, &error);
	} else {
		a->ai_flags = hints->ai_flags;
		a->ai_family = hints->ai_family;
		a->ai_qp_type = hints->ai_qp_type;
		a->ai_port_space = hints->ai_port_space;
		if (hints->ai_dst_len)
			error = copy(&a->ai_dst_addr, &a->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
	}
	if (!r && !error && !a->ai_src_len && hints->ai_src_len)
		error = copy(&a->ai_src_addr, &a->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
	if (r || error) {
		rdma_freeaddrinfo(a);
		return r ? r : cm_failed(error);
	}
	*res = a;
	return 0;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *a)
{
	for (struct rdma_addrinfo *next; a; a = next) {
		next = a->ai_next;
		free(a->ai_connect);
		free(a->ai_route);
		free(a->ai_src_canonname);
		free(a->ai_dst_canonname);
		free(a->ai_src_addr);
		free(a->ai_dst_addr);
		free(a);
	}
}
