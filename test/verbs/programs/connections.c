/*
 * Connections by address. `connections serve` prints the port that it listens on, and answers
 * requests by the first byte of their private data. `connections check PORT MESSAGES` makes requests,
 * and compares each event with what librdmacm documents. Both wait by poll(2) alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/poll.h> /* poll.h would be that of verbs/ */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS 60000

#define CHECK(x) \
	do { \
		if (!(x)) { \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #x, errno); \
			exit(1); \
		} \
	} while (0)

struct counts {
	uint8_t established, disconnected, rejected, messages;
};

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htobe16(port), .sin_addr.s_addr = htobe32(0x7f000001)};
}

static struct rdma_event_channel *channel(void)
{
	struct rdma_event_channel *c = rdma_create_event_channel();

	CHECK(c && fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK) == 0);
	return c;
}

static struct rdma_cm_event *next(struct rdma_event_channel *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	struct rdma_cm_event *e;

	do
		CHECK(poll(&p, 1, WAIT_MS) == 1);
	while (rdma_get_cm_event(c, &e) && errno == EAGAIN);
	return e;
}

/* expect takes the next event, which has to be this one. */
static void expect(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *e = next(id->channel);

	if (e->event != type || e->status != status || e->id != id) {
		fprintf(stderr, "got %s with status %d, expected %s with %d\n", rdma_event_str(e->event), e->status, rdma_event_str(type), status);
		exit(1);
	}
	CHECK(rdma_ack_cm_event(e) == 0);
}

static void create_queue_pair(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = {.cap = {1, 1, 1, 1, 0}, .qp_type = id->qp_type};

	CHECK(rdma_create_qp(id, NULL, &a) == 0 && id->qp);
}

static void destroy(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	CHECK(rdma_destroy_id(id) == 0);
}

/* answer ends the event of a request first: the identifier may be destroyed here. */
static void answer(struct rdma_cm_event *e, const struct counts *n)
{
	struct rdma_cm_id *id = e->id;
	uint8_t data[196], what = 0;
	struct rdma_conn_param p = {.private_data = data, .private_data_len = sizeof data, .responder_resources = 0xff, .initiator_depth = 0xff};

	memset(data, 7, sizeof data);
	memcpy(data, n, sizeof *n);
	if (id->ps == RDMA_PS_UDP) {
		what = e->param.ud.private_data_len ? *(uint8_t *)e->param.ud.private_data : 0;
		p.private_data_len = 3;
	} else {
		what = e->param.conn.private_data_len ? *(uint8_t *)e->param.conn.private_data : 0;
		CHECK(e->param.conn.initiator_depth == 4 && e->param.conn.responder_resources == 3);
	}
	CHECK(id->verbs && id->pd && id->route.num_paths == 1 && rdma_get_dst_port(id) && rdma_ack_cm_event(e) == 0);
	switch (what) {
	case 'r':
		CHECK(rdma_reject(id, "no", 2) == 0);
		destroy(id);
		return;
	case 'x':
		destroy(id);
		return;
	case 'i': /* no answer */
		return;
	}
	id->context = what == 'k' ? id : NULL;
	create_queue_pair(id);
	CHECK(rdma_accept(id, &p) == 0);
}

static struct rdma_cm_id *listener(struct rdma_event_channel *c, enum rdma_port_space ps, uint16_t port)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htobe16(port)};
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(c, &id, NULL, ps) == 0 && rdma_bind_addr(id, (struct sockaddr *)&any) == 0 && rdma_listen(id, 8) == 0);
	return id;
}

/* The group that the server is a member of, as is the client. */
static struct sockaddr_in group = {.sin_family = AF_INET};
static uint8_t message[40 + 4]; /* behind a header */

static struct rdma_cm_id *create(struct rdma_event_channel *c, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	CHECK(rdma_create_id(c, &id, c, ps) == 0 && id->context == c);
	return id;
}

