/* SPDX-License-Identifier: Apache-2.0 */
/* target_binary.c: the checks of the fuzz target, under a name of their own. */
#define LLVMFuzzerTestOneInput check_binary_input
#define LLVMFuzzerCustomMutator mutate_binary_input
#include "adversary/sanitizer.h"
#define FUZZ_ALLOC ATTACK_ALLOC
#include "fuzz/fuzz_binary.c"
