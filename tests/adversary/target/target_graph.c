/* SPDX-License-Identifier: Apache-2.0 */
/* target_graph.c: the checks of the fuzz target, under a name of their own. */
#define LLVMFuzzerTestOneInput check_graph_input
#define LLVMFuzzerCustomMutator mutate_graph_input
#include "fuzz/fuzz_graph.c"
