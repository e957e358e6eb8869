/*
 * The memory that processes share with each other and with the broker, whose messages
 * protocol.h has. All numbers are little endian.
 *
 * Go reads this file in a test: each constant here has one of the same value there.
 */
#ifndef BEE_SHARED_H
#define BEE_SHARED_H

#include <stdint.h>

/*
 * The process page and the process table: one of each for a connection. The page is mapped by
 * its process and the broker for reading and writing, by its peers for reading only. The
 * broker believes nothing in it. The table is written by the broker alone, which has sealed
 * it against all others: a seal that is added later would wait for calls of programs.
 *
 * Whoever publishes something for this process in a ring does so with a full barrier, then
 * reads `sleeping`, and sends on the process's socket if that is not 0. This process sets
 * it, then looks at its rings once more, then sleeps. So no message is missed.
 */
#define BEE_SLOTS 65536                 /* QPs, and MRs, of one process at most */
#define BEE_COUNTERS 32
#define BEE_SRQS 256                    /* SRQs of one process whose receives senders see */

struct bee_qp_word {
	uint32_t state;                 /* enum ibv_qp_state + 1, 0: no such QP */
	uint32_t number;
};

/* What an SRQ has for messages. Senders read it: see bee_ring. */
struct bee_srq_room {
	uint32_t receives;
	uint32_t capacity;              /* bytes of the smallest since the queue was empty */
};

struct bee_process_page {
	uint32_t sleeping;
	uint32_t reserved[15];
	uint64_t counter[BEE_COUNTERS];         /* by BEE_COUNT_; for statistics */
	struct bee_srq_room srq[BEE_SRQS];
	uint8_t pad[4096 - 64 - 8 * BEE_COUNTERS - 8 * BEE_SRQS];
};

struct bee_process_table {
	struct bee_qp_word qp[BEE_SLOTS];       /* by slot */
	uint32_t key[BEE_SLOTS];                /* by slot of an MR; 0: void */
};

#define BEE_PAGE_BYTES 4096
#define BEE_TABLE_BYTES (8 * BEE_SLOTS + 4 * BEE_SLOTS)

#define BEE_COUNT_SENDS 0               /* operations posted and carried out */
#define BEE_COUNT_RECEIVES 1
#define BEE_COUNT_WRITES 2
#define BEE_COUNT_READS 3
#define BEE_COUNT_ATOMICS 4
#define BEE_COUNT_RING_BYTES 5          /* bytes sent in rings */
#define BEE_COUNT_DIRECT_BYTES 6        /* bytes copied into or out of the peer's memory */
#define BEE_COUNT_STAGED_BYTES 7        /* bytes that the owner copied */
#define BEE_COUNT_STAGED 8              /* requests that the owner carried out */
#define BEE_COUNT_ERRORS 9              /* completions with errors */
#define BEE_COUNT_WAKES 10              /* of others */

/*
 * A ring: one direction of an RC or UC pair. The memfd of a pair has ring 0, then ring 1,
 * BEE_RING_BYTES each; it is sparse, and sealed against changes of its size. The reader's
 * receive queue is published here (unless it has an SRQ), so that a sender knows that a
 * message will be received, and completes its request without waiting for the reader.
 * With an SRQ, `shared` names its place in the process page of the reader. A sender of the
 * same machine completes its request at once if the SRQ has more receives than messages are
 * on their way in this ring; else it waits for `done`, as it does for other machines.
 *
 * Entries lie in `data`, in order, each aligned to 64 bytes; an entry that would not fit
 * before the end is preceded by one of opcode BEE_ENTRY_SKIP. Positions count bytes and
 * are never reduced; the place is position % BEE_RING_DATA. What is in
 * them is between libraries; where the other side is on another machine, the broker takes its
 * place.
 */
#define BEE_CREDITS 16384               /* receives that are posted at most */
#define BEE_SHARED_RECEIVES UINT64_MAX  /* `posted` of a reader with an SRQ: senders wait for `done` */
#define BEE_RECEIVE_VOID UINT32_MAX     /* capacity of a receive whose memory has been registered again since */
#define BEE_RING_DATA (1u << 20)
#define BEE_RING_BYTES (4096 + 4 * BEE_CREDITS + BEE_RING_DATA)
#define BEE_PAIR_BYTES (2 * BEE_RING_BYTES)

