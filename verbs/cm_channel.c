#include "cm.h"
#include "broker.h"
#include "cq.h"

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct bee_cm_call ask = {{sizeof ask, BEE_OP_CM_CHANNEL, 0}, 0, 0};
	struct bee_create_reply reply;
	struct ibv_context *x = cm_context();
	struct cm_channel *h;
	struct passed p = {-1, 0};
	uint32_t n = 1;
	int error;

	if (!x)
		return NULL;
	h = calloc(1, sizeof *h);
	if (!h)
		return fail(ENOMEM);
	h->context = context_of(x);
	error = broker_call(h->context, &ask, &reply, sizeof reply, &p, &n);
	if (!error && p.fd < 0)
		error = EMFILE;
	if (error) {
		free(h);
		return fail(error);
	}
	h->handle = reply.handle;
	h->channel.fd = p.fd;
	return &h->channel;
}

/* Programs end with a thread that waits for events, or is about to: it waits on, as in the kernel,
 * where the process has ended before it looks again. So a channel stays for a while. */
#define KEPT_CHANNELS 64

static void keep(struct cm_channel *h)
{
	static struct cm_channel *kept[KEPT_CHANNELS];
	static uint32_t next;
	uint32_t at = __atomic_fetch_add(&next, 1, __ATOMIC_SEQ_CST) % KEPT_CHANNELS;
	struct cm_channel *old = __atomic_exchange_n(&kept[at], h, __ATOMIC_SEQ_CST);

	if (old && !__atomic_load_n(&old->readers, __ATOMIC_SEQ_CST))
		free(old);
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *x)
{
	struct cm_channel *h = (struct cm_channel *)x;

	__atomic_store_n(&h->destroyed, 1, __ATOMIC_SEQ_CST);
	close_fd(x->fd);
	broker_destroy(h->context, h->handle);
	keep(h);
}

/* wait_on never returns where the channel was destroyed. */
static void wait_on(struct cm_channel *h)
{
	while (__atomic_load_n(&h->destroyed, __ATOMIC_SEQ_CST))
		sys(ppoll, NULL, 0, NULL, NULL, 8);
}

/* await_event reads the byte that there is while there are events. It returns an errno. */
static int await_event(struct cm_channel *h)
{
	char byte;
	long n;

	if (forked(h->context))
		return EIO;
	wait_on(h);
	n = sys(read, h->channel.fd, &byte, 1);
	return n < 0 ? (int)-n : n == 0 ? EIO : 0;
}

static void set_param(struct cm_event *e, const struct bee_cm_event_reply *r)
{
	const struct bee_cm_param *p = &r->param;
	uint8_t bytes = p->private_bytes <= BEE_CM_PRIVATE ? p->private_bytes : BEE_CM_PRIVATE;
	const void *data = bytes ? e->private_data : NULL;

	memcpy(e->private_data, p->private_data, bytes);
	if (cm_datagram(e->id)) {
		e->event.param.ud = (struct rdma_ud_param){
			.private_data = data, .private_data_len = bytes, .qp_num = p->qp, .qkey = p->qkey,
			.ah_attr = {.dlid = r->lid, .port_num = 1},
		};
		return;
	}
	e->event.param.conn = (struct rdma_conn_param){
		.private_data = data, .private_data_len = bytes, .qp_num = p->qp, .srq = p->srq, .flow_control = p->flow_control,
		.responder_resources = p->responder_resources, .initiator_depth = p->initiator_depth,
		.retry_count = p->retries, .rnr_retry_count = p->rnr_retries,
	};
}

static void meet(struct cm_id *id, const struct bee_cm_event_reply *r)
{
	id->peer = (struct cm_peer){
		.qp = r->param.qp, .lid = r->lid, .retries = r->param.retries, .rnr_retries = r->param.rnr_retries,
	};
	id->responder_resources = r->param.responder_resources;
	id->initiator_depth = r->param.initiator_depth;
}

/* child makes the identifier of a request, whose event came by a channel. */
static struct cm_id *child(struct cm_channel *h, struct cm_id *listener, const struct bee_cm_event_reply *r)
{
	struct cm_id *id = cm_adopt(&h->channel, r->child, listener->id.ps, listener->id.context);

