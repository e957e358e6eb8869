/*
 * The protocol between verbs.so, in every process of a container, and the broker in BEE's
 * node (internal/rdma/broker). shared.h has the memory that they share.
 *
 * A process has one connection for each opened device: a unix socket of type
 * SOCK_SEQPACKET at BEE_SOCKET. One packet is one message. A request begins with struct
 * bee_request, and gets exactly one reply, which begins with struct bee_reply. A process
 * sends its next request after the reply. Requests carry no descriptors, which would end the
 * connection. Replies may (SCM_RIGHTS, in the order given below). A reply that is no error
 * has BEE_DESCRIPTORS numbers of 64 bits after struct bee_reply: where in the memory of each
 * descriptor the mapping begins. The structs below leave them out. All numbers are little
 * endian; both ends are of one build, which BEE_OP_HELLO checks. All reserved fields are zero.
 *
 * The end of the connection is the end of the process: the broker destroys its objects,
 * and its peers' queue pairs go to the error state. A child made by fork connects again.
 *
 * Go reads this file in a test: each constant here has one of the same value there.
 */
#ifndef BEE_PROTOCOL_H
#define BEE_PROTOCOL_H

#include <stdint.h>

#define BEE_PROTOCOL 6                  /* raised by every change of this file and of shared.h */
#define BEE_SOCKET "/.bee/rdma.sock"    /* BEE_RDMA_SOCKET in the environment replaces it */
#define BEE_DEVICE "bee_0"
#define BEE_PACKET 4096                 /* largest message in bytes */
#define BEE_BUILD 32                    /* bytes of a build id, hexadecimal digits */

/* Operations. */
#define BEE_OP_HELLO 1
#define BEE_OP_CREATE 2                 /* PD, CQ, SRQ, channel, AH: objects that only count */
#define BEE_OP_DESTROY 3                /* any object but a queue pair's peer */
#define BEE_OP_CREATE_QP 4
#define BEE_OP_MODIFY_QP 5
#define BEE_OP_CONNECT 6                /* the ring of a QP of type RC or UC, from RTR on */
#define BEE_OP_FAIL_QP 7                /* a request failed: QP, and perhaps its peer, to error */
#define BEE_OP_CREATE_REGION 8          /* shared memory, into which pages are moved */
#define BEE_OP_REGISTER 9
#define BEE_OP_RESOLVE 10               /* remote key to mapping */
#define BEE_OP_ATTACH 11                /* the inbox of a UD QP, for a sender */
#define BEE_OP_RAISE 12                 /* send an event of the library to this process itself */
#define BEE_OP_JOIN 13                  /* a UD QP enters a multicast group */
#define BEE_OP_LEAVE 14
#define BEE_OP_MEMBERS 15               /* QPs of a multicast group */
#define BEE_OP_CM_CHANNEL 16            /* an event channel of connections */
#define BEE_OP_CM_ID 17                 /* a connection identifier */
#define BEE_OP_CM_BIND 18
#define BEE_OP_CM_LISTEN 19
#define BEE_OP_CM_RESOLVE 20            /* an address */
#define BEE_OP_CM_ROUTE 21
#define BEE_OP_CM_CONNECT 22
#define BEE_OP_CM_ACCEPT 23             /* a request, or its acceptance */
#define BEE_OP_CM_REJECT 24
#define BEE_OP_CM_DISCONNECT 25
#define BEE_OP_CM_MIGRATE 26            /* an identifier to another channel */
#define BEE_OP_CM_EVENT 27              /* take the next one of a channel */
#define BEE_OP_CM_JOIN 28               /* an event, after which the library joins a group */

/* Kinds of objects. Handles are unique in a connection, over all kinds, and never zero. */
#define BEE_KIND_PD 1
#define BEE_KIND_CQ 2
#define BEE_KIND_SRQ 3
#define BEE_KIND_CHANNEL 4
#define BEE_KIND_AH 5
#define BEE_KIND_QP 6
#define BEE_KIND_MR 7
#define BEE_KIND_REGION 8
#define BEE_KIND_CM_CHANNEL 9
#define BEE_KIND_CM_ID 10

struct bee_request {
	uint32_t size;                  /* of the whole message */
	uint16_t op;
	uint16_t reserved;
};

#define BEE_DESCRIPTORS 36              /* in one reply at most */

struct bee_reply {
	uint32_t size;
	uint16_t op;                    /* of the request */
	uint16_t descriptors;           /* how many this message carries */
	int32_t error;                  /* an errno, or 0; then the rest of the struct is absent */
	uint32_t reserved;
};

