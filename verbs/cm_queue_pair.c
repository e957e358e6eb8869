#include "cm.h"
#include "context.h"

#define RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static int init_attr(const struct cm_id *id, struct ibv_qp_attr *a)
{
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	a->port_num = 1;
	if (cm_datagram(id)) {
		a->qkey = RDMA_UDP_QKEY;
		return mask | IBV_QP_QKEY;
	}
	a->qp_access_flags = RIGHTS;
	return mask | IBV_QP_ACCESS_FLAGS;
}

static int ready_attr(const struct cm_id *id, struct ibv_qp_attr *a)
{
	if (cm_datagram(id))
		return IBV_QP_STATE;
	a->ah_attr.dlid = id->peer.lid;
	a->ah_attr.port_num = 1;
	a->path_mtu = IBV_MTU_4096;
	a->dest_qp_num = id->peer.qp;
	a->max_dest_rd_atomic = id->responder_resources;
	a->min_rnr_timer = 12;
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		IBV_QP_MIN_RNR_TIMER;
}

static int send_attr(const struct cm_id *id, struct ibv_qp_attr *a)
{
	if (cm_datagram(id))
		return IBV_QP_STATE | IBV_QP_SQ_PSN;
	a->timeout = id->timeout;
	a->retry_cnt = id->retries;
	a->rnr_retry = id->peer.rnr_retries;
	a->max_rd_atomic = id->initiator_depth;
	return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *x, struct ibv_qp_attr *a, int *mask)
{
	const struct cm_id *id = (struct cm_id *)x;
	enum ibv_qp_state state = a->qp_state;

	if (!x->verbs)
		return cm_failed(EINVAL);
	memset(a, 0, sizeof *a);
	a->qp_state = state;
	switch (state) {
	case IBV_QPS_INIT:
		*mask = init_attr(id, a);
		return 0;
	case IBV_QPS_RTR:
		*mask = ready_attr(id, a);
		return 0;
	case IBV_QPS_RTS:
		*mask = send_attr(id, a);
		return 0;
	default:
		return cm_failed(EINVAL);
	}
}

static int modify(struct cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state};
	int mask = 0;

	if (rdma_init_qp_attr(&id->id, &a, &mask))
		return errno;
	return ibv_modify_qp(qp, &a, mask);
}

int cm_ready(struct cm_id *id)
{
	struct ibv_qp *qp = id->id.qp;
	int error = qp ? modify(id, qp, IBV_QPS_RTR) : 0;

	return error || !qp ? error : modify(id, qp, IBV_QPS_RTS);
}

int cm_stop(struct cm_id *id)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};

	return id->id.qp ? ibv_modify_qp(id->id.qp, &a, IBV_QP_STATE) : 0;
}

static void destroy_queues(struct rdma_cm_id *x)
{
	if (x->recv_cq)
		ibv_destroy_cq(x->recv_cq);
	if (x->send_cq && x->send_cq != x->recv_cq)
		ibv_destroy_cq(x->send_cq);
	x->send_cq = x->recv_cq = NULL;
	if (x->recv_cq_channel)
		ibv_destroy_comp_channel(x->recv_cq_channel);
	if (x->send_cq_channel && x->send_cq_channel != x->recv_cq_channel)
		ibv_destroy_comp_channel(x->send_cq_channel);
	x->send_cq_channel = x->recv_cq_channel = NULL;
}

static struct ibv_cq *create_queue(struct rdma_cm_id *x, uint32_t entries, struct ibv_comp_channel **channel)
{
	*channel = ibv_create_comp_channel(x->verbs);
	return *channel ? ibv_create_cq(x->verbs, (int)entries, x, *channel, 0) : NULL;
}

/* queues makes those completion queues that neither the program nor the identifier has. */
static int queues(struct rdma_cm_id *x, const struct ibv_qp_init_attr_ex *a)
{
	if (!a->recv_cq && !x->recv_cq && a->cap.max_recv_wr) {
		x->recv_cq = create_queue(x, a->cap.max_recv_wr, &x->recv_cq_channel);
		if (!x->recv_cq)
			return errno;
	}
	if (!a->send_cq && !x->send_cq && a->cap.max_send_wr) {
		x->send_cq = create_queue(x, a->cap.max_send_wr, &x->send_cq_channel);
		if (!x->send_cq)
			return errno;
	}
	return 0;
}

/* begin takes a new queue pair to INIT, and one of datagrams on to RTS. */
static int begin(struct cm_id *id, struct ibv_qp *qp)
{
	int error = modify(id, qp, IBV_QPS_INIT);

	if (!error && cm_datagram(id) && !(error = modify(id, qp, IBV_QPS_RTR)))
		error = modify(id, qp, IBV_QPS_RTS);
	return error;
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *x, struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp *qp = NULL;
	int error;

	if (x->qp || !x->verbs)
		return cm_failed(EINVAL);
	if (!(a->comp_mask & IBV_QP_INIT_ATTR_PD) || !a->pd) {
		a->comp_mask |= IBV_QP_INIT_ATTR_PD;
		a->pd = x->pd;
	}
	if (!a->pd || a->pd->context != x->verbs || (x->recv_cq && a->recv_cq && x->recv_cq != a->recv_cq) ||
		(x->send_cq && a->send_cq && x->send_cq != a->send_cq))
		return cm_failed(EINVAL);
	error = queues(x, a);
	if (!a->send_cq)
		a->send_cq = x->send_cq ? x->send_cq : x->recv_cq;
	if (!a->recv_cq)
		a->recv_cq = x->recv_cq ? x->recv_cq : x->send_cq;
	if (!a->srq)
		a->srq = x->srq;
	if (!error && !(qp = create_qp_ex(x->verbs, a)))
		error = errno;
	if (!error && (error = begin((struct cm_id *)x, qp)))
		ibv_destroy_qp(qp);
	if (error) {
		destroy_queues(x);
		return cm_failed(error);
	}
	x->pd = qp->pd;
	x->qp = qp;
	return 0;
}

EXPORT int rdma_create_qp(struct rdma_cm_id *x, struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = a->qp_context, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq, .cap = a->cap,
		.qp_type = a->qp_type, .sq_sig_all = a->sq_sig_all, .comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd,
	};
	int r = rdma_create_qp_ex(x, &ex);

	a->send_cq = ex.send_cq;
	a->recv_cq = ex.recv_cq;
	a->srq = ex.srq;
	a->cap = ex.cap;
	return r;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *x)
{
	ibv_destroy_qp(x->qp);
	x->qp = NULL;
	destroy_queues(x);
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *x, struct ibv_srq_init_attr_ex *a)
{
	struct ibv_srq *srq;

	if (!x->verbs || !(a->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return cm_failed(EINVAL);
	if (!(a->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !a->pd) {
		a->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
		a->pd = x->pd;
	}
	srq = create_srq_ex(x->verbs, a);
	if (!srq)
		return -1;
	if (!x->pd)
		x->pd = a->pd;
	x->srq = srq;
	return 0;
}

EXPORT int rdma_create_srq(struct rdma_cm_id *x, struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	struct ibv_srq_init_attr_ex ex = {
		.srq_context = a->srq_context, .attr = a->attr, .srq_type = IBV_SRQT_BASIC, .pd = pd,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
	};
	int r = rdma_create_srq_ex(x, &ex);

	a->attr = ex.attr;
	return r;
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *x)
{
	ibv_destroy_srq(x->srq);
	x->srq = NULL;
	destroy_queues(x);
}
