#include "broker.h"
#include "context.h"
#include "cq.h"
#include "qp.h"

static void fill(struct bee_modify_qp *m, const struct ibv_qp_attr *a)
{
	m->state = a->qp_state;
	m->current = a->cur_qp_state;
	m->path_mtu = a->path_mtu;
	m->qkey = a->qkey;
	m->rq_psn = a->rq_psn;
	m->sq_psn = a->sq_psn;
	m->destination = a->dest_qp_num;
	m->access = a->qp_access_flags;
	m->pkey_index = a->pkey_index;
	m->lid = a->ah_attr.dlid;
	memcpy(m->gid, &a->ah_attr.grh.dgid, sizeof m->gid);
	m->global = a->ah_attr.is_global;
	m->sgid_index = a->ah_attr.grh.sgid_index;
	m->ah_port = a->ah_attr.port_num;
	m->port = a->port_num;
	m->timeout = a->timeout;
	m->retries = a->retry_cnt;
	m->rnr_retries = a->rnr_retry;
	m->min_rnr_timer = a->min_rnr_timer;
	m->max_rd_atomic = a->max_rd_atomic;
	m->max_dest_rd_atomic = a->max_dest_rd_atomic;
	m->path_state = (uint8_t)a->path_mig_state;
	m->sqd_notify = a->en_sqd_async_notify;
}

#define KEEP(bit, field) \
	if (mask & (bit)) \
	own->field = a->field

/* keep copies the attributes that ibv_query_qp returns. */
static void keep(struct ibv_qp_attr *own, const struct ibv_qp_attr *a, int mask)
{
	KEEP(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	KEEP(IBV_QP_PKEY_INDEX, pkey_index);
	KEEP(IBV_QP_PORT, port_num);
	KEEP(IBV_QP_QKEY, qkey);
	KEEP(IBV_QP_AV, ah_attr);
	KEEP(IBV_QP_PATH_MTU, path_mtu);
	KEEP(IBV_QP_TIMEOUT, timeout);
	KEEP(IBV_QP_RETRY_CNT, retry_cnt);
	KEEP(IBV_QP_RNR_RETRY, rnr_retry);
	KEEP(IBV_QP_RQ_PSN, rq_psn);
	KEEP(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	KEEP(IBV_QP_ALT_PATH, alt_ah_attr);
	KEEP(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	KEEP(IBV_QP_SQ_PSN, sq_psn);
	KEEP(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	KEEP(IBV_QP_PATH_MIG_STATE, path_mig_state);
	KEEP(IBV_QP_DEST_QPN, dest_qp_num);
}

/*
 * establish has the queue pair fail without rings, as nothing would ever come of it: the broker of another run may be
 * stopped, or have ended.
 */
static int establish(struct qp *qp)
{
	int error = connect_pair(qp);

	if (!error)
		return 0;
	qp_fail(qp, 0, 0, -1);
	qp_flush(qp);
	return error == ENOTCONN ? ETIMEDOUT : error;
}

/* follow does what the new state asks of the queues. */
static int follow(struct qp *qp, enum ibv_qp_state state)
{
	if (state == IBV_QPS_RESET)
		qp_reset(qp);
	if (state == IBV_QPS_RTR && qp->qp.qp_type != IBV_QPT_UD)
		return establish(qp);
	if (state == IBV_QPS_ERR) {
		qp->given_up = 1;
		qp_flush(qp);
	}
	if (state == IBV_QPS_RTS)
		send_progress(qp);
	return 0;
}

/* hold keeps others from polling the queue pair: a reset unmaps its rings. */
static void hold(struct qp *qp, int on)
{
	struct cq *a = (struct cq *)qp->qp.send_cq, *b = (struct cq *)qp->qp.recv_cq;
	struct cq *first = a < b ? a : b, *second = a < b ? b : a;

	if (on) {
		lock(&first->pairs_lock);
		if (first != second)
			lock(&second->pairs_lock);
		return;
	}
	unlock(&first->pairs_lock);
	if (first != second)
		unlock(&second->pairs_lock);
}

EXPORT int ibv_modify_qp(struct ibv_qp *x, struct ibv_qp_attr *a, int mask)
{
	struct qp *qp = (struct qp *)x;
	struct bee_modify_qp ask = {.request = {sizeof ask, BEE_OP_MODIFY_QP, 0}, .handle = x->handle, .mask = (uint32_t)mask};
	struct bee_modify_qp_reply reply;
	int resets = (mask & IBV_QP_STATE) && a->qp_state == IBV_QPS_RESET;
	int error;

	fill(&ask, a);
	if (resets)
		hold(qp, 1);
	lock(&qp->lock);
	error = broker_call(context_of(x->context), &ask, &reply, sizeof reply, NULL, NULL);
	if (!error) {
		keep(&qp->attr, a, mask);
		x->state = (enum ibv_qp_state)reply.state;
		if (mask & IBV_QP_STATE)
			error = follow(qp, x->state);
	}
	unlock(&qp->lock);
	if (resets)
		hold(qp, 0);
	if (!error && resets) {
		cq_clean((struct cq *)x->send_cq, qp);
		cq_clean((struct cq *)x->recv_cq, qp);
	}
	return error;
}
