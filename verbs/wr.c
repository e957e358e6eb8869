#include "context.h"
#include "qp.h"

/* batch is what ibv_wr_* gathers between start and complete. */
struct batch {
	struct lock lock;
	int error;
	uint32_t count, sges, used;
	struct ibv_send_wr *wr;
	struct ibv_sge *sge;
	uint8_t *data;
};

static struct batch *batch_of(struct ibv_qp_ex *x)
{
	return ((struct qp *)x)->batch;
}

static void start(struct ibv_qp_ex *x)
{
	struct batch *b = batch_of(x);

	lock(&b->lock);
	b->error = 0;
	b->count = b->sges = b->used = 0;
}

/* begin adds a request; the last one takes what does not fit, and fails with the batch. */
static struct ibv_send_wr *begin(struct ibv_qp_ex *x, enum ibv_wr_opcode op)
{
	struct batch *b = batch_of(x);
	struct ibv_send_wr *wr;

	if (b->count == ((struct qp *)x)->sends.size) {
		b->error = ENOMEM;
		b->count = 0;
	}
	wr = &b->wr[b->count++];
	memset(wr, 0, sizeof *wr);
	wr->wr_id = x->wr_id;
	wr->send_flags = x->wr_flags;
	wr->opcode = op;
	return wr;
}

static struct ibv_send_wr *last(struct ibv_qp_ex *x)
{
	struct batch *b = batch_of(x);

	return &b->wr[b->count ? b->count - 1 : 0];
}

static void remote(struct ibv_qp_ex *x, enum ibv_wr_opcode op, uint32_t rkey, uint64_t address, __be32 imm)
{
	struct ibv_send_wr *wr = begin(x, op);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = address;
	wr->imm_data = imm;
}

static void atomic(struct ibv_qp_ex *x, enum ibv_wr_opcode op, uint32_t rkey, uint64_t address, uint64_t operand, uint64_t swap)
{
	struct ibv_send_wr *wr = begin(x, op);

	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = address;
	wr->wr.atomic.compare_add = operand;
	wr->wr.atomic.swap = swap;
}

static void cmp_swp(struct ibv_qp_ex *x, uint32_t rkey, uint64_t address, uint64_t compare, uint64_t swap)
{
	atomic(x, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, address, compare, swap);
}

static void fetch_add(struct ibv_qp_ex *x, uint32_t rkey, uint64_t address, uint64_t add)
{
	atomic(x, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, address, add, 0);
}

static void local_inv(struct ibv_qp_ex *x, uint32_t key)
{
	begin(x, IBV_WR_LOCAL_INV)->invalidate_rkey = key;
}

static void rdma_read(struct ibv_qp_ex *x, uint32_t rkey, uint64_t address)
{
	remote(x, IBV_WR_RDMA_READ, rkey, address, 0);
}

static void rdma_write(struct ibv_qp_ex *x, uint32_t rkey, uint64_t address)
{
	remote(x, IBV_WR_RDMA_WRITE, rkey, address, 0);
}

static void rdma_write_imm(struct ibv_qp_ex *x, uint32_t rkey, uint64_t address, __be32 imm)
{
	remote(x, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address, imm);
}

static void send_plain(struct ibv_qp_ex *x)
{
	begin(x, IBV_WR_SEND);
}