/* member returns an identifier that has joined a group, and how to send there. */
static struct rdma_cm_id *member(struct rdma_event_channel *c, struct ibv_ah **ah)
{
	struct sockaddr_in own = loopback(0);
	struct rdma_cm_id *id = create(c, RDMA_PS_UDP);
	struct ibv_mr *receive;
	struct rdma_cm_event *e;

	group.sin_addr.s_addr = htobe32(0xef010203);
	CHECK(rdma_resolve_addr(id, (struct sockaddr *)&own, (struct sockaddr *)&group, 1000) == 0);
	expect(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	create_queue_pair(id);
	receive = rdma_reg_msgs(id, message, sizeof message);
	CHECK(receive && rdma_post_recv(id, NULL, message, sizeof message, receive) == 0);
	CHECK(rdma_join_multicast(id, (struct sockaddr *)&group, c) == 0);
	e = next(c);
	CHECK(e->event == RDMA_CM_EVENT_MULTICAST_JOIN && e->status == 0 && e->id == id && e->param.ud.private_data == c);
	CHECK(e->param.ud.qp_num == 0xffffff && e->param.ud.qkey == RDMA_UDP_QKEY);
	*ah = ibv_create_ah(id->pd, &e->param.ud.ah_attr);
	CHECK(*ah && rdma_ack_cm_event(e) == 0);
	return id;
}

static void serve(void)
{
	struct rdma_event_channel *c = channel();
	struct rdma_cm_id *stream = listener(c, RDMA_PS_TCP, 0);
	struct counts n = {0};
	struct ibv_ah *ah;
	struct rdma_cm_id *many = member(c, &ah);
	struct ibv_wc wc;

	listener(c, RDMA_PS_UDP, be16toh(rdma_get_src_port(stream)));
	printf("%d\n", be16toh(rdma_get_src_port(stream)));
	fflush(stdout);
	for (;;) {
		struct rdma_cm_event *e = next(c);
		struct rdma_cm_id *id = e->id, *over = NULL;

		switch (e->event) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			if (ibv_poll_cq(many->recv_cq, 1, &wc) == 1)
				n.messages += wc.status == 0 && wc.byte_len == sizeof message && message[43] == 4;
			answer(e, &n);
			continue;
		case RDMA_CM_EVENT_ESTABLISHED:
			n.established++;
			if (id->context)
				kill(getpid(), SIGKILL);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			n.disconnected++;
			CHECK(rdma_disconnect(id) == 0);
			over = id;
			break;
		case RDMA_CM_EVENT_REJECTED:
			CHECK(e->status == 4);
			n.rejected++;
			over = id;
			break;
		default:
			CHECK(!"this event");
		}
		CHECK(rdma_ack_cm_event(e) == 0);
		if (over)
			destroy(over);
	}
}

