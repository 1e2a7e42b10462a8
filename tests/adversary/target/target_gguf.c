/* SPDX-License-Identifier: Apache-2.0 */
/* target_gguf.c: the checks of the fuzz target, under a name of their own. */
#define LLVMFuzzerTestOneInput check_gguf_input
#include "fuzz/fuzz_gguf.c"
