/* SPDX-License-Identifier: Apache-2.0 */
/* target_kernel_wire.c: the checks of the fuzz target, under a name of their own. */
#define LLVMFuzzerTestOneInput check_kernel_wire_input
#define LLVMFuzzerCustomMutator mutate_kernel_wire_input
#include "fuzz/fuzz_kernel_wire.c"
