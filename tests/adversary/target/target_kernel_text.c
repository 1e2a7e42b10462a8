/* SPDX-License-Identifier: Apache-2.0 */
/* target_kernel_text.c: the checks of the fuzz target, under a name of their own. */
#define LLVMFuzzerTestOneInput check_kernel_text_input
#define LLVMFuzzerCustomMutator mutate_kernel_text_input
#include "fuzz/fuzz_kernel_text.c"
