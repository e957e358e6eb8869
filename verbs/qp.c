#include "qp.h"
#include "broker.h"
#include "context.h"
#include "cq.h"

#include <linux/futex.h>

static uint32_t handle_of(struct ibv_cq *cq)
{
	return ((struct cq *)cq)->handle;
}

static int check(const struct context *c, const struct ibv_qp_init_attr_ex *a)
{
	const struct bee_hello_reply *l = &c->limits;

	if (!a->pd || !a->send_cq || !a->recv_cq)
		return EINVAL;
	if (a->qp_type != IBV_QPT_RC && a->qp_type != IBV_QPT_UC && a->qp_type != IBV_QPT_UD)
		return EOPNOTSUPP;
	if (a->cap.max_send_wr > l->max_wr || a->cap.max_send_sge > l->max_sge || a->cap.max_inline_data > l->max_inline)
		return EINVAL;
	if (!a->srq && (a->cap.max_recv_wr > l->max_wr || a->cap.max_recv_sge > l->max_sge))
		return EINVAL;
	return 0;
}

static void discard(struct qp *qp)
{
	sends_free(qp);
	receives_free(&qp->receives);
	free(qp->spare.sge);
	wr_free(qp);
	free(qp);
}

static int queues(struct qp *qp, struct ibv_qp_init_attr_ex *a, const struct context *c)
{
	uint32_t max_sge = a->srq ? c->limits.max_sge : a->cap.max_recv_sge;
	int error = sends_init(qp, a->cap.max_send_wr, a->cap.max_send_sge, a->cap.max_inline_data);

	if (!error && !a->srq)
		error = receives_init(&qp->receives, a->cap.max_recv_wr, max_sge);
	qp->spare.sge = calloc(max_sge + 1, sizeof *qp->spare.sge);
	return error ? error : qp->spare.sge ? 0 : ENOMEM;
}

static int announce(struct context *c, struct qp *qp)
{
	struct bee_create_qp ask = {
		.request = {sizeof ask, BEE_OP_CREATE_QP, 0}, .type = qp->qp.qp_type, .pd = qp->qp.pd->handle,
		.send_cq = handle_of(qp->qp.send_cq), .recv_cq = handle_of(qp->qp.recv_cq),
		.srq = qp->qp.srq ? ((struct srq *)qp->qp.srq)->handle : 0,
		.max_send_wr = qp->sends.size, .max_recv_wr = qp->receives.size,
	};
	struct bee_create_qp_reply reply;
	struct passed inbox = {-1, 0};
	uint32_t n = 1;
	int error = broker_call(c, &ask, &reply, sizeof reply, &inbox, &n);

	if (!error && qp->qp.qp_type == IBV_QPT_UD) {
		qp->inbox = map_shared(&inbox, BEE_INBOX_BYTES, 1);
		error = qp->inbox ? 0 : ENOMEM;
	}
	close_fd(inbox.fd);
	qp->qp.handle = reply.handle;
	qp->qp.qp_num = reply.number;
	qp->slot = reply.slot;
	return error;
}

/* enroll adds the queue pair to its completion queues, so that polling drives it. */
static int enroll(struct qp *qp)
{
	struct cq *send = (struct cq *)qp->qp.send_cq, *recv = (struct cq *)qp->qp.recv_cq;
	int error = cq_join(send, qp);

	if (!error && recv != send && (error = cq_join(recv, qp)))
		cq_leave(send, qp);
	return error;
}

struct ibv_qp *create_qp_ex(struct ibv_context *x, struct ibv_qp_init_attr_ex *a)
{
	struct context *c = context_of(x);
	struct qp *qp;
	int error = check(c, a);

	if (a->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS))
		error = EOPNOTSUPP;
	if ((a->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && a->create_flags)
		error = EOPNOTSUPP;
	if (error)
		return fail(error);
	qp = calloc(1, sizeof *qp);
	if (!qp)
		return fail(ENOMEM);
	qp->qp.context = x;
	qp->qp.qp_context = a->qp_context;
	qp->qp.pd = a->pd;
	qp->qp.send_cq = a->send_cq;
	qp->qp.recv_cq = a->recv_cq;
	qp->qp.srq = a->srq;
	qp->qp.qp_type = a->qp_type;
	qp->signal_all = a->sq_sig_all;
	error = queues(qp, a, c);
	if (!error && (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		error = wr_offer(qp, a->send_ops_flags);
	if (!error)
		error = announce(c, qp);
	if (!error && (error = enroll(qp)))
		broker_destroy(c, qp->qp.handle);
	if (error) {
		unmap(qp->inbox, BEE_INBOX_BYTES);
		discard(qp);
		return fail(error);
	}
	if (a->srq)
		a->cap.max_recv_wr = a->cap.max_recv_sge = 0;
	memcpy(&qp->init, a, sizeof qp->init);
	qp->attr.cap = a->cap;
	track(c, &qp->object, qp->qp.handle, qp);
	return &qp->qp;
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct ibv_qp_init_attr_ex ex = {.comp_mask = IBV_QP_INIT_ATTR_PD};
	struct ibv_qp *qp;

	memcpy(&ex, a, sizeof *a);
	ex.pd = pd;
	qp = create_qp_ex(pd->context, &ex);
	if (qp)
		a->cap = ex.cap;
	return qp;
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return ((struct qp *)qp)->ex.wr_start ? &((struct qp *)qp)->ex : NULL;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *x)
{
	struct qp *qp = (struct qp *)x;
	struct context *c = context_of(x->context);
	int error = broker_destroy(c, x->handle);

	if (error)
		return error;
	forget(c, &qp->object);
	cq_leave((struct cq *)x->send_cq, qp);
	cq_leave((struct cq *)x->recv_cq, qp);
	cq_clean((struct cq *)x->send_cq, qp);
	cq_clean((struct cq *)x->recv_cq, qp);
	await(&x->events_completed, qp->object.events);
	disconnect_pair(qp);
	targets_free(qp);
	unmap(qp->inbox, BEE_INBOX_BYTES);
	discard(qp);
	return 0;
}

EXPORT int ibv_query_qp(struct ibv_qp *x, struct ibv_qp_attr *a, int mask, struct ibv_qp_init_attr *init)
{
	struct qp *qp = (struct qp *)x;

	(void)mask;
	lock(&qp->lock);
	*a = qp->attr;
	a->qp_state = a->cur_qp_state = x->state = qp_state(qp);
	if (init)
		*init = qp->init;
	unlock(&qp->lock);
	return 0;
}

EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}

/* As without enhanced connections: librdmacm refuses an ECE of no vendor. */
EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	return EOPNOTSUPP;
}

EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	return ece->comp_mask ? EINVAL : EOPNOTSUPP;
}
