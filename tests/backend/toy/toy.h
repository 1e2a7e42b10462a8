/* SPDX-License-Identifier: Apache-2.0 */
/* toy.h: a second device for programs, to show that the interface of backends (backend/backend.h) suffices. */
#ifndef FLX_TOY_H
#define FLX_TOY_H

#include "backend/backend.h"

/* Device "toy". It runs the kernels of groups on the interpreter, refuses those with more than TOY_BUFFERS buffers, and
   leaves all other nodes to the host. Its memory is its own: the host faults on every address that it gives out. Its
   queue runs steps late: they wait until the host asks for a result. */
extern const flxi_device toy_device;

enum { TOY_BUFFERS = 6 };

/* Steps that all queues ran so far, and how many of them waited for a while; sequences; copies from and to the
   host; pieces of sequences that ran before one that was noted earlier. */
typedef struct {
    uint64_t kernels, copies, late, sequences, sent, received, moved;
} toy_counts;

toy_counts toy_count(void);

#endif
