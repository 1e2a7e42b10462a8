/* SPDX-License-Identifier: Apache-2.0 */
/* target_recording.c: the checks of the fuzz target, under a name of their own. */
#define LLVMFuzzerTestOneInput check_recording_input
#define LLVMFuzzerCustomMutator mutate_recording_input
#include "fuzz/fuzz_recording.c"
