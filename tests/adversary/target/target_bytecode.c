/* SPDX-License-Identifier: Apache-2.0 */
/* target_bytecode.c: the checks of the fuzz target, under a name of their own. */
#define LLVMFuzzerTestOneInput check_bytecode_input
#include "adversary/sanitizer.h"
#define FUZZ_ALLOC ATTACK_ALLOC
#include "fuzz/fuzz_bytecode.c"
