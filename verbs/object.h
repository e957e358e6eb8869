/* The objects of verbs, each beginning with its public struct. */
#ifndef BEE_OBJECT_H
#define BEE_OBJECT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"
#include "ring.h"
#include "shared.h"
#include "sys.h"

#define KEY_BUCKETS 1024
#define QUESTIONS 128 /* unanswered READs and atomics of a peer: its max_rd_atomic is less */
#define CONTEXT_MAGIC 0x62656530u

/* process is another process of the group, mapped once for all queue pairs. */
struct process {
	struct process *next;
	uint32_t number;
	int wake;
	const struct bee_process_page *page;
	const struct bee_process_table *table;
};

struct context {
	struct verbs_context v;
	struct context *next;   /* of those that fork.c knows */
	struct lock call_lock;  /* one request at a time */
	int socket;
	int woken;              /* readable after others have sent on wake, as they do while page->sleeping */
	int wake;
	struct bee_process_page *page;
	const struct bee_process_table *table;
	struct bee_hello_reply limits;
	uint32_t *alive;        /* CONTEXT_MAGIC, 0 in a forked child */

	struct lock queues_lock; /* guards queues */
	struct cq *queues;
	struct owner *owner;    /* of memory that cannot be shared */

	struct lock lock;       /* guards the following */
	struct process *processes;
	struct object *objects; /* those that have events */
	uint8_t srqs[BEE_SRQS]; /* 1: the place in the page is taken */

	struct lock move_lock;
	struct block *blocks;   /* memory that has moved, by address */

	struct lock key_lock;
	uint32_t key_generation; /* raised when a key becomes void */
	struct mr *keys[KEY_BUCKETS];
};

/* object is the part of queue pairs, completion queues and SRQs that events name. */
struct object {
	struct object *next, **link;
	uint32_t handle;
	uint32_t events;        /* taken by ibv_get_async_event, ever */
	void *element;
};

struct pd {
	struct ibv_pd pd;
	struct pd *parent;      /* of a parent domain, whose handle it shares */
	uint32_t users;
};

struct mr {
	struct ibv_mr mr;
	struct mr *next;        /* with the same bucket */
	uint64_t iova;
	uint32_t access;
	uint32_t handle;
	uint32_t slot;
	uint32_t extents;
};

struct channel {
	struct ibv_comp_channel channel; /* fd: epoll over events and the wake-up of the process */
	int events;             /* eventfd that counts */
	uint32_t handle;
	struct lock lock;       /* guards queues */
	struct cq *queues;
};

struct qp;

/* completion is one entry of a completion queue. */
struct completion {
	struct ibv_wc wc;
	struct qp *qp;
	uint64_t retired;       /* requests of the send queue that are over with this one */
};

struct cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	struct object object;
	struct cq *next;        /* of the same channel */
	struct cq *sibling;     /* of the same context */
	uint32_t handle;
	struct lock pairs_lock; /* guards pairs */
	struct qp **pairs;
	uint32_t pair_count, pair_room;
	struct lock lock;       /* guards the following */
	struct completion *entry;
	uint64_t head, tail;
	uint32_t size;
	uint32_t armed;         /* 1 any completion, 2 solicited ones */
	uint32_t pending;       /* events not yet taken */
	uint32_t events;        /* taken by ibv_get_cq_event, ever */
	uint32_t overrun;
	uint32_t empty;         /* polls without a completion, about */
	struct lock poll_lock;  /* of an extended poll, from start to end */
	struct completion current;
};

/* receive is a posted receive. */
struct receive {
	uint64_t wr_id;
	uint64_t total;
	uint32_t count;
	struct ibv_sge *sge;
};

/* receives is a receive queue: of a queue pair, or shared. */
struct receives {
	struct receive *entry;
	struct ibv_sge *sge;
	uint64_t posted, taken;
	uint32_t size, max_sge;
};

struct srq {
	struct ibv_srq srq;
	struct object object;
	uint32_t handle;
	uint32_t number;
	uint32_t place;         /* 1 + that in the process page; 0: none was free */
	uint32_t limit;
	struct lock lock;
	struct receives queue;
};

