/*
 * A range of memory changes its pages while other threads use it: they wait meanwhile.
 * Only system calls into the range fail with EFAULT in that time (userfaultfd in user
 * mode). Linux 5.11 to make pages shared, 5.14 to make them private again.
 */
#ifndef BEE_USERFAULT_H
#define BEE_USERFAULT_H

#include <stddef.h>
#include <stdint.h>

/* make_shared replaces private pages by those of a descriptor at `offset`, with the same contents. */
int make_shared(uint8_t *from, size_t bytes, int protection, int fd, uint64_t offset);

/* make_private replaces the pages of a memfd by private ones. Those of a device it cannot replace. */
int make_private(uint8_t *from, size_t bytes, int protection, int fd, uint64_t offset);

/* make_own is make_private for a process with one thread, and for pages of any kind. */
int make_own(uint8_t *from, size_t bytes, int protection);

#endif