/* BEE_OP_HELLO, first on each connection. EPROTO: another build; EPERM: another user. */
struct bee_hello {
	struct bee_request request;
	uint32_t protocol;              /* BEE_PROTOCOL */
	uint32_t pid;                   /* in the container, for logs */
	char build[BEE_BUILD];
};

/*
 * Descriptors: 0 the end of a socket (SEQPACKET) on which struct bee_event arrives: async_fd;
 * 1 the socket (STREAM) that becomes readable when this process is woken; 2 its other end, on
 * which all send for that: with MSG_DONTWAIT, as others may change its flags; 3 the process
 * page, to map with BEE_PAGE_BYTES for reading and writing; 4 the process table, to map with
 * BEE_TABLE_BYTES for reading.
 */
struct bee_hello_reply {
	struct bee_reply reply;
	uint32_t process;               /* number of this process at the broker */
	uint16_t lid;
	uint16_t reserved;
	uint64_t node_guid;             /* big endian, as verbs have it */
	uint8_t gid[16];                /* index 0; there is no other */
	uint64_t memory;                /* limit in bytes for regions */
	uint32_t max_qp, max_cq, max_pd, max_mr, max_srq, max_ah;
	uint32_t max_wr;                /* requests in a queue, at most BEE_CREDITS */
	uint32_t max_sge, max_inline, max_rd_atomic;
};

/* BEE_OP_CREATE */
struct bee_create {
	struct bee_request request;
	uint32_t kind;
	uint32_t pd;                    /* of an SRQ or AH, otherwise 0 */
};

struct bee_create_reply {
	struct bee_reply reply;
	uint32_t handle;
	uint32_t reserved;
};

/* BEE_OP_DESTROY; EBUSY where other objects use this one. The reply is a bee_reply. */
struct bee_destroy {
	struct bee_request request;
	uint32_t handle;
	uint32_t reserved;
};

/* BEE_OP_CREATE_QP. The descriptor of the reply, for type UD only: its inbox. */
struct bee_create_qp {
	struct bee_request request;
	uint32_t type;                  /* enum ibv_qp_type: RC 2, UC 3, UD 4 */
	uint32_t pd, send_cq, recv_cq, srq; /* handles; srq may be 0 */
	uint32_t max_send_wr, max_recv_wr;
	uint32_t reserved;
};

struct bee_create_qp_reply {
	struct bee_reply reply;
	uint32_t handle;
	uint32_t number;                /* QP number, 24 bits, random, never reused */
	uint32_t slot;                  /* in qp[] of the process table */
	uint32_t reserved;
};

/*
 * BEE_OP_MODIFY_QP. `mask` and values as in struct ibv_qp_attr. The broker checks them
 * by the kernel's state table (EINVAL). It keeps what it needs; the library answers
 * ibv_query_qp from its own copy, and the state from the process table.
 */
struct bee_modify_qp {
	struct bee_request request;
	uint32_t handle;
	uint32_t mask;
	uint32_t state, current;        /* enum ibv_qp_state */
	uint32_t path_mtu;              /* enum ibv_mtu */
	uint32_t qkey;
	uint32_t rq_psn, sq_psn;
	uint32_t destination;           /* dest_qp_num */
	uint32_t access;                /* enum ibv_access_flags */
	uint16_t pkey_index;
	uint16_t lid;                   /* ah_attr.dlid */
	uint8_t gid[16];                /* ah_attr.grh.dgid, where global */
	uint8_t global;                 /* ah_attr.is_global */
	uint8_t sgid_index;
	uint8_t ah_port;                /* ah_attr.port_num */
	uint8_t port;
	uint8_t timeout, retries, rnr_retries, min_rnr_timer;
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t path_state;             /* path_mig_state */
	uint8_t sqd_notify;             /* en_sqd_async_notify */
};

struct bee_modify_qp_reply {
	struct bee_reply reply;
	uint32_t state;                 /* the new one */
	uint32_t reserved;
};

/*
 * BEE_OP_CONNECT, by both sides after they have gone to RTR. Descriptors: 0 the pair of
 * rings (BEE_PAIR_BYTES, for reading and writing); and where `present` is 1: 1 the
 * socket that wakes the peer's process, 2 and 3 its page and table, read-only. `present`
 * is 0 while the QP with the number and LID of RTR does not exist, or does not name this QP
 * as its destination: ask again before the first request is given up. The pair is the
 * same for both sides and all calls. EINVAL: not in RTR, RTS, SQD or SQE.
 */
struct bee_connect {
	struct bee_request request;
	uint32_t handle;
	uint32_t reserved;
};