static void send_imm(struct ibv_qp_ex *x, __be32 imm)
{
	begin(x, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void send_inv(struct ibv_qp_ex *x, uint32_t key)
{
	begin(x, IBV_WR_SEND_WITH_INV)->invalidate_rkey = key;
}

static void set_ud_addr(struct ibv_qp_ex *x, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr *wr = last(x);

	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = qpn;
	wr->wr.ud.remote_qkey = qkey;
}

static void set_sge_list(struct ibv_qp_ex *x, size_t n, const struct ibv_sge *list)
{
	struct batch *b = batch_of(x);
	const struct sends *s = &((struct qp *)x)->sends;
	struct ibv_send_wr *wr = last(x);

	if (n > s->max_sge || b->sges + n > (size_t)s->size * s->max_sge) {
		b->error = EINVAL;
		return;
	}
	wr->sg_list = b->sge + b->sges;
	wr->num_sge = (int)n;
	memcpy(wr->sg_list, list, n * sizeof *list);
	b->sges += (uint32_t)n;
}

static void set_sge(struct ibv_qp_ex *x, uint32_t lkey, uint64_t address, uint32_t length)
{
	struct ibv_sge one = {address, length, lkey};

	set_sge_list(x, length ? 1 : 0, &one);
}

/* Inline data is copied at once: the caller may change it before complete. */
static void set_inline_data_list(struct ibv_qp_ex *x, size_t n, const struct ibv_data_buf *list)
{
	struct batch *b = batch_of(x);
	const struct sends *s = &((struct qp *)x)->sends;
	struct ibv_sge all = {.addr = (uintptr_t)(b->data + b->used)};

	for (size_t i = 0; i < n; i++) {
		if (list[i].length > s->max_inline - all.length || b->used + list[i].length > (size_t)s->size * s->max_inline) {
			b->error = EINVAL;
			return;
		}
		memcpy(b->data + b->used, list[i].addr, list[i].length);
		b->used += (uint32_t)list[i].length;
		all.length += (uint32_t)list[i].length;
	}
	set_sge_list(x, 1, &all);
	last(x)->send_flags |= IBV_SEND_INLINE;
}

static void set_inline_data(struct ibv_qp_ex *x, void *address, size_t length)
{
	struct ibv_data_buf one = {address, length};

	set_inline_data_list(x, 1, &one);
}

static int complete(struct ibv_qp_ex *x)
{
	struct qp *qp = (struct qp *)x;
	struct batch *b = qp->batch;
	struct ibv_send_wr *bad;
	int error = b->error;

	for (uint32_t i = 0; i + 1 < b->count; i++)
		b->wr[i].next = &b->wr[i + 1];
	if (!error && qp->sends.posted - qp->sends.retired + b->count > qp->sends.size)
		error = ENOMEM;
	if (!error && b->count)
		error = post_send(&qp->qp, b->wr, &bad);
	unlock(&b->lock);
	return error;
}

static void abort_batch(struct ibv_qp_ex *x)
{
	unlock(&batch_of(x)->lock);
}

void wr_free(struct qp *qp)
{
	if (!qp->batch)
		return;
	free(qp->batch->wr);
	free(qp->batch->sge);
	free(qp->batch->data);
	free(qp->batch);
}

static const uint64_t offered = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
	IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;

static void offer(struct ibv_qp_ex *x)
{
	x->wr_atomic_cmp_swp = cmp_swp;
	x->wr_atomic_fetch_add = fetch_add;
	x->wr_local_inv = local_inv;
	x->wr_rdma_read = rdma_read;
	x->wr_rdma_write = rdma_write;
	x->wr_rdma_write_imm = rdma_write_imm;
	x->wr_send = send_plain;
	x->wr_send_imm = send_imm;
	x->wr_send_inv = send_inv;
	x->wr_set_ud_addr = set_ud_addr;
	x->wr_set_inline_data = set_inline_data;
	x->wr_set_inline_data_list = set_inline_data_list;
	x->wr_set_sge = set_sge;
	x->wr_set_sge_list = set_sge_list;
	x->wr_start = start;
	x->wr_complete = complete;
	x->wr_abort = abort_batch;
}

int wr_offer(struct qp *qp, uint64_t operations)
{
	const struct sends *s = &qp->sends;
	struct batch *b;

	if (operations & ~offered)
		return EOPNOTSUPP;
	b = qp->batch = calloc(1, sizeof *b);
	if (!b)
		return ENOMEM;
	b->wr = calloc(s->size + 1, sizeof *b->wr);
	b->sge = calloc((size_t)s->size * s->max_sge + 1, sizeof *b->sge);
	b->data = calloc((size_t)s->size + 1, s->max_inline + 1);
	if (!b->wr || !b->sge || !b->data)
		return ENOMEM;
	offer(&qp->ex);
	return 0;
}
