/* System calls without a C library: each returns a value, or a negative errno. */
#ifndef BEE_SYS_H
#define BEE_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <asm/unistd.h>

#define EXPORT __attribute__((visibility("default")))

static inline long sys6(long n, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
	long r;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall" : "=a"(r)
		: "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
		: "rcx", "r11", "memory");
	return r;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc 0" : "+r"(x0)
		: "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#else
#error "no system calls for this machine"
#endif
}

#define sys(n, ...) sys_of(n, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define sys_of(n, a, b, c, d, e, f, ...) \
	sys6(__NR_##n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* A mutual exclusion lock: 0 free, 1 locked, 2 locked with waiters. */
struct lock {
	uint32_t word;
};

void lock_slow(struct lock *l);
void unlock_slow(struct lock *l);

static inline int lock_try(struct lock *l)
{
	uint32_t free = 0;

	return __atomic_compare_exchange_n(&l->word, &free, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static inline void lock(struct lock *l)
{
	if (!lock_try(l))
		lock_slow(l);
}

static inline void unlock(struct lock *l)
{
	if (__atomic_exchange_n(&l->word, 0, __ATOMIC_RELEASE) == 2)
		unlock_slow(l);
}

/* passed is a descriptor of a reply, and where in its memory the mapping begins. */
struct passed {
	int fd;
	uint64_t at;
};

/* map_shared maps `bytes` of what a descriptor is of; NULL where that fails. */
void *map_shared(const struct passed *p, size_t bytes, int writable);
void unmap(void *p, size_t bytes);
void close_fd(int fd);

/* monotonic_ns reads the monotonic clock in nanoseconds. */
uint64_t monotonic_ns(void);

#endif
