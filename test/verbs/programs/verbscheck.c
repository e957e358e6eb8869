/*
 * verbscheck SEED ROUNDS [FILE]: random operations between two queue pairs, compared with
 * a model byte by byte. Each side has a context and a buffer of its own, of memory of FILE
 * where one is given, and of the broker at OTHER_SOCKET where that is set. What lies around the bytes that an operation may change is compared,
 * too, and so is each field of a completion.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (1 << 20)
#define SGES 4
#define DEPTH 32

#define CHECK(x) \
	do { \
		if (!(x)) { \
			fprintf(stderr, "%s:%d: round %d: %s (errno %d)\n", __FILE__, __LINE__, round_, #x, errno); \
			exit(1); \
		} \
	} while (0)

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buffer, *model;
	uint16_t lid;
};

static struct side side[2];
static int round_;
static uint64_t seed;

static uint32_t any(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

static uint32_t some_size(void)
{
	switch (any(4)) {
	case 0:
		return any(17);
	case 1:
		return any(5000);
	case 2:
		return 1 + any(100);
	default:
		return any(SIZE / 4);
	}
}

static void *memory(const char *file, int i)
{
	int fd = -1;

	if (file) {
		char name[4096];

		snprintf(name, sizeof name, "%s.%d", file, i);
		fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
		CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
	}
	return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
}

static void open_side(struct side *s, const char *file, int i)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {DEPTH, DEPTH, SGES, SGES, 64}};
	struct ibv_port_attr port;
	const char *other = getenv("OTHER_SOCKET");

	if (i == 1 && other)
		CHECK(setenv("BEE_RDMA_SOCKET", other, 1) == 0);
	CHECK(list && list[0]);
	CHECK((s->context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK(ibv_query_port(s->context, 1, &port) == 0);
	s->lid = port.lid;
	CHECK((s->pd = ibv_alloc_pd(s->context)));
	CHECK((s->cq = ibv_create_cq(s->context, 4 * DEPTH, NULL, NULL, 0)));
	s->buffer = memory(file, i);
	s->model = malloc(SIZE);
	CHECK(s->buffer != MAP_FAILED && s->model);
	for (int j = 0; j < SIZE; j++)
		s->buffer[j] = s->model[j] = (uint8_t)any(256);
	CHECK((s->mr = ibv_reg_mr(s->pd, s->buffer, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)));
	init.send_cq = init.recv_cq = s->cq;
	CHECK((s->qp = ibv_create_qp(s->pd, &init)));
}

static void to(struct side *s, enum ibv_qp_state state, struct ibv_qp_attr a, int mask)
{
	a.qp_state = state;
	CHECK(ibv_modify_qp(s->qp, &a, mask | IBV_QP_STATE) == 0);
}

static void join_sides(void)
{
	for (int i = 0; i < 2; i++)
		to(&side[i], IBV_QPS_INIT, (struct ibv_qp_attr){.port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC},
		   IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	for (int i = 0; i < 2; i++)
		to(&side[i], IBV_QPS_RTR, (struct ibv_qp_attr){.path_mtu = IBV_MTU_4096, .dest_qp_num = side[!i].qp->qp_num, .max_dest_rd_atomic = 16, .min_rnr_timer = 12, .ah_attr = {.dlid = side[!i].lid, .port_num = 1}},
		   IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	/* Between machines, requests of a side wait while the brokers have no processor. */
	for (int i = 0; i < 2; i++)
		to(&side[i], IBV_QPS_RTS, (struct ibv_qp_attr){.timeout = getenv("OTHER_SOCKET") ? 20 : 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 16},
		   IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* completion waits for the next one of a side; the other side is polled too, and has none. */
static struct ibv_wc completion(struct side *s)
{
	struct ibv_wc wc;
	int n;

	for (long i = 0; (n = ibv_poll_cq(s->cq, 1, &wc)) == 0 && i < 200000000; i++)
		;
	CHECK(n == 1);
	return wc;
}

static void quiet(void)
{
	struct ibv_wc wc;

	CHECK(ibv_poll_cq(side[0].cq, 1, &wc) == 0);
	CHECK(ibv_poll_cq(side[1].cq, 1, &wc) == 0);
}

static void same(void)
{
	for (int i = 0; i < 2; i++)
		CHECK(memcmp(side[i].buffer, side[i].model, SIZE) == 0);
}

/* cut splits `total` bytes from `at` on into scatter entries. */
static int cut(struct side *s, uint32_t at, uint32_t total, struct ibv_sge *sge)
{
	int n = 1 + (int)any(SGES);

	for (int i = 0; i < n; i++) {
		uint32_t part = i == n - 1 ? total : any(total + 1);

		sge[i] = (struct ibv_sge){(uintptr_t)s->buffer + at, part, s->mr->lkey};
		at += part;
		total -= part;
	}
	return n;
}

static void post(struct side *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	wr->send_flags |= IBV_SEND_SIGNALED;
	CHECK(ibv_post_send(s->qp, wr, &bad) == 0);
}

static void sent(struct side *s, const struct ibv_send_wr *wr, enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
	struct ibv_wc wc = completion(s);

	CHECK(wc.wr_id == wr->wr_id && wc.status == status && wc.qp_num == s->qp->qp_num);
	CHECK(status || wc.opcode == opcode);
}

static void one_sided(struct side *a, struct side *b, int reading)
{
	uint32_t n = some_size(), here = any(SIZE - n), there = any(SIZE - n);
	struct ibv_sge sge[SGES];
	struct ibv_send_wr wr = {.wr_id = any(1 << 30), .sg_list = sge, .opcode = reading ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.wr.rdma = {(uintptr_t)b->buffer + there, b->mr->rkey}};

	wr.num_sge = cut(a, here, n, sge);
	if (!reading && n <= 64 && any(2))
		wr.send_flags = IBV_SEND_INLINE;
	post(a, &wr);
	if (reading)
		memcpy(a->model + here, b->model + there, n);
	else
		memcpy(b->model + there, a->model + here, n);
	sent(a, &wr, reading ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE, IBV_WC_SUCCESS);
}

static void atomic(struct side *a, struct side *b)
{
	uint32_t here = any(SIZE / 8 - 1) * 8, there = any(SIZE / 8 - 1) * 8;
	struct ibv_sge sge = {(uintptr_t)a->buffer + here, 8, a->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = any(1 << 30), .sg_list = &sge, .num_sge = 1};
	uint64_t before, after;
	int adding = any(2);

	memcpy(&before, b->model + there, 8);
	wr.opcode = adding ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.remote_addr = (uintptr_t)b->buffer + there;
	wr.wr.atomic.rkey = b->mr->rkey;
	wr.wr.atomic.compare_add = any(2) ? before : any(1000);
	wr.wr.atomic.swap = any(1 << 30);
	after = adding ? before + wr.wr.atomic.compare_add : before == wr.wr.atomic.compare_add ? wr.wr.atomic.swap : before;
	post(a, &wr);
	memcpy(b->model + there, &after, 8);
	memcpy(a->model + here, &before, 8);
	sent(a, &wr, adding ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP, IBV_WC_SUCCESS);
}

static void message(struct side *a, struct side *b, int writing)
{
	uint32_t n = some_size(), room = n + any(1000), here = any(SIZE - n), there = any(SIZE - room), imm = any(1 << 30), wrote = any(SIZE - n);
	struct ibv_sge from[SGES], into[SGES];
	struct ibv_recv_wr recv = {.wr_id = any(1 << 30), .sg_list = into}, *bad;
	struct ibv_send_wr wr = {.wr_id = any(1 << 30), .sg_list = from, .imm_data = imm};
	int late = any(3) == 0, with = writing || any(2);
	struct ibv_wc wc;

	recv.num_sge = cut(b, there, room, into);
	wr.num_sge = cut(a, here, n, from);
	wr.opcode = writing ? IBV_WR_RDMA_WRITE_WITH_IMM : with ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	if (writing) {
		wr.wr.rdma.remote_addr = (uintptr_t)b->buffer + wrote;
		wr.wr.rdma.rkey = b->mr->rkey;
	}
	if (!late)
		CHECK(ibv_post_recv(b->qp, &recv, &bad) == 0);
	post(a, &wr);
	if (late)
		CHECK(ibv_post_recv(b->qp, &recv, &bad) == 0);
	memcpy(b->model + (writing ? wrote : there), a->model + here, n);
	for (long i = 0; ibv_poll_cq(b->cq, 1, &wc) == 0; i++) {
		struct ibv_wc early;

		CHECK(i < 200000000);
		if (ibv_poll_cq(a->cq, 1, &early) == 1) { /* which drives it as well */
			CHECK(early.wr_id == wr.wr_id && early.status == IBV_WC_SUCCESS);
			wr.wr_id = ~0ull;
		}
	}
	CHECK(wc.wr_id == recv.wr_id && wc.status == IBV_WC_SUCCESS && wc.byte_len == n && wc.qp_num == b->qp->qp_num);
	CHECK(wc.opcode == (writing ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
	CHECK(!!(wc.wc_flags & IBV_WC_WITH_IMM) == with && (!with || wc.imm_data == imm));
	if (wr.wr_id != ~0ull)
		sent(a, &wr, writing ? IBV_WC_RDMA_WRITE : IBV_WC_SEND, IBV_WC_SUCCESS);
}

/* renew connects both sides again after an error. */
static void renew(void)
{
	struct ibv_wc wc;

	for (int i = 0; i < 2; i++)
		to(&side[i], IBV_QPS_RESET, (struct ibv_qp_attr){0}, 0);
	for (int i = 0; i < 2; i++)
		while (ibv_poll_cq(side[i].cq, 1, &wc) == 1)
			;
	join_sides();
}

/* refused: a request that its peer has to refuse fails, and changes no byte. */
static void refused(struct side *a, struct side *b)
{
	struct ibv_sge sge = {(uintptr_t)a->buffer, 64, a->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = any(1 << 30), .sg_list = &sge, .num_sge = 1, .opcode = any(2) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
		.wr.rdma = {(uintptr_t)b->buffer + any(SIZE - 64), b->mr->rkey}};
	enum ibv_wc_status status = IBV_WC_REM_ACCESS_ERR;
	struct ibv_mr *weak = NULL;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	switch (any(5)) {
	case 0:
		wr.wr.rdma.rkey ^= 1u << any(32);
		break;
	case 1:
		wr.wr.rdma.remote_addr = (uintptr_t)b->buffer + SIZE - any(64);
		break;
	case 2:
		wr.wr.rdma.remote_addr = (uintptr_t)b->buffer - 1 - any(64);
		break;
	case 3: /* the other right alone */
		weak = ibv_reg_mr(b->pd, b->buffer, SIZE, IBV_ACCESS_LOCAL_WRITE | (wr.opcode == IBV_WR_RDMA_WRITE ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE));
		CHECK(weak);
		wr.wr.rdma.rkey = weak->rkey;
		break;
	default:
		sge.lkey ^= 1u << any(32);
		status = IBV_WC_LOC_PROT_ERR;
	}
	post(a, &wr);
	sent(a, &wr, 0, status);
	CHECK(ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_ERR);
	if (weak)
		CHECK(ibv_dereg_mr(weak) == 0);
	same();
	renew();
}

/* registered: memory is registered once more, in part, and given up, while it is in use. */
static void registered(struct side *s)
{
	uint32_t n = 1 + any(SIZE / 2), at = any(SIZE - n);
	struct ibv_mr *mr = ibv_reg_mr(s->pd, s->buffer + at, n, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	CHECK(mr && mr->rkey != s->mr->rkey);
	CHECK(ibv_dereg_mr(mr) == 0);
	if (any(2)) {
		CHECK(ibv_dereg_mr(s->mr) == 0);
		CHECK((s->mr = ibv_reg_mr(s->pd, s->buffer, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)));
	}
}

/* forked: a child has the memory as it was, for itself, and no device. */
static void forked(struct side *s)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		struct ibv_wc wc;

		if (memcmp(s->buffer, s->model, SIZE))
			_exit(1);
		memset(s->buffer, 0, SIZE);
		_exit(ibv_poll_cq(s->cq, 1, &wc) < 0 ? 0 : 2);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 1000, shared = argc > 3;

	seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	for (int i = 0; i < 2; i++)
		open_side(&side[i], shared ? argv[3] : NULL, i);
	join_sides();
	for (round_ = 0; round_ < rounds; round_++) {
		int i = (int)any(2);
		uint32_t what = any(100);

		if (what < 25)
			one_sided(&side[i], &side[!i], 0);
		else if (what < 50)
			one_sided(&side[i], &side[!i], 1);
		else if (what < 60)
			atomic(&side[i], &side[!i]);
		else if (what < 80)
			message(&side[i], &side[!i], 0);
		else if (what < 90)
			message(&side[i], &side[!i], 1);
		else if (what < 94)
			refused(&side[i], &side[!i]);
		else if (what < 98)
			registered(&side[i]);
		else if (!shared)
			forked(&side[i]);
		same();
		quiet();
	}
	for (int i = 0; i < 2; i++) {
		CHECK(ibv_destroy_qp(side[i].qp) == 0 && ibv_dereg_mr(side[i].mr) == 0 && ibv_destroy_cq(side[i].cq) == 0);
		CHECK(ibv_dealloc_pd(side[i].pd) == 0 && ibv_close_device(side[i].context) == 0);
		for (int j = 0; j < SIZE; j++)
			CHECK(side[i].buffer[j] == side[i].model[j]);
	}
	return 0;
}
