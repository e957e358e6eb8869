#include "sys.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <time.h>

#define SPINS 100 /* attempts before a waiter sleeps: sections are some dozen instructions */

void lock_slow(struct lock *l)
{
	for (int i = 0; i < SPINS; i++)
		if (__atomic_load_n(&l->word, __ATOMIC_RELAXED) == 0 && lock_try(l))
			return;
	while (__atomic_exchange_n(&l->word, 2, __ATOMIC_ACQUIRE) != 0)
		sys(futex, &l->word, FUTEX_WAIT_PRIVATE, 2, 0);
}

void unlock_slow(struct lock *l)
{
	sys(futex, &l->word, FUTEX_WAKE_PRIVATE, 1);
}

void *map_shared(const struct passed *p, size_t bytes, int writable)
{
	long r = sys(mmap, 0, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, p->fd, p->at);

	return r < 0 && r > -4096 ? NULL : (void *)r;
}

void unmap(void *p, size_t bytes)
{
	if (p)
		sys(munmap, p, bytes);
}

void close_fd(int fd)
{
	if (fd >= 0)
		sys(close, fd);
}

uint64_t monotonic_ns(void)
{
	struct timespec t = {0};

	sys(clock_gettime, CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