	if (!id) {
		broker_destroy(h->context, r->child);
		return NULL;
	}
	id->id.qp_type = listener->id.qp_type;
	cm_address(&r->local, &id->id.route.addr.src_storage);
	cm_address(&r->remote, &id->id.route.addr.dst_storage);
	meet(id, r);
	cm_attach(id);
	if (cm_path(id, r->lid, r->gid) || (listener->sync && rdma_migrate_id(&id->id, NULL))) {
		rdma_destroy_id(&id->id);
		return NULL;
	}
	return id;
}

/* accepted brings the queue pair to the state in which it sends, and says so. */
static int accepted(struct cm_id *id)
{
	struct bee_cm_answer no = {.request = {sizeof no, BEE_OP_CM_REJECT, 0}, .handle = id->handle, .reason = 28};
	struct bee_cm_answer yes = {.request = {sizeof yes, BEE_OP_CM_ACCEPT, 0}, .handle = id->handle};
	struct bee_reply reply;
	int error = cm_ready(id);

	if (!error)
		error = broker_call(id->context, &yes, &reply, sizeof reply, NULL, NULL);
	if (error) {
		cm_stop(id);
		broker_call(id->context, &no, &reply, sizeof reply, NULL, NULL);
	}
	return error;
}

/* handle fills in an event; 0: it is none for the program. */
static int handle(struct cm_channel *h, struct cm_event *e, const struct bee_cm_event_reply *r)
{
	struct cm_id *other;
	int error;

	e->event.id = &e->id->id;
	e->event.event = (enum rdma_cm_event_type)r->event;
	e->event.status = r->status;
	set_param(e, r);
	switch (e->event.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		other = child(h, e->id, r);
		if (!other)
			return 0;
		e->event.listen_id = &e->id->id;
		e->event.id = &other->id;
		return 1;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		meet(e->id, r);
		if (!e->id->id.qp)
			return 1;
		error = accepted(e->id);
		e->event.event = error ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
		e->event.status = -error;
		return 1;
	case RDMA_CM_EVENT_REJECTED:
		cm_stop(e->id);
		return 1;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		return cm_joined(e, r->child);
	default:
		return 1;
	}
}

/* take takes the next event out of the broker. EAGAIN: there is none for the program. */
static int take(struct cm_channel *h, struct cm_event *e)
{
	struct bee_cm_call ask = {{sizeof ask, BEE_OP_CM_EVENT, 0}, h->handle, 0};
	struct bee_cm_event_reply reply;
	int error = broker_call(h->context, &ask, &reply, sizeof reply, NULL, NULL);

	if (error)
		return error;
	e->id = cm_count(h->context, reply.handle);
	if (!e->id) {
		if (reply.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			broker_destroy(h->context, reply.child);
		return EAGAIN;
	}
	if (handle(h, e, &reply))
		return 0;
	acknowledge(&e->id->acknowledged, 1);
	return EAGAIN;
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *x, struct rdma_cm_event **out)
{
	struct cm_channel *h = (struct cm_channel *)x;
	struct cm_event *e;
	int error;

	if (!out)
		return cm_failed(EINVAL);
	e = calloc(1, sizeof *e); /* first: an event that was taken is not lost */
	if (!e)
		return cm_failed(ENOMEM);
	__atomic_fetch_add(&h->readers, 1, __ATOMIC_SEQ_CST);
	do
		error = await_event(h);
	while (!error && (error = take(h, e)) == EAGAIN);
	if (error)
		wait_on(h);
	__atomic_fetch_sub(&h->readers, 1, __ATOMIC_SEQ_CST);
	if (error) {
		free(e);
		return cm_failed(error);
	}
	*out = &e->event;
	return 0;
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *x)
{
	struct cm_event *e = (struct cm_event *)x;
	struct cm_id *id;

	if (!x)
		return cm_failed(EINVAL);
	id = e->id;
	free(e);
	acknowledge(&id->acknowledged, 1);
	return 0;
}

int cm_complete(struct cm_id *id)
{
	struct rdma_cm_id *x = &id->id;
	int status;

	if (!id->sync)
		return 0;
	if (x->event)
		rdma_ack_cm_event(x->event);
	x->event = NULL;
	if (rdma_get_cm_event(x->channel, &x->event))
		return -1;
	status = x->event->status;
	if (status && x->event->event == RDMA_CM_EVENT_REJECTED)
		return cm_failed(ECONNREFUSED);
	return cm_failed(status < 0 ? -status : status);
}
