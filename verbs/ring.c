#include "ring.h"

#define ENTRY ((uint32_t)sizeof(struct bee_entry))

static uint64_t whole(uint32_t payload)
{
	return ((uint64_t)ENTRY + payload + 63) & ~(uint64_t)63;
}

static struct bee_entry *at(struct bee_ring *ring, uint64_t position)
{
	return (struct bee_entry *)(ring->data + position % BEE_RING_DATA);
}

/* skip writes an entry that fills the ring to its end. */
static void skip(struct ring_writer *w, uint64_t rest)
{
	struct bee_entry *e = at(w->ring, w->head);

	e->opcode = BEE_ENTRY_SKIP;
	e->bytes = (uint32_t)(rest - ENTRY);
	w->head += rest;
}

struct bee_entry *ring_reserve(struct ring_writer *w, uint32_t payload)
{
	uint64_t need = whole(payload), offset = w->head % BEE_RING_DATA, rest = BEE_RING_DATA - offset;
	uint64_t total = rest < need ? rest + need : need;
	struct bee_entry *e;

	if (w->head + total - w->tail > BEE_RING_DATA || offset > RING_REWIND)
		w->tail = __atomic_load_n(&w->ring->tail, __ATOMIC_ACQUIRE);
	if (rest >= need && offset > RING_REWIND && w->tail == w->head)
		total = rest + need; /* all is read: begin again */
	if (w->head - w->tail > BEE_RING_DATA || w->head + total - w->tail > BEE_RING_DATA)
		return 0;
	if (total > need)
		skip(w, rest);
	e = at(w->ring, w->head);
	w->head += need;
	return e;
}

void ring_publish(struct ring_writer *w)
{
	__atomic_store_n(&w->ring->head, w->head, __ATOMIC_RELEASE);
}

int ring_next(struct ring_reader *r, struct bee_entry *entry, uint8_t **payload)
{
	for (;;) {
		uint64_t head = __atomic_load_n(&r->ring->head, __ATOMIC_ACQUIRE), ready = head - r->tail;
		struct bee_entry *e = at(r->ring, r->tail);

		if (ready == 0)
			return 0;
		if (ready < ENTRY || ready > BEE_RING_DATA)
			return -1;
		__builtin_memcpy(entry, e, sizeof *entry);
		if (whole(entry->bytes) > ready || r->tail % BEE_RING_DATA + whole(entry->bytes) > BEE_RING_DATA)
			return -1;
		if (entry->opcode != BEE_ENTRY_SKIP) {
			*payload = (uint8_t *)(e + 1);
			return 1;
		}
		ring_consume(r, entry->bytes);
	}
}

void ring_consume(struct ring_reader *r, uint32_t payload)
{
	r->tail += whole(payload);
	__atomic_store_n(&r->ring->tail, r->tail, __ATOMIC_RELEASE);
}

int ring_claim(struct bee_ring *ring, uint64_t claimed, uint32_t *capacity)
{
	uint64_t posted = __atomic_load_n(&ring->posted, __ATOMIC_ACQUIRE);

	if (posted - claimed == 0 || posted - claimed > BEE_CREDITS)
		return 0;
	*capacity = __atomic_load_n(&ring->capacity[claimed % BEE_CREDITS], __ATOMIC_RELAXED);
	return 1;
}

void ring_post(struct bee_ring *ring, uint64_t posted, uint32_t capacity)
{
	__atomic_store_n(&ring->capacity[posted % BEE_CREDITS], capacity, __ATOMIC_RELAXED);
	__atomic_store_n(&ring->posted, posted + 1, __ATOMIC_RELEASE);
}
