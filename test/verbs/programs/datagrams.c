/*
 * datagrams: a receiver has receives for all datagrams, and does not poll for a while. None is
 * lost, as a card would have put each into a receive. The receiver's broker is that at
 * OTHER_SOCKET where that is set.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT 400
#define SIZE 64
#define GRH 40
#define QKEY 0x1234
#define PAUSE_MS 500

#define CHECK(x) \
	do { \
		if (!(x)) { \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #x, errno); \
			exit(1); \
		} \
	} while (0)

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_port_attr port;
	uint8_t buffer[COUNT * (GRH + SIZE)];
};

static struct side sender, receiver;

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void open_side(struct side *s)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD, .cap = {COUNT, COUNT, 1, 1, 0}};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	CHECK(list && list[0] && (s->context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	CHECK(ibv_query_port(s->context, 1, &s->port) == 0);
	CHECK((s->pd = ibv_alloc_pd(s->context)) && (s->cq = ibv_create_cq(s->context, COUNT, NULL, NULL, 0)));
	CHECK((s->mr = ibv_reg_mr(s->pd, s->buffer, sizeof s->buffer, IBV_ACCESS_LOCAL_WRITE)));
	init.send_cq = init.recv_cq = s->cq;
	CHECK((s->qp = ibv_create_qp(s->pd, &init)));
	CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	a.qp_state = IBV_QPS_RTR;
	CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE) == 0);
	a.qp_state = IBV_QPS_RTS;
	CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
}

int main(void)
{
	const char *other = getenv("OTHER_SOCKET");
	struct ibv_ah_attr to = {.port_num = 1};
	struct ibv_ah *ah;
	struct ibv_wc wc;
	int sent = 0, received = 0;
	long until;

	open_side(&sender);
	CHECK(!other || setenv("BEE_RDMA_SOCKET", other, 1) == 0);
	open_side(&receiver);
	to.dlid = receiver.port.lid;
	CHECK((ah = ibv_create_ah(sender.pd, &to)));
	for (int i = 0; i < COUNT; i++) {
		struct ibv_sge into = {(uintptr_t)receiver.buffer + (size_t)i * (GRH + SIZE), GRH + SIZE, receiver.mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = (uint64_t)i, .sg_list = &into, .num_sge = 1}, *bad;

		CHECK(ibv_post_recv(receiver.qp, &wr, &bad) == 0);
	}
	for (int i = 0; i < COUNT; i++) {
		struct ibv_sge from = {(uintptr_t)memset(sender.buffer + i * SIZE, i % 251, SIZE), SIZE, sender.mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
			.wr.ud = {ah, receiver.qp->qp_num, QKEY}}, *bad;

		CHECK(ibv_post_send(sender.qp, &wr, &bad) == 0);
	}
	for (until = now_ms() + PAUSE_MS; now_ms() < until;)
		sent += ibv_poll_cq(sender.cq, 1, &wc) == 1 && wc.status == 0;
	for (until = now_ms() + 30000; (sent < COUNT || received < COUNT) && now_ms() < until;) {
		sent += ibv_poll_cq(sender.cq, 1, &wc) == 1 && wc.status == 0;
		if (ibv_poll_cq(receiver.cq, 1, &wc) == 1) {
			const uint8_t *data = receiver.buffer + (size_t)received * (GRH + SIZE) + GRH;

			CHECK(wc.status == 0 && wc.wr_id == (uint64_t)received && wc.byte_len == GRH + SIZE);
			CHECK(data[0] == received % 251 && data[SIZE - 1] == received % 251);
			received++;
		}
	}
	printf("%d were sent, and %d received\n", sent, received);
	return sent < COUNT || received < COUNT;
}
