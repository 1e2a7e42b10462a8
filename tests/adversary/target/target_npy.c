/* SPDX-License-Identifier: Apache-2.0 */
/* target_npy.c: the checks of the fuzz target, under a name of their own. */
#define LLVMFuzzerTestOneInput check_npy_input
#define LLVMFuzzerCustomMutator mutate_npy_input
#include "fuzz/fuzz_npy.c"