/* prepare resolves the server, and makes the queue pair. */
static struct rdma_cm_id *prepare(struct rdma_event_channel *c, enum rdma_port_space ps, uint16_t port)
{
	struct sockaddr_in to = loopback(port);
	struct rdma_cm_id *id = create(c, ps);

	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) == 0);
	expect(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK(id->verbs && id->pd && id->port_num == 1);
	CHECK(rdma_resolve_route(id, 1000) == 0);
	expect(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	CHECK(id->route.num_paths == 1 && id->route.path_rec->dlid && be16toh(rdma_get_dst_port(id)) == port);
	create_queue_pair(id);
	return id;
}

static int try(struct rdma_cm_id *id, char what, uint8_t bytes)
{
	uint8_t data[255] = {(uint8_t)what};
	struct rdma_conn_param p = {.private_data = data, .private_data_len = bytes, .initiator_depth = 3, .responder_resources = 4, .retry_count = 7};

	return rdma_connect(id, &p);
}

static struct rdma_cm_id *request(struct rdma_event_channel *c, uint16_t port, char what)
{
	struct rdma_cm_id *id = prepare(c, RDMA_PS_TCP, port);

	CHECK(try(id, what, 56) == 0);
	return id;
}

static void rejected(struct rdma_cm_id *id, int reason, const char *data)
{
	struct rdma_cm_event *e = next(id->channel);
	size_t n = strlen(data);

	CHECK(e->event == RDMA_CM_EVENT_REJECTED && e->id == id && e->status == reason);
	CHECK(e->param.conn.private_data_len == n && (n == 0 || memcmp(e->param.conn.private_data, data, n) == 0));
	rdma_ack_cm_event(e);
	destroy(id);
}

/* established takes that event, and returns the counts that the server has sent with it. */
static struct counts established(struct rdma_cm_id *id)
{
	struct rdma_cm_event *e = next(id->channel);
	const uint8_t *data = e->param.conn.private_data;
	struct counts n;

	CHECK(e->event == RDMA_CM_EVENT_ESTABLISHED && e->status == 0 && e->id == id);
	CHECK(e->param.conn.private_data_len == 196 && data[sizeof n] == 7 && data[195] == 7);
	memcpy(&n, data, sizeof n);
	rdma_ack_cm_event(e);
	return n;
}

static struct counts disconnect(struct rdma_cm_id *id)
{
	struct counts n = established(id);

	CHECK(rdma_disconnect(id) == 0);
	expect(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK(rdma_disconnect(id) == -1 && errno == EINVAL);
	destroy(id);
	return n;
}

static void check_addresses(struct rdma_event_channel *c)
{
	struct sockaddr_in own = loopback(9), nowhere = loopback(7);
	struct rdma_cm_id *a = create(c, RDMA_PS_TCP), *b = create(c, RDMA_PS_TCP), *id;

	CHECK(rdma_bind_addr(a, (struct sockaddr *)&own) == 0 && a->verbs && be16toh(rdma_get_src_port(a)) == 9);
	CHECK(rdma_bind_addr(b, (struct sockaddr *)&own) == -1 && errno == EADDRINUSE);
	nowhere.sin_addr.s_addr = htobe32(0xc0000201); /* for documentation alone */
	CHECK(rdma_bind_addr(b, (struct sockaddr *)&nowhere) == -1 && errno == EADDRNOTAVAIL);
	CHECK(rdma_resolve_addr(b, NULL, (struct sockaddr *)&nowhere, 1000) == 0);
	expect(b, RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
	id = request(c, 9, 'a');
	rejected(id, 8, ""); /* nobody listens there */
	id = prepare(c, RDMA_PS_TCP, 1);
	CHECK(try(id, 'a', 57) == -1 && errno == EINVAL);
	destroy(id);
	destroy(a);
	destroy(b);
}

static void check_migration(struct rdma_event_channel *c, uint16_t port)
{
	struct rdma_event_channel *other = channel();
	struct sockaddr_in to = loopback(port);
	struct rdma_cm_id *id = create(c, RDMA_PS_TCP);
	struct rdma_cm_event *e;

	CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000) == 0);
	CHECK(rdma_migrate_id(id, other) == 0 && id->channel == other);
	CHECK(rdma_get_cm_event(c, &e) == -1 && errno == EAGAIN);
	expect(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	destroy(id);
	rdma_destroy_event_channel(other);
}

static void check_datagrams(struct rdma_event_channel *c, uint16_t port)
{
	struct rdma_cm_id *id = prepare(c, RDMA_PS_UDP, port);
	struct rdma_cm_event *e;

	CHECK(try(id, 'a', 180) == 0);
	e = next(c);
	CHECK(e->event == RDMA_CM_EVENT_ESTABLISHED && e->param.ud.qp_num && e->param.ud.qkey == RDMA_UDP_QKEY);
	CHECK(e->param.ud.ah_attr.dlid == 1 && e->param.ud.ah_attr.port_num == 1 && e->param.ud.private_data_len == 3);
	rdma_ack_cm_event(e);
	destroy(id);
	id = prepare(c, RDMA_PS_UDP, port);
	CHECK(try(id, 'r', 1) == 0);
	expect(id, RDMA_CM_EVENT_UNREACHABLE, 2);
	destroy(id);
}

static void check_multicast(struct rdma_event_channel *c)
{
	static uint8_t from[4] = {1, 2, 3, 4};
	struct ibv_ah *ah[2];
	struct rdma_cm_id *a = member(c, &ah[0]), *b = member(c, &ah[1]);
	struct ibv_mr *send = rdma_reg_msgs(a, from, sizeof from);
	struct ibv_wc wc;

	CHECK(send && rdma_post_ud_send(a, NULL, from, sizeof from, send, IBV_SEND_SIGNALED, ah[0], 0xffffff) == 0);
	CHECK(rdma_get_send_comp(a, &wc) == 1 && wc.status == 0);
	CHECK(rdma_get_recv_comp(b, &wc) == 1 && wc.status == 0 && wc.byte_len == sizeof message);
	CHECK(memcmp(message + 40, from, sizeof from) == 0);
	CHECK(rdma_leave_multicast(b, (struct sockaddr *)&group) == 0);
	CHECK(rdma_leave_multicast(b, (struct sockaddr *)&group) == -1 && errno == EADDRNOTAVAIL);
	CHECK(ibv_dereg_mr(send) == 0 && ibv_destroy_ah(ah[0]) == 0 && ibv_destroy_ah(ah[1]) == 0);
	destroy(a);
	destroy(b);
}

/* check_fork: a child connects by itself, and ends without a word. */
static void check_fork(uint16_t port)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		established(request(channel(), port, 'a'));
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

static void check(uint16_t port)
{
	struct rdma_event_channel *c = channel();
	struct pollfd p = {.fd = c->fd, .events = POLLIN};
	struct rdma_cm_id *id, *waiting, *pending;
	struct rdma_cm_event *e;
	struct counts n;

	CHECK(poll(&p, 1, 0) == 0 && rdma_get_cm_event(c, &e) == -1 && errno == EAGAIN);
	CHECK(rsocket(AF_INET, SOCK_STREAM, 0) == -1 && errno == EOPNOTSUPP);
	check_addresses(c);
	check_migration(c, port);
	check_datagrams(c, port);
	check_multicast(c);
	rejected(request(c, port, 'r'), 28, "no");
	rejected(request(c, port, 'x'), 28, "");
	disconnect(request(c, port, 'a'));
	check_fork(port);
	pending = request(c, port, 'i');
	disconnect(request(c, port, 'a')); /* the server has taken the request before */
	destroy(pending);
	waiting = request(c, port, 'i');
	for (int i = 3;; i++) { /* connections before; each look is one, too */
		n = disconnect(request(c, port, 'a'));
		CHECK(n.established == i);
		CHECK(n.messages == 1);
		if (n.disconnected == i && n.rejected == 1)
			break;
		CHECK(i < 200);
		poll(NULL, 0, 10);
	}
	id = request(c, port, 'k');
	established(id);
	while (id || waiting) {
		e = next(c);
		if (e->id == id) {
			CHECK(e->event == RDMA_CM_EVENT_DISCONNECTED);
			rdma_ack_cm_event(e);
			CHECK(rdma_disconnect(id) == 0);
			destroy(id);
			id = NULL;
		} else {
			CHECK(e->id == waiting && e->event == RDMA_CM_EVENT_REJECTED && e->status == 28);
			rdma_ack_cm_event(e);
			destroy(waiting);
			waiting = NULL;
		}
	}
	rdma_destroy_event_channel(c);
	printf("all events are as documented\n");
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "check") == 0)
		check((uint16_t)atoi(argv[2]));
	else
		serve();
	return 0;
}
