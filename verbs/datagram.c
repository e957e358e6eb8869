#include "ah.h"
#include "broker.h"
#include "context.h"
#include "inbox.h"
#include "mr.h"
#include "qp.h"

#define GRH 40
#define PATIENCE_NS 100000000ull /* how long a sender waits for room, as on a lossless link */
#define LONG_PATIENCE_NS 5000000000ull /* and where the receiver has receives for all messages */
#define MULTICAST 0xffffffu

/* target is the inbox of a queue pair that was sent to. */
struct target {
	struct target *next;
	uint32_t number, slot;
	uint16_t lid;
	struct bee_inbox *inbox;
	struct process *process;
	int blocked; /* a message has waited for long, and none has found room at once since */
};

void targets_free(struct qp *qp)
{
	for (struct target *t = qp->targets, *next; t; t = next) {
		next = t->next;
		unmap(t->inbox, BEE_INBOX_BYTES);
		free(t);
	}
	qp->targets = NULL;
}

static struct target *attach(struct qp *qp, const struct ibv_ah_attr *a, uint32_t number)
{
	struct context *c = context_of(qp->qp.context);
	struct bee_attach ask = {.request = {sizeof ask, BEE_OP_ATTACH, 0}, .number = number, .lid = a->dlid, .global = a->is_global};
	struct bee_attach_reply reply;
	struct passed p[1 + PROCESS_DESCRIPTORS] = {{-1, 0}, {-1, 0}, {-1, 0}, {-1, 0}};
	uint32_t n = 1 + PROCESS_DESCRIPTORS;
	struct target *t = NULL;

	memcpy(ask.gid, &a->grh.dgid, sizeof ask.gid);
	if (broker_call(c, &ask, &reply, sizeof reply, p, &n) == 0 && n == 1 + PROCESS_DESCRIPTORS && (t = calloc(1, sizeof *t))) {
		t->number = number;
		t->slot = reply.slot;
		t->lid = a->dlid;
		t->inbox = map_shared(&p[0], BEE_INBOX_BYTES, 1);
		t->process = process_of(c, reply.process, p + 1);
		t->next = qp->targets;
		qp->targets = t;
	}
	for (int i = 0; i < 1 + PROCESS_DESCRIPTORS; i++)
		close_fd(p[i].fd);
	return t && t->inbox && t->process ? t : NULL;
}

static int alive(const struct target *t)
{
	enum ibv_qp_state state;

	if (!t->inbox || !t->process || t->process->table->qp[t->slot % BEE_SLOTS].number != t->number)
		return 0;
	state = state_of(t->process->table, t->slot);
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE;
}

/* target_of returns the inbox of a queue pair; NULL: what is sent there is lost. */
static struct target *target_of(struct qp *qp, const struct ibv_ah_attr *a, uint32_t number)
{
	struct target **link, *t;

	for (link = &qp->targets; (t = *link); link = &t->next) {
		if (t->number != number || t->lid != a->dlid)
			continue;
		if (alive(t))
			return t;
		*link = t->next;
		unmap(t->inbox, BEE_INBOX_BYTES);
		free(t);
		break;
	}
	return attach(qp, a, number);
}

static void fill_grh(struct qp *qp, const struct ibv_ah_attr *a, struct bee_datagram *d, uint32_t bytes)
{
	struct ibv_grh g = {.hop_limit = a->grh.hop_limit, .next_hdr = 0x1b};

	g.version_tclass_flow = __builtin_bswap32(6u << 28 | (uint32_t)a->grh.traffic_class << 20 | (a->grh.flow_label & 0xfffff));
	g.paylen = __builtin_bswap16((uint16_t)(bytes + 24)); /* with the headers of InfiniBand */
	memcpy(&g.sgid, context_of(qp->qp.context)->limits.gid, sizeof g.sgid);
	g.dgid = a->grh.dgid;
	memcpy(d->grh, &g, sizeof g);
}

/* deliver puts a message into an inbox; 0 without room, otherwise 1. */
static int deliver(struct qp *qp, struct request *r, const struct ibv_ah_attr *a, struct target *t)
{
	struct context *c = context_of(qp->qp.context);
	uint64_t n;
	struct bee_datagram *d = inbox_claim(t->inbox, &n);

	if (!d)
		return 0;
	d->flags = r->wr.opcode == IBV_WR_SEND_WITH_IMM ? BEE_ENTRY_FLAG_IMM : 0;
	if (r->wr.send_flags & IBV_SEND_SOLICITED)
		d->flags |= BEE_ENTRY_FLAG_SOLICITED;
	d->bytes = (uint32_t)r->total;
	d->imm = r->wr.imm_data;
	d->qkey = r->wr.wr.ud.remote_qkey >> 31 ? qp->attr.qkey : r->wr.wr.ud.remote_qkey;
	d->source = qp->qp.qp_num;
	d->lid = c->limits.lid;
	d->sl = a->sl;
	d->global = a->is_global;
	if (a->is_global)
		fill_grh(qp, a, d, d->bytes);
	gather(qp, r, 0, (uint8_t *)d + INBOX_HEADER, r->total);
	inbox_publish(d, n);
	count(c, BEE_COUNT_RING_BYTES, r->total);
	wake(c, t->process);
	return 1;
}

