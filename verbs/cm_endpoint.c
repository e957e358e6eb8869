#include "cm.h"

static int passive(struct rdma_cm_id *x, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct cm_id *id = (struct cm_id *)x;

	if (rdma_bind_addr(x, res->ai_src_addr))
		return -1;
	if (pd)
		x->pd = pd;
	if (!a)
		return 0;
	id->accept = calloc(1, sizeof *a);
	if (!id->accept)
		return cm_failed(ENOMEM);
	*id->accept = *a;
	id->accept->qp_type = x->qp_type;
	return 0;
}

static int active(struct rdma_cm_id *x, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	if (rdma_resolve_addr(x, res->ai_src_addr, res->ai_dst_addr, 2000) || rdma_resolve_route(x, 2000))
		return -1;
	if (!a)
		return 0;
	a->qp_type = x->qp_type;
	return rdma_create_qp(x, pd, a);
}

EXPORT int rdma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct rdma_cm_id *x;
	int r;

	if (rdma_create_id(NULL, &x, NULL, (enum rdma_port_space)res->ai_port_space))
		return -1;
	if (res->ai_qp_type)
		x->qp_type = (enum ibv_qp_type)res->ai_qp_type;
	r = res->ai_flags & RAI_PASSIVE ? passive(x, res, pd, a) : active(x, res, pd, a);
	if (r) {
		r = errno;
		rdma_destroy_ep(x);
		return cm_failed(r);
	}
	*out = x;
	return 0;
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *x)
{
	if (x->qp)
		rdma_destroy_qp(x);
	if (x->srq)
		rdma_destroy_srq(x);
	rdma_destroy_id(x);
}

/* check returns the errno of an event that is no request. */
static int check(const struct rdma_cm_event *e)
{
	if (e->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	if (e->status)
		return e->status < 0 ? -e->status : e->status;
	return e->event == RDMA_CM_EVENT_CONNECT_REQUEST ? 0 : EINVAL;
}

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
	struct cm_id *id = (struct cm_id *)listen;
	struct ibv_qp_init_attr a;
	struct rdma_cm_event *e;
	int error;

	if (!id->sync)
		return cm_failed(EINVAL);
	if (listen->event)
		rdma_ack_cm_event(listen->event);
	listen->event = NULL;
	if (rdma_get_cm_event(listen->channel, &e))
		return -1;
	error = check(e);
	if (!error && id->accept) {
		a = *id->accept;
		error = rdma_create_qp(e->id, listen->pd, &a) ? errno : 0;
	}
	if (error) {
		listen->event = e;
		return cm_failed(error);
	}
	*out = e->id;
	(*out)->event = e;
	return 0;
}