struct bee_connect_reply {
	struct bee_reply reply;
	uint32_t present;
	uint32_t process;               /* the peer's: one mapping and one socket suffice for each */
	uint32_t slot;                  /* the peer's QP in its process table */
	uint8_t tx, rx;                 /* which ring this side writes and reads; equal for a QP to itself */
	uint16_t far;                   /* 1: the peer is on another machine, and a message is over once `done` says so */
};

/*
 * BEE_OP_FAIL_QP: the QP goes to the error state (SQE where `sqe`), with event `event` if
 * that is not -1. Where `peer` is 1, its peer goes to error too, with `peer_event`. The
 * broker wakes both. The reply is a bee_reply.
 */
struct bee_fail_qp {
	struct bee_request request;
	uint32_t handle;
	uint32_t sqe;
	int32_t event;                  /* enum ibv_event_type, or -1 */
	uint32_t peer;
	int32_t peer_event;
	uint32_t reserved;
};

/*
 * BEE_OP_CREATE_REGION: `bytes` (whole pages) of shared memory: a memfd of that size, or a
 * range of the pool that guests share. A guest has the pool as a character device.
 * ENOMEM: the limit `memory` is reached. BEE_OP_DESTROY destroys it (EBUSY while an MR
 * uses it). Peers that have mapped it keep pages that belong to nobody.
 */
struct bee_create_region {
	struct bee_request request;
	uint64_t bytes;
};

struct bee_create_region_reply {
	struct bee_reply reply;
	uint32_t handle;
	uint32_t reserved;
};

/*
 * BEE_OP_REGISTER. Extents cover the pages from addr to addr + length without gaps, in
 * order: `offset` counts from the first page's beginning (addr rounded down). No extent:
 * the owner copies (requests travel in the ring, and this process carries them out).
 * One that replaces another has its key at another slot, so peers resolve it again. Where
 * the process has no slots left for that, it has another key.
 */
struct bee_extent {
	uint64_t offset;                /* in the MR's pages */
	uint64_t at;                    /* in the region */
	uint64_t bytes;
	uint32_t region;                /* handle; in BEE_OP_RESOLVE the index of the descriptor */
	uint32_t reserved;
};

#define BEE_EXTENTS 32                  /* in one MR at most; more: the owner copies */

struct bee_register {
	struct bee_request request;
	uint32_t pd;
	uint32_t access;                /* enum ibv_access_flags */
	uint64_t addr, length, iova;
	uint32_t extents;               /* how many follow */
	uint32_t replaces;              /* handle of an MR that ends by this one; 0: none */
	struct bee_extent extent[];
};

struct bee_register_reply {
	struct bee_reply reply;
	uint32_t handle;
	uint32_t key;                   /* lkey and rkey: random, never 0 */
	uint32_t slot;                  /* in key[] of the process table */
	uint32_t reserved;
};

/*
 * BEE_OP_RESOLVE: the memory behind a remote key, for a QP of type RC or UC that is
 * connected into the key's PD. EACCES: no such key there, or it has no remote right.
 * Descriptors: the regions, read-only where the right is. A poster compares key[slot] in the
 * peer's process table with the key before each request: deregistration clears it.
 */
struct bee_resolve {
	struct bee_request request;
	uint32_t handle;                /* of the QP */
	uint32_t key;
};

struct bee_resolve_reply {
	struct bee_reply reply;
	uint64_t addr;                  /* in the owner: its offset in a page is that of the mapping */
	uint64_t length, iova;
	uint32_t access;
	uint32_t slot;
	uint32_t extents;               /* 0: the owner copies */
	uint32_t reserved;
	struct bee_extent extent[];
};

/*
 * BEE_OP_ATTACH: the inbox of a UD QP at `lid` (or `gid` where global). Descriptors: 0 the
 * inbox (BEE_INBOX_BYTES), 1 the socket that wakes its process, 2 and 3 the page and table of
 * that, read-only.
 * ENOENT: no such QP, or it is not in RTR, RTS or SQD. The receiver checks the Q_Key.
 */
struct bee_attach {
	struct bee_request request;
	uint32_t number;
	uint16_t lid;
	uint8_t global;
	uint8_t reserved;
	uint8_t gid[16];
};

struct bee_attach_reply {
	struct bee_reply reply;
	uint32_t process;
	uint32_t slot;
};

/* BEE_OP_RAISE: such as IBV_EVENT_CQ_ERR or IBV_EVENT_SRQ_LIMIT_REACHED. */
struct bee_raise {
	struct bee_request request;
	uint32_t event;
	uint32_t handle;
};

/* BEE_OP_JOIN, BEE_OP_LEAVE (bee_reply) and BEE_OP_MEMBERS, which ignores `handle`. */
struct bee_group {
	struct bee_request request;
	uint32_t handle;
	uint16_t lid;
	uint16_t reserved;
	uint8_t gid[16];
};

