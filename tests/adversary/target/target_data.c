/* SPDX-License-Identifier: Apache-2.0 */
/* target_data.c: the checks of the fuzz target, under a name of their own, and whether it accepts an input. */
#define LLVMFuzzerTestOneInput check_data_input
#include "fuzz/fuzz_data.c"

#include "targets.h"

bool accepts_data_input(const uint8_t *data, size_t size)
{
    return read_data(data, size) != 0;
}