/* multicast delivers to each member of a group that has room. */
static int multicast(struct qp *qp, struct request *r, const struct ibv_ah_attr *a)
{
	struct bee_group ask = {.request = {sizeof ask, BEE_OP_MEMBERS, 0}, .handle = qp->qp.handle, .lid = a->dlid};
	union {
		struct bee_members_reply reply;
		uint8_t room[sizeof(struct bee_members_reply) + BEE_MEMBERS * sizeof(struct bee_member)];
	} m;
	struct ibv_ah_attr direct = *a;

	memcpy(ask.gid, &a->grh.dgid, sizeof ask.gid);
	if (broker_call(context_of(qp->qp.context), &ask, &m, sizeof m, NULL, NULL))
		return send_end(r, IBV_WC_SUCCESS);
	direct.dlid = context_of(qp->qp.context)->limits.lid;
	for (uint32_t i = 0; i < m.reply.count && i < BEE_MEMBERS; i++) {
		const struct bee_member *member = &m.reply.member[i];
		struct ibv_ah_attr to = {.dlid = member->lid};
		struct target *t;

		if ((member->number == qp->qp.qp_num && member->lid == direct.dlid) || !(t = target_of(qp, &to, member->number)))
			continue;
		deliver(qp, r, &direct, t);
	}
	return send_end(r, IBV_WC_SUCCESS);
}

static int patient(struct request *r, struct target *t)
{
	uint64_t now = monotonic_ns();

	if (!r->since)
		r->since = now;
	if (now - r->since < PATIENCE_NS)
		return 1;
	if (t->blocked || __atomic_load_n(&t->inbox->receives, __ATOMIC_RELAXED) <= BEE_INBOX_SLOTS)
		return 0;
	t->blocked = now - r->since >= LONG_PATIENCE_NS;
	return !t->blocked;
}

int datagram_send(struct qp *qp, struct request *r)
{
	const struct ibv_ah_attr *a = &((struct ah *)r->wr.wr.ud.ah)->attr;
	struct target *t;

	if (r->total > INBOX_MESSAGE)
		return send_end(r, IBV_WC_LOC_LEN_ERR);
	if (!(r->wr.send_flags & IBV_SEND_INLINE))
		for (int i = 0; i < r->wr.num_sge; i++)
			if (r->sge[i].length && !mr_at(qp, &r->sge[i], 0))
				return send_end(r, IBV_WC_LOC_PROT_ERR);
	if (!r->since) /* once, where the message has to wait for room */
		count(context_of(qp->qp.context), BEE_COUNT_SENDS, 1);
	if (r->wr.wr.ud.remote_qpn == MULTICAST)
		return multicast(qp, r, a);
	t = target_of(qp, a, r->wr.wr.ud.remote_qpn);
	if (t && deliver(qp, r, a, t)) {
		if (!r->since) /* there was room at once */
			t->blocked = 0;
	} else if (t && patient(r, t)) {
		wake(context_of(qp->qp.context), t->process);
		return 0;
	}
	return send_end(r, IBV_WC_SUCCESS);
}

/* arrive copies a message into a receive and completes it. */
static void arrive(struct qp *qp, const struct bee_datagram *d, uint32_t bytes, const struct receive *to)
{
	struct ibv_wc wc = {.opcode = IBV_WC_RECV, .byte_len = bytes + GRH, .src_qp = d->source, .slid = d->lid, .sl = d->sl};

	if (d->flags & BEE_ENTRY_FLAG_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = d->imm;
	}
	if (to->total < (uint64_t)bytes + GRH)
		wc.status = IBV_WC_LOC_LEN_ERR;
	if (!wc.status && d->global) {
		wc.wc_flags |= IBV_WC_GRH;
		wc.status = scatter(qp, to, 0, d->grh, GRH);
	}
	if (!wc.status)
		wc.status = scatter(qp, to, GRH, (const uint8_t *)d + INBOX_HEADER, bytes);
	receive_complete(qp, to, &wc, !!(d->flags & BEE_ENTRY_FLAG_SOLICITED));
	if (wc.status)
		qp_fail(qp, 0, 0, -1);
}

int datagram_waiting(const struct qp *qp)
{
	return inbox_next(qp->inbox, qp->read) != NULL;
}

void datagram_progress(struct qp *qp)
{
	enum ibv_qp_state state = qp_state(qp);
	struct bee_datagram *d;

	if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_ERR)
		return;
	while ((d = inbox_next(qp->inbox, qp->read))) {
		uint32_t bytes = d->bytes;

		if (bytes <= INBOX_MESSAGE && d->qkey == qp->attr.qkey) {
			struct receive *r = receive_take(qp);

			if (!r)
				return;
			arrive(qp, d, bytes, r);
		}
		inbox_release(d, qp->read++);
	}
}
