/*
 * The inbox of a UD queue pair in shared memory: many writers, one reader. A turn is kept
 * less the number of its slot, so that a new inbox is all zero. Nothing here calls anything.
 */
#ifndef BEE_INBOX_H
#define BEE_INBOX_H

#include "shared.h"

#define INBOX_HEADER 256u
#define INBOX_MESSAGE (BEE_INBOX_SLOT - INBOX_HEADER)

static inline struct bee_datagram *inbox_slot(struct bee_inbox *inbox, uint64_t n)
{
	return (struct bee_datagram *)(inbox->slot + n % BEE_INBOX_SLOTS * BEE_INBOX_SLOT);
}

static inline uint64_t inbox_base(uint64_t n)
{
	return n - n % BEE_INBOX_SLOTS;
}

/* inbox_claim returns a slot to fill and its number, NULL while the inbox is full. */
static inline struct bee_datagram *inbox_claim(struct bee_inbox *inbox, uint64_t *n)
{
	uint64_t at = __atomic_load_n(&inbox->head, __ATOMIC_RELAXED);

	for (;;) {
		struct bee_datagram *d = inbox_slot(inbox, at);

		if (__atomic_load_n(&d->turn, __ATOMIC_ACQUIRE) != inbox_base(at)) {
			uint64_t now = __atomic_load_n(&inbox->head, __ATOMIC_RELAXED);

			if (now == at)
				return 0;
			at = now;
			continue;
		}
		if (__atomic_compare_exchange_n(&inbox->head, &at, at + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			*n = at;
			return d;
		}
	}
}

static inline void inbox_publish(struct bee_datagram *d, uint64_t n)
{
	__atomic_store_n(&d->turn, inbox_base(n) + 1, __ATOMIC_RELEASE);
}

/* inbox_next returns the message with number n, NULL where none has come. */
static inline struct bee_datagram *inbox_next(struct bee_inbox *inbox, uint64_t n)
{
	struct bee_datagram *d = inbox_slot(inbox, n);

	return __atomic_load_n(&d->turn, __ATOMIC_ACQUIRE) == inbox_base(n) + 1 ? d : 0;
}

static inline void inbox_release(struct bee_datagram *d, uint64_t n)
{
	__atomic_store_n(&d->turn, inbox_base(n) + BEE_INBOX_SLOTS, __ATOMIC_RELEASE);
}

#endif