#define BEE_MEMBERS 256                 /* QPs in a group at most */

struct bee_member {
	uint32_t number;                /* of the QP */
	uint16_t lid;                   /* of its port */
	uint16_t reserved;
};

struct bee_members_reply {
	struct bee_reply reply;
	uint32_t count;
	uint32_t reserved;
	struct bee_member member[];
};

/*
 * Connections by address. An identifier (struct rdma_cm_id) belongs to a process and to one
 * of its event channels. The broker knows who listens and which connections there are, and
 * queues the events. BEE_OP_DESTROY destroys both kinds: an identifier with its events,
 * which its peer learns as if the process had ended.
 *
 * `own` of an address: the kernel of the program says that the address is one of its network
 * namespace. The broker itself knows the address that each container has in its run.
 */
struct bee_cm_address {
	uint16_t family;                /* 4, 6, or 0: none */
	uint16_t port;
	uint32_t own;
	uint8_t ip[16];                 /* the first four for family 4 */
};

#define BEE_CM_PRIVATE 196              /* bytes of private data at most */

/* Parameters of a connection, as those who get them see them. */
struct bee_cm_param {
	uint32_t qp;                    /* number */
	uint32_t qkey;
	uint8_t responder_resources, initiator_depth;
	uint8_t retries, rnr_retries;
	uint8_t flow_control, srq;
	uint8_t private_bytes;
	uint8_t reserved;
	uint8_t private_data[BEE_CM_PRIVATE];
};

/*
 * BEE_OP_CM_CHANNEL (no handle, no value), BEE_OP_CM_LISTEN (backlog), BEE_OP_CM_ROUTE,
 * BEE_OP_CM_DISCONNECT, BEE_OP_CM_MIGRATE (handle of the channel), BEE_OP_CM_EVENT (of a
 * channel), BEE_OP_CM_JOIN (what the event has as `child`). BEE_OP_CM_ID: handle of the channel, and enum rdma_port_space.
 * The reply is a bee_reply, but for BEE_OP_CM_CHANNEL and BEE_OP_CM_ID (bee_create_reply),
 * BEE_OP_CM_LISTEN and BEE_OP_CM_EVENT. The descriptor of a new channel is a socket
 * (SEQPACKET) with one packet of one byte while there are events. Who has read it takes one
 * event. EAGAIN: that is gone.
 */
struct bee_cm_call {
	struct bee_request request;
	uint32_t handle;
	uint32_t value;
};

/* BEE_OP_CM_BIND: EADDRINUSE, EADDRNOTAVAIL. Port 0: the broker chooses one. */
struct bee_cm_bind {
	struct bee_request request;
	uint32_t handle;
	uint32_t reserved;
	struct bee_cm_address address;
};

/* The reply of BEE_OP_CM_BIND and BEE_OP_CM_LISTEN. */
struct bee_cm_bind_reply {
	struct bee_reply reply;
	struct bee_cm_address local;
};

/*
 * BEE_OP_CM_RESOLVE: an event follows, RDMA_CM_EVENT_ADDR_RESOLVED or _ADDR_ERROR. LID and
 * GID of the reply are zero in that case.
 */
struct bee_cm_resolve {
	struct bee_request request;
	uint32_t handle;
	uint32_t reserved;
	struct bee_cm_address source;   /* family 0: the one that the identifier is bound to, if any */
	struct bee_cm_address destination;
};

struct bee_cm_resolve_reply {
	struct bee_reply reply;
	struct bee_cm_address local;
	uint16_t lid;
	uint16_t reserved[3];
	uint8_t gid[16];
};

/* BEE_OP_CM_CONNECT, BEE_OP_CM_ACCEPT and BEE_OP_CM_REJECT. The reply is a bee_reply. */
struct bee_cm_answer {
	struct bee_request request;
	uint32_t handle;
	uint32_t reason;                /* of a rejection: 28, or 35 */
	struct bee_cm_param param;
};

struct bee_cm_event_reply {
	struct bee_reply reply;
	uint32_t event;                 /* enum rdma_cm_event_type */
	int32_t status;
	uint32_t handle;                /* of the identifier; of the listening one for a request */
	uint32_t child;                 /* of the identifier that a request has made, or 0 */
	uint16_t lid;                   /* of the peer, where known */
	uint16_t reserved[3];
	uint8_t gid[16];
	struct bee_cm_address local, remote; /* of a request */
	struct bee_cm_param param;
	uint32_t reserved2;
};

/* An event on async_fd. `handle` 0: of the port or the device. */
struct bee_event {
	uint32_t event;                 /* enum ibv_event_type */
	uint32_t handle;
};

#endif
