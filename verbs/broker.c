#include "broker.h"

#include <linux/un.h>
#include <sys/socket.h>

int broker_dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = getenv("BEE_RDMA_SOCKET");
	size_t length;
	long fd, r;

	if (!path || !*path)
		path = BEE_SOCKET;
	length = strlen(path);
	if (length >= sizeof address.sun_path)
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, length + 1);
	fd = sys(socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return (int)fd;
	r = sys(connect, fd, &address, offsetof(struct sockaddr_un, sun_path) + length + 1);
	if (r < 0) {
		close_fd((int)fd);
		return (int)r;
	}
	return (int)fd;
}

/* receive reads one message, and its descriptors into p[0..*n). */
static long receive(int socket, void *reply, size_t room, struct passed *p, uint32_t *n)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(BEE_DESCRIPTORS * sizeof(int))];
	} control;
	const size_t head = sizeof(struct bee_reply);
	uint64_t at[BEE_DESCRIPTORS] = {0};
	struct iovec part[] = {{reply, head}, {at, sizeof at}, {(uint8_t *)reply + head, room - head}};
	struct msghdr m = {.msg_iov = part, .msg_iovlen = 3,
		.msg_control = &control, .msg_controllen = sizeof control};
	uint32_t want = n ? *n : 0, got = 0;
	long bytes;

	do
		bytes = sys(recvmsg, socket, &m, MSG_CMSG_CLOEXEC);
	while (bytes == -EINTR);
	if (n)
		*n = 0;
	if (bytes <= 0)
		return bytes < 0 ? bytes : -EIO;
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
		int all[BEE_DESCRIPTORS];
		size_t length = h->cmsg_len - CMSG_LEN(0);

		if (length > sizeof all)
			length = sizeof all;
		memcpy(all, CMSG_DATA(h), length);
		for (size_t i = 0; i < length / sizeof(int); i++) {
			if (got < want) {
				p[got] = (struct passed){all[i], at[got]};
				got++;
			} else {
				close_fd(all[i]);
			}
		}
	}
	if (n)
		*n = got;
	return bytes;
}

int broker_exchange(int socket, void *request, void *reply, size_t room, struct passed *p, uint32_t *n)
{
	struct bee_reply *head = reply;
	long bytes;

	memset(reply, 0, room);
	do
		bytes = sys(sendto, socket, request, ((struct bee_request *)request)->size, MSG_NOSIGNAL, 0, 0);
	while (bytes == -EINTR);
	if (bytes < 0)
		return EIO;
	bytes = receive(socket, reply, room, p, n);
	if (bytes < (long)sizeof *head)
		return EIO;
	return head->error;
}

int broker_call(struct context *c, void *request, void *reply, size_t room, struct passed *p, uint32_t *n)
{
	int kept = errno, error;

	if (forked(c))
		return EIO;
	lock(&c->call_lock);
	error = broker_exchange(c->socket, request, reply, room, p, n);
	unlock(&c->call_lock);
	errno = kept;
	return error;
}

int broker_create(struct context *c, uint32_t kind, uint32_t pd, uint32_t *handle)
{
	struct bee_create ask = {{sizeof ask, BEE_OP_CREATE, 0}, kind, pd};
	struct bee_create_reply reply;
	int error = broker_call(c, &ask, &reply, sizeof reply, NULL, NULL);

	*handle = reply.handle;
	return error;
}

int broker_destroy(struct context *c, uint32_t handle)
{
	struct bee_destroy ask = {{sizeof ask, BEE_OP_DESTROY, 0}, handle, 0};
	struct bee_reply reply;

	return broker_call(c, &ask, &reply, sizeof reply, NULL, NULL);
}
