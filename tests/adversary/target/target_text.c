/* SPDX-License-Identifier: Apache-2.0 */
/* target_text.c: the checks of the fuzz target, under a name of their own. */
#define LLVMFuzzerTestOneInput check_text_input
#define LLVMFuzzerCustomMutator mutate_text_input
#include "adversary/sanitizer.h"
#define FUZZ_ALLOC ATTACK_ALLOC
#include "fuzz/fuzz_text.c"
