/*
 * A range of memory changes its pages while other threads use it: they wait meanwhile.
 * Only system calls into the range fail with EFAULT in that time (userfaultfd in user
 * mode). Linux 5.11 to make pages shared, 5.14 to make them private again.
 */
#ifndef BEE_USERFAULT_H
#define BEE_USERFAULT_H

#include <stddef.h>
#include <stdint.h>

/* make_shared replaces private pages by those of a memfd at `offset`, with the same contents. */
int make_shared(uint8_t *from, size_t bytes, int protection, int fd, size_t offset);

/* make_private replaces the pages of a memfd by private ones. */
int make_private(uint8_t *from, size_t bytes, int protection, int fd, size_t offset);

#endif
