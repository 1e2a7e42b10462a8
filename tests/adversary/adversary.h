/* SPDX-License-Identifier: Apache-2.0 */
/* adversary.h: the parts of flx_adversary, a program that attacks the library and the command line for as long as it is
   given. A part is an endless sequence of cases, each made from a number, its seed: `flx_adversary PART --seed=N
   --cases=1` runs one again. Cases run in processes of their own, a batch in each (runner.h), so a crash, a hang or a
   memory that grows is the failure of one case, and the run continues.

   This program has its own implementation of test.h (harness.c): a CHECK that fails ends the case. So the generators
   and laws of the tests are used here as they are. */
#ifndef FLX_ADVERSARY_H
#define FLX_ADVERSARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name, *about;
    int64_t quick;              /* cases of --quick */
    int64_t batch;              /* cases of one process */
    double limit;               /* seconds of a case; one that takes longer hangs */
    void (*run)(uint64_t seed); /* one case */
} part;

extern const part parts[];
extern const size_t num_parts;

/* ---- For the code of a case ---- */

/* Keeps the input of the case, so that it is saved when the case fails. What does not fit is cut off. */
void case_input(const void *bytes, size_t size);

/* The input was accepted by its reader: counted in the totals, which would otherwise not show a mutator that only makes
   garbage. */
void case_accepted(void);

/* The file that --input names, instead of one made from the seed; NULL for none. */
const char *case_given_input(void);

/* The seed of the current case. */
uint64_t case_seed(void);

/* An empty folder for the case, removed after it. */
const char *case_folder(void);

/* The program of this name in the folder of flx_adversary; it exists. */
const char *sibling_program(const char *name);

/* Runs the test of this name, which takes the seed of the case. */
void run_test(const char *name);

/* ---- The parts ---- */

void attack_text(uint64_t seed);
void attack_binary(uint64_t seed);
void attack_kernel_text(uint64_t seed);
void attack_kernel_wire(uint64_t seed);
void attack_stablehlo(uint64_t seed);
void attack_bytecode(uint64_t seed);
void attack_onnx(uint64_t seed);
void attack_gguf(uint64_t seed);
void attack_arrays(uint64_t seed);
void attack_data(uint64_t seed);
void attack_recordings(uint64_t seed);
void attack_calls(uint64_t seed);
void attack_command(uint64_t seed);
void attack_graphs(uint64_t seed);
void attack_control(uint64_t seed);
void attack_kernels(uint64_t seed);
void attack_emitted(uint64_t seed);
void attack_compiled(uint64_t seed);
void attack_extents(uint64_t seed);
void attack_standalone(uint64_t seed);
void attack_partition(uint64_t seed);
void attack_training(uint64_t seed);
void attack_memory(uint64_t seed);
void attack_cache(uint64_t seed);
void attack_race(uint64_t seed);
void attack_compilers(uint64_t seed);

#endif
