#include "poll.h"
#include "cq.h"

#include <time.h>

static struct ibv_wc *current(struct ibv_cq_ex *cq)
{
	return &((struct cq *)cq)->current.wc;
}

static int next_poll(struct ibv_cq_ex *x)
{
	struct cq *cq = (struct cq *)x;

	if (cq_take(cq, 1, &cq->current) == 0)
		return ENOENT;
	x->wr_id = cq->current.wc.wr_id;
	x->status = cq->current.wc.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *x, struct ibv_poll_cq_attr *a)
{
	struct cq *cq = (struct cq *)x;
	int error;

	if (a->comp_mask || forked(context_of(x->context)) || cq->overrun)
		return EINVAL;
	lock(&cq->poll_lock);
	error = next_poll(x);
	if (error)
		unlock(&cq->poll_lock);
	return error;
}

static void end_poll(struct ibv_cq_ex *x)
{
	unlock(&((struct cq *)x)->poll_lock);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *x) { return current(x)->opcode; }
static uint32_t read_vendor_err(struct ibv_cq_ex *x) { return current(x)->vendor_err; }
static uint32_t read_byte_len(struct ibv_cq_ex *x) { return current(x)->byte_len; }
static __be32 read_imm_data(struct ibv_cq_ex *x) { return current(x)->imm_data; }
static uint32_t read_qp_num(struct ibv_cq_ex *x) { return current(x)->qp_num; }
static uint32_t read_src_qp(struct ibv_cq_ex *x) { return current(x)->src_qp; }
static unsigned int read_wc_flags(struct ibv_cq_ex *x) { return current(x)->wc_flags; }
static uint32_t read_slid(struct ibv_cq_ex *x) { return current(x)->slid; }
static uint8_t read_sl(struct ibv_cq_ex *x) { return current(x)->sl; }
static uint8_t read_dlid_path_bits(struct ibv_cq_ex *x) { return current(x)->dlid_path_bits; }

static uint64_t read_completion_ts(struct ibv_cq_ex *x)
{
	(void)x;
	return monotonic_ns();
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *x)
{
	struct timespec t = {0};

	(void)x;
	sys(clock_gettime, CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void poll_offer(struct ibv_cq_ex *x)
{
	x->start_poll = start_poll;
	x->next_poll = next_poll;
	x->end_poll = end_poll;
	x->read_opcode = read_opcode;
	x->read_vendor_err = read_vendor_err;
	x->read_byte_len = read_byte_len;
	x->read_imm_data = read_imm_data;
	x->read_qp_num = read_qp_num;
	x->read_src_qp = read_src_qp;
	x->read_wc_flags = read_wc_flags;
	x->read_slid = read_slid;
	x->read_sl = read_sl;
	x->read_dlid_path_bits = read_dlid_path_bits;
	x->read_completion_ts = read_completion_ts;
	x->read_completion_wallclock_ns = read_completion_wallclock_ns;
}
