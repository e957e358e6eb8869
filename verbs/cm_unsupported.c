/* Functions of librdmacm that would see objects of ours, and that bee_0 does not offer. */
#include "cm.h"

/* Without a socket, no other function of rsockets has one. */
EXPORT int rsocket(int family, int type, int protocol);
EXPORT int rsocket(int family, int type, int protocol)
{
	(void)family, (void)type, (void)protocol;
	return cm_failed(EOPNOTSUPP);
}

/* Newer than the headers of Debian 12. */
EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *x, const char *node, const char *service, const struct rdma_addrinfo *hints);
EXPORT int rdma_resolve_addrinfo(struct rdma_cm_id *x, const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	(void)x, (void)node, (void)service, (void)hints;
	return cm_failed(EOPNOTSUPP);
}

EXPORT int rdma_query_addrinfo(struct rdma_cm_id *x, struct rdma_addrinfo **res);
EXPORT int rdma_query_addrinfo(struct rdma_cm_id *x, struct rdma_addrinfo **res)
{
	(void)x, (void)res;
	return cm_failed(EOPNOTSUPP);
}

EXPORT int rdma_write_cm_event(struct rdma_cm_id *x, enum rdma_cm_event_type event, int status, uint64_t argument);
EXPORT int rdma_write_cm_event(struct rdma_cm_id *x, enum rdma_cm_event_type event, int status, uint64_t argument)
{
	(void)x, (void)event, (void)status, (void)argument;
	return cm_failed(EOPNOTSUPP);
}
