#include "cm.h"
#include "broker.h"

/* depth returns what a program wants; 0xff: as much as the port has, and `most` at most. */
static uint8_t depth(const struct cm_id *id, uint8_t wanted, uint8_t most)
{
	uint32_t port = id->context->limits.max_rd_atomic;

	if (wanted != 0xff)
		return wanted;
	return most < port ? most : (uint8_t)port;
}

/* fill copies what a program says of a connection. It returns an errno. */
static int fill(struct cm_id *id, const struct rdma_conn_param *p, struct bee_cm_param *out)
{
	struct rdma_cm_id *x = &id->id;

	if (!x->verbs || (!x->qp && !p))
		return EINVAL;
	out->qp = x->qp ? x->qp->qp_num : p->qp_num;
	out->srq = x->qp ? x->qp->srq != NULL : p->srq;
	out->qkey = cm_datagram(id) ? RDMA_UDP_QKEY : 0;
	out->retries = out->rnr_retries = 7;
	out->responder_resources = id->responder_resources;
	out->initiator_depth = id->initiator_depth;
	if (!p)
		return 0;
	out->flow_control = p->flow_control;
	out->retries = p->retry_count > 7 ? 7 : p->retry_count;
	out->rnr_retries = p->rnr_retry_count > 7 ? 7 : p->rnr_retry_count;
	if (!p->private_data || !p->private_data_len)
		return 0;
	if (p->private_data_len > BEE_CM_PRIVATE)
		return EINVAL;
	out->private_bytes = p->private_data_len;
	memcpy(out->private_data, p->private_data, p->private_data_len);
	return 0;
}

static int answer(struct cm_id *id, struct bee_cm_answer *ask, uint16_t op)
{
	struct bee_reply reply;

	ask->request = (struct bee_request){sizeof *ask, op, 0};
	ask->handle = id->handle;
	return broker_call(id->context, ask, &reply, sizeof reply, NULL, NULL);
}

EXPORT int rdma_connect(struct rdma_cm_id *x, struct rdma_conn_param *p)
{
	struct cm_id *id = (struct cm_id *)x;
	struct bee_cm_answer ask = {0};
	int error;

	id->responder_resources = depth(id, p ? p->responder_resources : 0xff, 0xff);
	id->initiator_depth = depth(id, p ? p->initiator_depth : 0xff, 0xff);
	error = fill(id, p, &ask.param);
	id->retries = ask.param.retries;
	if (!error)
		error = answer(id, &ask, BEE_OP_CM_CONNECT);
	return error ? cm_failed(error) : cm_complete(id);
}

EXPORT int rdma_accept(struct rdma_cm_id *x, struct rdma_conn_param *p)
{
	struct cm_id *id = (struct cm_id *)x;
	struct bee_cm_answer ask = {0};
	int error;

	id->responder_resources = depth(id, p ? p->responder_resources : 0xff, id->responder_resources);
	id->initiator_depth = depth(id, p ? p->initiator_depth : 0xff, id->initiator_depth);
	error = fill(id, p, &ask.param);
	id->retries = id->peer.retries;
	if (!error && !cm_datagram(id))
		error = cm_ready(id);
	if (!error && (error = answer(id, &ask, BEE_OP_CM_ACCEPT)))
		cm_stop(id);
	if (error)
		return cm_failed(error);
	if (!cm_datagram(id))
		return cm_complete(id);
	if (id->sync && x->event) {
		rdma_ack_cm_event(x->event);
		x->event = NULL;
	}
	return 0;
}

EXPORT int rdma_establish(struct rdma_cm_id *x)
{
	struct bee_cm_answer ask = {0};

	return cm_failed(x->qp ? EINVAL : answer((struct cm_id *)x, &ask, BEE_OP_CM_ACCEPT));
}

static int reject(struct rdma_cm_id *x, const void *data, uint8_t bytes, uint32_t reason)
{
	struct bee_cm_answer ask = {.reason = reason};

	if (bytes > BEE_CM_PRIVATE)
		return cm_failed(EINVAL);
	if (data && bytes) {
		ask.param.private_bytes = bytes;
		memcpy(ask.param.private_data, data, bytes);
	}
	return cm_failed(answer((struct cm_id *)x, &ask, BEE_OP_CM_REJECT));
}

/* Reasons as InfiniBand numbers them: of the consumer, and of a vendor's options. */
EXPORT int rdma_reject(struct rdma_cm_id *x, const void *data, uint8_t bytes)
{
	return reject(x, data, bytes, 28);
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *x, const void *data, uint8_t bytes)
{
	return reject(x, data, bytes, 35);
}

EXPORT int rdma_disconnect(struct rdma_cm_id *x)
{
	struct cm_id *id = (struct cm_id *)x;
	int error = x->verbs ? cm_stop(id) : EINVAL;

	if (!error)
		error = cm_call(id, BEE_OP_CM_DISCONNECT, 0);
	return error ? cm_failed(error) : cm_complete(id);
}

/* A queue pair that gets data before its connection is reported needs nothing for it. */
EXPORT int rdma_notify(struct rdma_cm_id *x, enum ibv_event_type event)
{
	(void)x;
	return cm_failed(event == IBV_EVENT_COMM_EST ? 0 : EINVAL);
}

EXPORT int rdma_set_local_ece(struct rdma_cm_id *x, struct ibv_ece *ece)
{
	return cm_failed(!x || x->qp || !ece || !ece->vendor_id || ece->comp_mask ? EINVAL : EOPNOTSUPP);
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *x, struct ibv_ece *ece)
{
	if (!x || x->qp || !ece)
		return cm_failed(EINVAL);
	memset(ece, 0, sizeof *ece);
	return 0;
}
