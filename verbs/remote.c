#include "context.h"
#include "broker.h"
#include "mr.h"
#include "qp.h"

/* TAIL bytes of a WRITE become visible last: programs wait for the last byte. */
#define TAIL 8

void remotes_free(struct qp *qp)
{
	for (struct remote *m = qp->remotes, *next; m; m = next) {
		next = m->next;
		for (uint32_t i = 0; i < m->extents; i++)
			unmap(m->extent[i].base, m->extent[i].mapped);
		free(m);
	}
	qp->remotes = NULL;
}

static int valid(const struct qp *qp, const struct remote *m)
{
	return __atomic_load_n(&qp->peer->table->key[m->slot % BEE_SLOTS], __ATOMIC_ACQUIRE) == m->key;
}

/* map_extent maps one part of the peer's memory, as far as its right reaches. */
static int map_extent(struct extent *to, const struct bee_extent *from, const struct passed *p, uint32_t access)
{
	int protection = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) ? 3 : 1;
	long base = sys(mmap, 0, from->bytes, protection, 1 /* MAP_SHARED */, p->fd, p->at + from->at);

	if (base < 0 && base > -4096)
		return 0;
	*to = (struct extent){.offset = from->offset, .bytes = from->bytes, .base = (uint8_t *)base, .mapped = from->bytes};
	return 1;
}

static struct remote *adopt(struct qp *qp, const struct bee_resolve_reply *reply, uint32_t key, const struct passed *p, uint32_t n)
{
	struct remote *m = calloc(1, sizeof *m + reply->extents * sizeof m->extent[0]);

	if (!m)
		return NULL;
	m->key = key;
	m->slot = reply->slot;
	m->access = reply->access;
	m->addr = reply->addr;
	m->length = reply->length;
	m->iova = reply->iova;
	m->next = qp->remotes;
	qp->remotes = m;
	for (uint32_t i = 0; i < reply->extents; i++, m->extents++)
		if (reply->extent[i].region >= n || !map_extent(&m->extent[i], &reply->extent[i], &p[reply->extent[i].region], m->access)) {
			m->key = 0; /* never found */
			return NULL;
		}
	return m;
}

/* resolve asks the broker for the memory behind a key. */
static struct remote *resolve(struct qp *qp, uint32_t key, int *error)
{
	struct bee_resolve ask = {{sizeof ask, BEE_OP_RESOLVE, 0}, qp->qp.handle, key};
	union {
		struct bee_resolve_reply reply;
		uint8_t room[sizeof(struct bee_resolve_reply) + BEE_EXTENTS * sizeof(struct bee_extent)];
	} m;
	struct passed p[BEE_EXTENTS];
	uint32_t n = BEE_EXTENTS;
	struct remote *made = NULL;

	*error = broker_call(context_of(qp->qp.context), &ask, &m, sizeof m, p, &n);
	if (!*error && m.reply.extents <= BEE_EXTENTS) {
		made = adopt(qp, &m.reply, key, p, n);
		*error = made ? 0 : ENOMEM;
	}
	for (uint32_t i = 0; i < n; i++)
		close_fd(p[i].fd);
	return made;
}

/* remote_of returns the memory behind a key, from what is mapped already where that is valid. */
static struct remote *remote_of(struct qp *qp, uint32_t key, int *error)
{
	struct remote **link, *m;

	for (link = &qp->remotes; (m = *link); link = &m->next) {
		if (m->key != key)
			continue;
		if (valid(qp, m))
			return m;
		*link = m->next;
		for (uint32_t i = 0; i < m->extents; i++)
			unmap(m->extent[i].base, m->extent[i].mapped);
		free(m);
		break;
	}
	return resolve(qp, key, error);
}

/* part returns the memory at `offset` of the pages, and how much of it lies together. */
static uint8_t *part(const struct remote *m, uint64_t offset, uint64_t *bytes)
{
	for (uint32_t i = 0; i < m->extents; i++) {
		const struct extent *x = &m->extent[i];

		if (offset >= x->offset && offset - x->offset < x->bytes) {
			*bytes = x->bytes - (offset - x->offset);
			return x->base + (offset - x->offset);
		}
	}
	return NULL;
}

static void copy_last(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
	if (bytes > TAIL) {
		memcpy(to, from, bytes - TAIL);
		to += bytes - TAIL;
		from += bytes - TAIL;
		bytes = TAIL;
	}
	__atomic_thread_fence(__ATOMIC_RELEASE);
	memcpy(to, from, bytes);
}

/* copy moves bytes between own memory and the peer's. */
static int copy(const struct remote *m, uint64_t offset, uint8_t *own, uint64_t bytes, int writing)
{
	while (bytes > 0) {
		uint64_t n;
		uint8_t *theirs = part(m, offset, &n);

		if (!theirs)
			return 0;
		n = n < bytes ? n : bytes;
		if (writing)
			copy_last(theirs, own, n);
		else
			memcpy(own, theirs, n);
		own += n;
		offset += n;
		bytes -= n;
	}
	return 1;
}

