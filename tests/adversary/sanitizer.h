/* SPDX-License-Identifier: Apache-2.0 */
/* sanitizer.h: whether this is a build with AddressSanitizer, and what follows. */
#ifndef FLX_ADVERSARY_SANITIZER_H
#define FLX_ADVERSARY_SANITIZER_H

#include "recycle.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifndef HAS_ASAN
#define HAS_ASAN 0
#endif

/* The allocator of contexts under attack. The sanitizer finds uses of freed memory in its own; without one, memory is
   used again at once, so that objects mistaken for others are found. */
#if HAS_ASAN
#define ATTACK_ALLOC NULL
#else
#define ATTACK_ALLOC recycle_alloc
#endif

#endif
