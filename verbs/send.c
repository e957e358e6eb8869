#include "context.h"
#include "cq.h"
#include "mr.h"
#include "qp.h"

int sends_init(struct qp *qp, uint32_t size, uint32_t max_sge, uint32_t max_inline)
{
	struct sends *s = &qp->sends;

	s->size = size;
	s->max_sge = max_sge;
	s->max_inline = (max_inline + 15) & ~15u;
	s->entry = calloc(size + 1, sizeof *s->entry);
	s->sge = calloc((size_t)(size + 1) * (max_sge + 1), sizeof *s->sge);
	s->data = calloc(size + 1, s->max_inline + 1);
	if (!s->entry || !s->sge || !s->data)
		return ENOMEM;
	for (uint32_t i = 0; i < size; i++) {
		s->entry[i].sge = s->sge + (size_t)i * max_sge;
		s->entry[i].data = s->data + (size_t)i * s->max_inline;
	}
	return 0;
}

void sends_free(struct qp *qp)
{
	free(qp->sends.entry);
	free(qp->sends.sge);
	free(qp->sends.data);
}

enum ibv_wc_status gather(struct qp *qp, const struct request *r, uint64_t offset, uint8_t *to, uint64_t bytes)
{
	if (r->wr.send_flags & IBV_SEND_INLINE) {
		memcpy(to, r->data + offset, bytes);
		return IBV_WC_SUCCESS;
	}
	for (int i = 0; i < r->wr.num_sge && bytes > 0; i++) {
		const struct ibv_sge *s = &r->sge[i];
		uint64_t n;
		const uint8_t *from;

		if (offset >= s->length) {
			offset -= s->length;
			continue;
		}
		from = mr_at(qp, s, 0);
		if (!from)
			return IBV_WC_LOC_PROT_ERR;
		n = s->length - offset < bytes ? s->length - offset : bytes;
		memcpy(to, from + offset, n);
		to += n;
		bytes -= n;
		offset = 0;
	}
	return IBV_WC_SUCCESS;
}

/* allowed holds the opcodes of each type of queue pair, as bits. */
static int allowed(const struct qp *qp, enum ibv_wr_opcode op)
{
	const uint32_t ud = 1 << IBV_WR_SEND | 1 << IBV_WR_SEND_WITH_IMM;
	const uint32_t uc = ud | 1 << IBV_WR_RDMA_WRITE | 1 << IBV_WR_RDMA_WRITE_WITH_IMM;
	const uint32_t rc = uc | 1 << IBV_WR_RDMA_READ | 1 << IBV_WR_ATOMIC_CMP_AND_SWP |
		1 << IBV_WR_ATOMIC_FETCH_AND_ADD | 1 << IBV_WR_SEND_WITH_INV | 1 << IBV_WR_LOCAL_INV;
	uint32_t of = qp->qp.qp_type == IBV_QPT_UD ? ud : qp->qp.qp_type == IBV_QPT_UC ? uc : rc;

	return op < 32 && (of >> op & 1);
}

static int add(struct qp *qp, const struct ibv_send_wr *wr)
{
	struct sends *s = &qp->sends;
	struct request *r;
	uint64_t total = 0;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > s->max_sge || !allowed(qp, wr->opcode))
		return EINVAL;
	if (s->posted - __atomic_load_n(&s->retired, __ATOMIC_ACQUIRE) >= s->size)
		return ENOMEM;
	for (int i = 0; i < wr->num_sge; i++)
		total += wr->sg_list[i].length;
	if (total > 1u << 31 || ((wr->send_flags & IBV_SEND_INLINE) && total > s->max_inline))
		return EINVAL;
	r = &s->entry[s->posted % s->size];
	r->wr = *wr;
	r->total = total;
	r->sent = r->number = r->since = 0;
	r->stage = QUEUED;
	r->status = IBV_WC_SUCCESS;
	r->claimed = r->placed = 0;
	r->staged = 0;
	for (int i = 0, at = 0; i < wr->num_sge; i++) {
		r->sge[i] = wr->sg_list[i];
		if (wr->send_flags & IBV_SEND_INLINE) {
			memcpy(r->data + at, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
			at += (int)wr->sg_list[i].length;
		}
	}
	s->posted++;
	return 0;
}

int post_send(struct ibv_qp *x, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *qp = (struct qp *)x;
	int error = 0;
	enum ibv_qp_state state;

	if (forked(context_of(x->context))) {
		*bad = wr;
		return EIO;
	}
	lock(&qp->lock);
	state = qp_state(qp);
	if (state == IBV_QPS_RESET || state == IBV_QPS_INIT || state == IBV_QPS_RTR)
		error = EINVAL;
	for (; wr && !error; wr = wr->next)
		if ((error = add(qp, wr)))
			break;
	if (error)
		*bad = wr;
	if (state == IBV_QPS_ERR || state == IBV_QPS_SQE)
		qp_flush(qp);
	else
		send_progress(qp);
	unlock(&qp->lock);
	return error;
}

static enum ibv_wc_opcode completed_as(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

void send_complete(struct qp *qp, const struct request *r)
{
	struct completion e = {.qp = qp, .retired = ++qp->sends.completed};

	if (!r->status && !qp->signal_all && !(r->wr.send_flags & IBV_SEND_SIGNALED))
		return;
	e.wc.wr_id = r->wr.wr_id;
	e.wc.status = r->status;
	e.wc.opcode = completed_as(r->wr.opcode);
	e.wc.byte_len = (uint32_t)r->total;
	e.wc.qp_num = qp->qp.qp_num;
	cq_push((struct cq *)qp->qp.send_cq, &e, 0);
}

void send_reply(struct qp *qp, const struct bee_entry *e, const uint8_t *data)
{
	struct sends *s = &qp->sends;

	for (uint64_t i = s->completed; i != s->next; i++) {
		struct request *r = &s->entry[i % s->size];

		if (r->stage == WAITING && r->number == e->request)
			stage_answered(qp, r, e, data);
	}
}
