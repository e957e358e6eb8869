#include "userfault.h"
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static int failed(long r)
{
	return r < 0 && r > -4096;
}

/* guard makes threads wait that touch a page of the range which is not there. */
static int guard(uint8_t *from, size_t bytes, uint64_t mode, uint64_t features)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};
	struct uffdio_register r = {.range = {(uintptr_t)from, bytes}, .mode = mode};
	int fd = (int)sys(userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd < 0)
		return fd;
	if (failed(sys(ioctl, fd, UFFDIO_API, &api)) || failed(sys(ioctl, fd, UFFDIO_REGISTER, &r))) {
		close_fd(fd);
		return -ENOSYS;
	}
	return fd;
}

/* release wakes the threads that wait. */
static void release(int guarded, uint8_t *from, size_t bytes)
{
	struct uffdio_range range = {(uintptr_t)from, bytes};

	sys(ioctl, guarded, UFFDIO_WAKE, &range);
	close_fd(guarded);
}

/* A handler of a signal could touch the range in this thread, and would wait for ever. */
static void block_signals(uint64_t *before)
{
	uint64_t all = ~(uint64_t)0;

	sys(rt_sigprocmask, 0 /* SIG_BLOCK */, &all, before, 8);
}

static void restore_signals(const uint64_t *before)
{
	sys(rt_sigprocmask, 2 /* SIG_SETMASK */, before, NULL, 8);
}

/* exchange is the time in which the range has no pages: nothing of the heap is touched. */
static int exchange(uint8_t *from, size_t bytes, int protection, int fd, uint64_t offset, uint8_t *to, uint8_t *aside)
{
	long r = sys(mremap, from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, aside);

	if (failed(r))
		return (int)-r;
	memcpy(to, aside, bytes);
	r = sys(mmap, from, bytes, protection, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, offset);
	if (failed(r))
		sys(mremap, aside, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, from);
	return failed(r) ? (int)-r : 0;
}

int make_shared(uint8_t *from, size_t bytes, int protection, int fd, uint64_t offset)
{
	long to = sys(mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
	long aside = sys(mmap, 0, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t signals;
	int guarded, error = ENOMEM;

	if (failed(to) || failed(aside))
		goto out;
	guarded = guard(from, bytes, UFFDIO_REGISTER_MODE_MISSING, 0);
	error = guarded < 0 ? -guarded : 0;
	if (error)
		goto out;
	block_signals(&signals);
	error = exchange(from, bytes, protection, fd, offset, (uint8_t *)to, (uint8_t *)aside);
	release(guarded, from, bytes);
	restore_signals(&signals);
out:
	if (!failed(to))
		sys(munmap, to, bytes);
	if (!failed(aside))
		sys(munmap, aside, bytes);
	return error;
}

int make_private(uint8_t *from, size_t bytes, int protection, int fd, uint64_t offset)
{
	long old = sys(mmap, 0, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, offset);
	long fresh = sys(mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	uint64_t signals;
	int guarded, error = ENOMEM;
	long r;

	if (failed(old) || failed(fresh))
		goto out;
	guarded = guard(from, bytes, UFFDIO_REGISTER_MODE_MINOR, UFFD_FEATURE_MINOR_SHMEM);
	error = guarded < 0 ? -guarded : 0;
	if (error)
		goto out;
	block_signals(&signals);
	r = sys(madvise, from, bytes, MADV_DONTNEED);
	if (!failed(r)) {
		memcpy((void *)fresh, (void *)old, bytes);
		if (protection != (PROT_READ | PROT_WRITE))
			sys(mprotect, fresh, bytes, protection);
		r = sys(mremap, fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, from);
	}
	release(guarded, from, bytes);
	restore_signals(&signals);
	error = failed(r) ? (int)-r : 0;
	if (!error)
		fresh = -EINVAL;
out:
	if (!failed(old))
		sys(munmap, old, bytes);
	if (!failed(fresh))
		sys(munmap, fresh, bytes);
	return error;
}

int make_own(uint8_t *from, size_t bytes, int protection)
{
	long fresh = sys(mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	long r;

	if (failed(fresh))
		return (int)-fresh;
	memcpy((void *)fresh, from, bytes);
	if (protection != (PROT_READ | PROT_WRITE))
		sys(mprotect, fresh, bytes, protection);
	r = sys(mremap, fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, from);
	return failed(r) ? (int)-r : 0;
}
