/*
 * One direction of a pair of queue pairs in shared memory: one writer, one reader.
 * Neither believes the other: positions outside the ring and sizes beyond it end the
 * connection. Nothing here calls anything, so that it is tested alone.
 */
#ifndef BEE_RING_H
#define BEE_RING_H

#include "shared.h"

/* Payload of one entry: half of the ring at most, so that the reader can keep pace. */
#define RING_FRAGMENT 65536u
/* An empty ring begins again behind this position, so that small messages stay in cache. */
#define RING_REWIND (256u << 10)

struct ring_writer {
	struct bee_ring *ring;
	uint64_t head;  /* reserved */
	uint64_t tail;  /* the reader's, as last seen */
};

struct ring_reader {
	struct bee_ring *ring;
	uint64_t tail;
};

/* ring_reserve returns room for an entry with `payload` bytes behind it, NULL without room. */
struct bee_entry *ring_reserve(struct ring_writer *w, uint32_t payload);

/* ring_publish makes what was reserved visible to the reader. */
void ring_publish(struct ring_writer *w);

/*
 * ring_next copies the next entry, sets *payload, and returns 1; 0 without one; -1 where
 * the ring is damaged. ring_consume releases the entry.
 */
int ring_next(struct ring_reader *r, struct bee_entry *entry, uint8_t **payload);
void ring_consume(struct ring_reader *r, uint32_t payload);

/* ring_waiting reports whether there is an entry to read. */
static inline int ring_waiting(const struct ring_reader *r)
{
	return __atomic_load_n(&r->ring->head, __ATOMIC_ACQUIRE) != r->tail;
}

/*
 * ring_claim claims the reader's next receive and sets *capacity to its size; 0 where none
 * is posted. ring_post publishes one. `posted` and `claimed` are the caller's own counts.
 */
int ring_claim(struct bee_ring *ring, uint64_t claimed, uint32_t *capacity);
void ring_post(struct bee_ring *ring, uint64_t posted, uint32_t capacity);

#endif