/* Stages of a request of a send queue. */
enum stage { QUEUED, WAITING, FINISHED };

/* request is a posted work request of a send queue. */
struct request {
	struct ibv_send_wr wr;  /* sg_list is this request's own */
	struct ibv_sge *sge;
	uint8_t *data;          /* inline data */
	uint64_t total;
	uint64_t sent;          /* bytes in the ring already */
	uint64_t number;        /* that the peer's `done` or reply names */
	uint64_t since;         /* first attempt, ns */
	enum stage stage;
	enum ibv_wc_status status;
	uint32_t claimed;
	uint32_t placed;        /* the data of a WRITE with immediate is there */
	uint64_t staged;        /* the number under which the peer places it */
};

struct sends {
	struct request *entry;
	struct ibv_sge *sge;
	uint8_t *data;
	uint64_t posted, next, completed, retired;
	uint32_t size, max_sge, max_inline;
};

/* remote is the peer's memory behind a key, mapped. */
struct extent {
	uint64_t offset, bytes;
	uint8_t *base;
	uint64_t mapped;
};

struct remote {
	struct remote *next;
	uint32_t key, slot, access;
	uint64_t addr, length, iova;
	uint32_t extents;
	struct extent extent[];
};

struct qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
	};
	struct object object;
	struct lock lock;
	uint32_t slot;
	int signal_all;
	uint32_t access;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	struct sends sends;
	struct receives receives;

	void *pair;             /* both rings, from RTR on */
	struct ring_writer tx;
	struct ring_reader rx;
	struct process *peer;   /* NULL while absent */
	uint32_t peer_slot;
	int far;                /* on another machine */
	uint64_t posted;        /* receives published in rx */
	uint64_t claimed;       /* the peer's receives */
	uint32_t ahead;         /* messages for a shared receive queue since the ring was empty */
	uint64_t numbered;      /* requests that the peer carries out */
	int refusing;           /* a request of the peer has failed: no other is carried out */
	struct remote *remotes;
	int flushed;            /* the error state has been noticed */
	int given_up;           /* this side has ended the connection: what waits in the ring is lost */

	struct receive *current; /* of the message that is arriving */
	uint64_t arrived;
	struct receive spare;   /* copy of the entry that was taken */
	struct bee_entry question[QUESTIONS]; /* READs and atomics of the peer, to be answered */
	uint64_t asked, answered;
	uint64_t served;        /* bytes of the READ that is being answered */
	uint32_t open;          /* own READs and atomics that the peer has to answer */

	struct bee_inbox *inbox; /* UD */
	uint64_t read;          /* messages taken out of it */
	struct target *targets;

	struct mr *last_mr;     /* of the last scatter entry */
	uint32_t last_key, last_generation;

	/* requests by ibv_wr_*, between start and complete */
	struct batch *batch;
};

static inline struct context *context_of(struct ibv_context *c)
{
	return (struct context *)((char *)c - offsetof(struct verbs_context, context));
}

/* forked reports whether this is a child that must not use its parent's device. */
static inline int forked(const struct context *c)
{
	return __atomic_load_n(c->alive, __ATOMIC_RELAXED) != CONTEXT_MAGIC;
}

/* state_of returns the state that the broker has recorded for a queue pair. */
static inline enum ibv_qp_state state_of(const struct bee_process_table *table, uint32_t slot)
{
	uint32_t state = __atomic_load_n(&table->qp[slot % BEE_SLOTS].state, __ATOMIC_ACQUIRE);

	return state == 0 || state > IBV_QPS_ERR + 1 ? IBV_QPS_ERR : (enum ibv_qp_state)(state - 1);
}

static inline void count(struct context *c, uint32_t counter, uint64_t by)
{
	__atomic_fetch_add(&c->page->counter[counter], by, __ATOMIC_RELAXED);
}

/* fail sets errno and returns NULL. */
static inline void *fail(int error)
{
	errno = error;
	return NULL;
}

#endif
