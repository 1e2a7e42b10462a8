/* SPDX-License-Identifier: Apache-2.0 */
/* partition_random.h: a random graph that is cut for a mesh of processes, which are threads. */
#ifndef FLX_TEST_PARTITION_RANDOM_H
#define FLX_TEST_PARTITION_RANDOM_H

#include <fluxion/mesh.h>
#include <stdbool.h>

/* Cuts inputs and outputs of the seed's graph in a random way and compares what the processes compute with one process.
   False when the seed gives no graph. The counts of the partition are added to `sum`. */
bool partition_random_try(uint64_t seed, flx_partition_report *sum);

#endif