struct bee_ring {
	_Alignas(64) uint64_t head;     /* published by the writer */
	_Alignas(64) uint64_t tail;     /* consumed by the reader */
	_Alignas(64) uint64_t posted;   /* receives of the reader, ever */
	_Alignas(64) uint64_t claimed;  /* of them, by the writer */
	_Alignas(64) uint64_t done;     /* requests of the writer that the reader has carried out, ever */
	uint32_t done_status;           /* enum ibv_wc_status of the first that failed, or 0 */
	uint32_t attached;              /* 1 once the writer has mapped this ring: CONNECT will find it */
	uint32_t shared;                /* 1 + place of the reader's SRQ; 0: it has none there */
	_Alignas(64) uint8_t pad[4096 - 5 * 64];
	uint32_t capacity[BEE_CREDITS]; /* bytes of receive n at n % BEE_CREDITS */
	uint8_t data[BEE_RING_DATA];
};

struct bee_entry {
	uint32_t opcode;                /* BEE_ENTRY_ */
	uint32_t flags;                 /* BEE_ENTRY_IMM, ... */
	uint32_t bytes;                 /* of payload after this struct */
	uint32_t imm;                   /* immediate data as posted, or the key to invalidate */
	uint64_t total;                 /* bytes of the whole message; more than `bytes`: fragments follow */
	uint64_t request;               /* number that a reply names */
	uint64_t address;               /* remote address */
	uint32_t key;
	uint32_t status;                /* of a reply: enum ibv_wc_status */
	uint64_t operand[2];            /* of atomics: compare or add, swap */
};                                      /* 64 bytes */

#define BEE_ENTRY_SKIP 0
#define BEE_ENTRY_SEND 1
#define BEE_ENTRY_MORE 2                /* a further fragment of the message before */
#define BEE_ENTRY_IMMEDIATE 3           /* WRITE with immediate: the data is in place already */
#define BEE_ENTRY_WRITE 4               /* staged: the owner carries it out */
#define BEE_ENTRY_READ 5
#define BEE_ENTRY_ATOMIC_ADD 6
#define BEE_ENTRY_ATOMIC_SWAP 7
#define BEE_ENTRY_REPLY 8               /* to READ or ATOMIC, in the other ring */

#define BEE_ENTRY_FLAG_IMM 1
#define BEE_ENTRY_FLAG_INVALIDATE 2
#define BEE_ENTRY_FLAG_SOLICITED 4
#define BEE_ENTRY_FLAG_CLAIMED 8        /* the sender has claimed a receive for it */

/*
 * An inbox: the ring of a UD QP, for many senders. Slots of one size; a sender takes
 * number n by adding 1 to `head`, once slot n % BEE_INBOX_SLOTS has turn n, fills it, and
 * sets its turn to n + 1. The receiver takes it and sets the turn to n + BEE_INBOX_SLOTS.
 * What is stored is the turn less n % BEE_INBOX_SLOTS, so that a new inbox is all zero.
 * A sender to a full inbox waits for long where `receives` is more than BEE_INBOX_SLOTS: a
 * card would have put its message into a receive. Else it would have dropped the message.
 */
#define BEE_INBOX_SLOTS 256
#define BEE_INBOX_SLOT 4352             /* header of 256 bytes, and a message of 4096 at most */
#define BEE_INBOX_BYTES (4096 + BEE_INBOX_SLOTS * BEE_INBOX_SLOT)

struct bee_inbox {
	_Alignas(64) uint64_t head;
	_Alignas(64) uint64_t receives; /* posted and not taken; 0 with an SRQ */
	_Alignas(64) uint8_t pad[4096 - 2 * 64];
	uint8_t slot[BEE_INBOX_SLOTS * BEE_INBOX_SLOT];
};

struct bee_datagram {
	uint64_t turn;
	uint32_t flags, bytes;
	uint32_t imm, qkey;
	uint32_t source;                /* number of the sender's QP */
	uint16_t lid;                   /* of the sender */
	uint8_t global;                 /* the message has a GRH */
	uint8_t sl;
	uint8_t grh[40];
};

#endif
