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

/* receive reads one message, and its descriptors into fd[0..*fds). */
static long receive(int socket, void *reply, size_t room, int *fd, uint32_t *fds)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
	} control;
	struct iovec part = {reply, room};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof control};
	uint32_t want = fds ? *fds : 0, got = 0;
	long n;

	do
		n = sys(recvmsg, socket, &m, MSG_CMSG_CLOEXEC);
	while (n == -EINTR);
	if (fds)
		*fds = 0;
	if (n <= 0)
		return n < 0 ? n : -EIO;
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
		int all[DESCRIPTORS];
		size_t bytes = h->cmsg_len - CMSG_LEN(0);

		if (bytes > sizeof all)
			bytes = sizeof all;
		memcpy(all, CMSG_DATA(h), bytes);
		for (size_t i = 0; i < bytes / sizeof(int); i++) {
			if (got < want)
				fd[got++] = all[i];
			else
				close_fd(all[i]);
		}
	}
	if (fds)
		*fds = got;
	return n;
}

int broker_exchange(int socket, void *request, void *reply, size_t room, int *fd, uint32_t *fds)
{
	struct bee_reply *head = reply;
	long n;

	memset(reply, 0, room);
	do
		n = sys(sendto, socket, request, ((struct bee_request *)request)->size, MSG_NOSIGNAL, 0, 0);
	while (n == -EINTR);
	if (n < 0)
		return EIO;
	n = receive(socket, reply, room, fd, fds);
	if (n < (long)sizeof *head)
		return EIO;
	return head->error;
}

int broker_call(struct context *c, void *request, void *reply, size_t room, int *fd, uint32_t *fds)
{
	int kept = errno, error;

	if (forked(c))
		return EIO;
	lock(&c->call_lock);
	error = broker_exchange(c->socket, request, reply, room, fd, fds);
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
