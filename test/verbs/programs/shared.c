/*
 * shared [give-up]: two senders count on the one receive of a shared receive queue, and see their messages complete. The
 * receiver takes one of them. Then the other sender ends. Its message arrives once a receive is posted, and its
 * queue pair is over after that. With give-up, it is over as soon as the receiver says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(x) \
	do { \
		if (!(x)) { \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #x, errno); \
			exit(1); \
		} \
	} while (0)

#define SIZE 64

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_srq *srq;
	struct ibv_port_attr port;
	uint8_t buffer[SIZE];
};

struct name {
	uint32_t number;
	uint16_t lid;
};

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void open_side(struct side *s, int shared)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_srq_init_attr init = {.attr = {4, 1, 0}};

	CHECK(list && list[0] && (s->context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK(ibv_query_port(s->context, 1, &s->port) == 0);
	CHECK((s->pd = ibv_alloc_pd(s->context)) && (s->cq = ibv_create_cq(s->context, 16, NULL, NULL, 0)));
	CHECK((s->mr = ibv_reg_mr(s->pd, s->buffer, SIZE, IBV_ACCESS_LOCAL_WRITE)));
	if (shared)
		CHECK((s->srq = ibv_create_srq(s->pd, &init)));
}

static struct ibv_qp *create(struct side *s, struct name *name)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .send_cq = s->cq, .recv_cq = s->cq, .srq = s->srq, .cap = {4, s->srq ? 0 : 4, 1, 1, 0}};
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	CHECK(qp);
	*name = (struct name){qp->qp_num, s->port.lid};
	return qp;
}

static void join(struct ibv_qp *qp, struct name to)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to.number, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = {.dlid = to.lid, .port_num = 1}};
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static struct ibv_wc completion(struct side *s)
{
	struct ibv_wc wc = {0};
	long until = now_ms() + 30000;
	int n;

	while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0 && now_ms() < until)
		;
	CHECK(n == 1);
	return wc;
}

/* send sends a message of one letter, and waits until it is complete. */
static void send(struct side *s, struct ibv_qp *qp, char letter)
{
	struct ibv_sge from = {(uintptr_t)memset(s->buffer, letter, SIZE), SIZE, s->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	CHECK(ibv_post_send(qp, &wr, &bad) == 0 && completion(s).status == IBV_WC_SUCCESS);
}

static void post(struct side *s)
{
	struct ibv_sge into = {(uintptr_t)s->buffer, SIZE, s->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &into, .num_sge = 1}, *bad;

	CHECK(ibv_post_srq_recv(s->srq, &wr, &bad) == 0);
}

static void expect(struct side *s, const struct ibv_qp *qp, char letter)
{
	struct ibv_wc wc = completion(s);

	CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == qp->qp_num && wc.byte_len == SIZE);
	CHECK(s->buffer[0] == letter && s->buffer[SIZE - 1] == letter);
}

/* other is a sender that ends without destroying anything. */
static void other(int in, int out)
{
	static struct side s;
	struct name own, to;
	struct ibv_qp *qp;

	open_side(&s, 0);
	qp = create(&s, &own);
	CHECK(write(out, &own, sizeof own) == sizeof own && read(in, &to, sizeof to) == sizeof to);
	join(qp, to);
	send(&s, qp, 'b');
	_exit(0);
}

/* event takes one of a queue pair, if there is one. */
static int event(struct side *s, enum ibv_event_type type)
{
	struct ibv_async_event e;

	if (ibv_get_async_event(s->context, &e))
		return 0;
	CHECK(e.event_type == type);
	ibv_ack_async_event(&e);
	return 1;
}

int main(int argc, char **argv)
{
	static struct side receiver, sender;
	struct name name[2], own[2];
	struct ibv_qp *from, *to[2];
	struct ibv_qp_attr failed = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;
	int down[2], up[2], status;
	long until = now_ms() + 30000;
	pid_t child;

	CHECK(pipe(down) == 0 && pipe(up) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		other(down[0], up[1]);
	open_side(&receiver, 1);
	open_side(&sender, 0);
	CHECK(fcntl(receiver.context->async_fd, F_SETFL, O_NONBLOCK) == 0);
	from = create(&sender, &name[0]);
	CHECK(read(up[0], &name[1], sizeof name[1]) == sizeof name[1]);
	for (int i = 0; i < 2; i++)
		join(to[i] = create(&receiver, &own[i]), name[i]);
	join(from, own[0]);
	post(&receiver);
	send(&sender, from, 'a');
	CHECK(write(down[1], &own[1], sizeof own[1]) == sizeof own[1]);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	while (!event(&receiver, IBV_EVENT_QP_FATAL))
		CHECK(now_ms() < until);
	expect(&receiver, to[0], 'a');
	for (int i = 0; i < 100; i++)
		CHECK(ibv_poll_cq(receiver.cq, 1, &wc) == 0);
	CHECK(!event(&receiver, IBV_EVENT_QP_LAST_WQE_REACHED));
	if (argc > 1 && strcmp(argv[1], "give-up") == 0) {
		CHECK(ibv_modify_qp(to[1], &failed, IBV_QP_STATE) == 0);
	} else {
		post(&receiver);
		expect(&receiver, to[1], 'b');
		CHECK(ibv_poll_cq(receiver.cq, 1, &wc) == 0);
	}
	CHECK(event(&receiver, IBV_EVENT_QP_LAST_WQE_REACHED));
	CHECK(ibv_destroy_qp(to[0]) == 0 && ibv_destroy_qp(to[1]) == 0 && ibv_destroy_srq(receiver.srq) == 0);
	return 0;
}
