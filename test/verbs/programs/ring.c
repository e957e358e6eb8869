/*
 * The rings of verbs/ alone, under a sanitizer: two threads pass entries of random sizes
 * through a ring, and each byte is compared; then positions and sizes that no writer sends.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inbox.h"
#include "ring.h"

#define ENTRIES 60000
#define WRITERS 4
#define LETTERS 20000

static struct bee_ring *ring;
static struct bee_inbox *inbox;

#define CHECK(x) \
	do { \
		if (!(x)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
			exit(1); \
		} \
	} while (0)

static uint32_t next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*seed >> 33);
}

static uint32_t size_of(uint64_t *seed)
{
	uint32_t n = next(seed);

	return n % 16 == 0 ? n / 16 % (RING_FRAGMENT + 1) : n / 16 % 300;
}

static void *write_entries(void *seeded)
{
	uint64_t seed = *(uint64_t *)seeded;
	struct ring_writer w = {.ring = ring};

	for (uint32_t i = 0; i < ENTRIES; i++) {
		uint32_t n = size_of(&seed);
		struct bee_entry *e;

		while (!(e = ring_reserve(&w, n)))
			sched_yield();
		memset(e, 0, sizeof *e);
		e->opcode = BEE_ENTRY_SEND;
		e->bytes = n;
		e->imm = i;
		memset(e + 1, (int)(i & 255), n);
		ring_publish(&w);
	}
	return NULL;
}

static void read_entries(uint64_t seed)
{
	struct ring_reader r = {.ring = ring};

	for (uint32_t i = 0; i < ENTRIES; i++) {
		uint32_t n = size_of(&seed);
		struct bee_entry e;
		uint8_t *payload;
		int found;

		while ((found = ring_next(&r, &e, &payload)) == 0)
			sched_yield();
		CHECK(found == 1 && e.imm == i && e.bytes == n);
		for (uint32_t j = 0; j < n; j++)
			CHECK(payload[j] == (i & 255));
		ring_consume(&r, e.bytes);
	}
	CHECK(!ring_waiting(&r));
}

static void transfer(uint64_t seed)
{
	pthread_t t;

	memset(ring, 0, sizeof *ring);
	CHECK(pthread_create(&t, NULL, write_entries, &seed) == 0);
	read_entries(seed);
	pthread_join(t, NULL);
}

/* damage: what the other side writes never leads a reader or writer out of the ring. */
static void damage(uint64_t seed)
{
	for (int i = 0; i < 200000; i++) {
		struct ring_reader r = {.ring = ring, .tail = (uint64_t)next(&seed) % (4 * BEE_RING_DATA) / 64 * 64};
		struct ring_writer w = {.ring = ring, .head = r.tail, .tail = r.tail};
		struct bee_entry e, *at;
		uint8_t *payload;

		ring->head = r.tail + (next(&seed) % 2 ? next(&seed) % (2 * BEE_RING_DATA) : next(&seed));
		ring->tail = r.tail - next(&seed) % 3 * 64 + next(&seed) % 3;
		at = (struct bee_entry *)(ring->data + r.tail % BEE_RING_DATA);
		at->opcode = next(&seed) % 3;
		at->bytes = next(&seed) % 2 ? next(&seed) % 4096 : next(&seed);
		if (ring_next(&r, &e, &payload) == 1) {
			CHECK(payload >= ring->data && payload + e.bytes <= ring->data + BEE_RING_DATA);
			ring_consume(&r, e.bytes);
		}
		at = ring_reserve(&w, next(&seed) % (RING_FRAGMENT + 1));
		if (at)
			CHECK((uint8_t *)at >= ring->data && (uint8_t *)(at + 1) <= ring->data + BEE_RING_DATA);
	}
}

static void credits(void)
{
	uint32_t capacity = 0;

	memset(ring, 0, sizeof *ring);
	CHECK(!ring_claim(ring, 0, &capacity));
	for (uint64_t i = 0; i < BEE_CREDITS; i++)
		ring_post(ring, i, (uint32_t)i);
	CHECK(ring_claim(ring, 5, &capacity) && capacity == 5);
	CHECK(!ring_claim(ring, BEE_CREDITS, &capacity));
	ring->posted = UINT64_MAX / 2;
	CHECK(!ring_claim(ring, 0, &capacity));
}

static void *write_letters(void *writer)
{
	for (uint32_t i = 0; i < LETTERS; i++) {
		struct bee_datagram *d;
		uint64_t n;

		while (!(d = inbox_claim(inbox, &n)))
			sched_yield();
		d->source = *(uint32_t *)writer;
		d->imm = i;
		inbox_publish(d, n);
	}
	return NULL;
}

/* letters: of many writers, each one's messages arrive once and in order. */
static void letters(void)
{
	uint32_t name[WRITERS], seen[WRITERS] = {0};
	pthread_t t[WRITERS];

	for (uint32_t i = 0; i < WRITERS; i++) {
		name[i] = i;
		CHECK(pthread_create(&t[i], NULL, write_letters, &name[i]) == 0);
	}
	for (uint64_t n = 0; n < WRITERS * LETTERS; n++) {
		struct bee_datagram *d;

		while (!(d = inbox_next(inbox, n)))
			sched_yield();
		CHECK(d->source < WRITERS && d->imm == seen[d->source]++);
		inbox_release(d, n);
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;

	ring = aligned_alloc(4096, sizeof *ring);
	inbox = aligned_alloc(4096, sizeof *inbox);
	CHECK(ring && inbox);
	memset(inbox, 0, sizeof *inbox);
	transfer(seed);
	damage(seed);
	credits();
	letters();
	free(ring);
	free(inbox);
	return 0;
}