static enum ibv_wc_status transfer(struct qp *qp, struct request *r, const struct remote *m, uint64_t offset, int writing)
{
	if (r->wr.send_flags & IBV_SEND_INLINE)
		return copy(m, offset, r->data, r->total, 1) ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
	for (int i = 0; i < r->wr.num_sge; i++) {
		const struct ibv_sge *s = &r->sge[i];
		uint8_t *own;

		if (!s->length)
			continue;
		own = mr_at(qp, s, writing ? 0 : IBV_ACCESS_LOCAL_WRITE);
		if (!own)
			return IBV_WC_LOC_PROT_ERR;
		if (!copy(m, offset, own, s->length, writing))
			return IBV_WC_REM_ACCESS_ERR;
		offset += s->length;
	}
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status atomic(struct qp *qp, struct request *r, const struct remote *m, uint64_t offset)
{
	uint64_t n, before;
	uint64_t *theirs = (uint64_t *)part(m, offset, &n);
	uint8_t *own = r->total == 8 && r->wr.num_sge == 1 ? mr_at(qp, &r->sge[0], IBV_ACCESS_LOCAL_WRITE) : NULL;

	if (!own)
		return IBV_WC_LOC_PROT_ERR;
	if (!theirs)
		return IBV_WC_REM_ACCESS_ERR;
	if (r->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		before = __atomic_fetch_add(theirs, r->wr.wr.atomic.compare_add, __ATOMIC_SEQ_CST);
	} else {
		before = r->wr.wr.atomic.compare_add;
		__atomic_compare_exchange_n(theirs, &before, r->wr.wr.atomic.swap, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	}
	memcpy(own, &before, sizeof before);
	return IBV_WC_SUCCESS;
}

/* right returns what an operation asks of a key. */
static uint32_t right(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_RDMA_READ:
		return IBV_ACCESS_REMOTE_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_ACCESS_REMOTE_ATOMIC;
	default:
		return IBV_ACCESS_REMOTE_WRITE;
	}
}

static int is_atomic(const struct request *r)
{
	return r->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || r->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* carry_out does the request on memory that is mapped. */
static enum ibv_wc_status carry_out(struct qp *qp, struct request *r, const struct remote *m, uint64_t offset)
{
	struct context *c = context_of(qp->qp.context);
	int writing = right(r->wr.opcode) == IBV_ACCESS_REMOTE_WRITE;
	enum ibv_wc_status status = is_atomic(r) ? atomic(qp, r, m, offset) : transfer(qp, r, m, offset, writing);

	if (status)
		return status;
	count(c, is_atomic(r) ? BEE_COUNT_ATOMICS : writing ? BEE_COUNT_WRITES : BEE_COUNT_READS, 1);
	count(c, BEE_COUNT_DIRECT_BYTES, r->total);
	return status;
}

/* reach checks key, right and bounds of a request, and carries it out; 0: it has to wait. */
static int reach(struct qp *qp, struct request *r)
{
	uint64_t address = is_atomic(r) ? r->wr.wr.atomic.remote_addr : r->wr.wr.rdma.remote_addr;
	uint32_t key = is_atomic(r) ? r->wr.wr.atomic.rkey : r->wr.wr.rdma.rkey;
	struct remote *m;
	int error = 0;

	if (r->total == 0)
		return send_end(r, IBV_WC_SUCCESS);
	m = remote_of(qp, key, &error);
	if (error == EACCES || (m && (!(m->access & right(r->wr.opcode)) || address < m->iova ||
		r->total > m->length || address - m->iova > m->length - r->total)))
		return send_end(r, IBV_WC_REM_ACCESS_ERR);
	if (!m)
		return error == ENOMEM ? send_end(r, IBV_WC_REM_OP_ERR) : send_wait(qp, r, 0);
	if (is_atomic(r) && address % 8)
		return send_end(r, IBV_WC_REM_INV_REQ_ERR);
	if (m->extents == 0)
		return stage_post(qp, r);
	return send_end(r, carry_out(qp, r, m, address - m->iova + m->addr % 4096));
}

int one_sided(struct qp *qp, struct request *r)
{
	int unreliable = qp->qp.qp_type == IBV_QPT_UC, immediate = r->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (!qp->peer)
		return unreliable ? send_end(r, IBV_WC_SUCCESS) : send_wait(qp, r, 0);
	if (send_gone(qp))
		return send_end(r, unreliable ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR);
	if (!r->placed) { /* once, where the immediate data has to wait */
		if (!reach(qp, r))
			return 0;
		if (unreliable && r->status != IBV_WC_LOC_PROT_ERR)
			r->status = IBV_WC_SUCCESS;
		if (unreliable && r->stage == WAITING)
			r->stage = FINISHED;
		if (r->status || !immediate)
			return 1;
		r->placed = 1;
		r->staged = r->stage == WAITING ? r->number : 0;
		r->number = 0;
		r->stage = QUEUED;
	}
	return send_message(qp, r);
}
