/* SPDX-License-Identifier: Apache-2.0 */
/* chain_run.c: a JAX function shipped as C. chain.py is the function, chain.mlir what JAX writes of it:

       flx build examples/standalone/chain.mlir --name chain -o chain.c --header chain.h
       cc -std=c99 -O2 -ffp-contract=off -I. examples/standalone/chain_run.c chain.c -lm -o chain_run

   A hundred steps give what they give in JAX, to rounding. */
#include "chain.h"

#include <math.h>
#include <stdio.h>

enum { BEADS = 8, STEPS = 100 };

/* Of JAX on a CPU: chain.py prints them. */
static const float expected[2 * BEADS] = {0.6627963f, 0.3260512f,  1.5694937f, -0.1045357f, 2.4949059f, -0.2910041f,
                                          3.3981483f, -0.1358259f, 4.2893157f, 0.1784857f,  5.2051840f, 0.3496718f,
                                          6.1357317f, 0.1280323f,  7.0444269f, -0.3401291f};
static const float expected_energy = 4.6976271f;

/* Everything the function works in; doubles, because it must be aligned. */
static union {
    double alignment;
    unsigned char bytes[CHAIN_MEMORY_BYTES + 16];
} memory;

int main(void)
{
    chain m;
    float x[2 * BEADS], v[2 * BEADS] = {0}, next_x[2 * BEADS], next_v[2 * BEADS], energy = 0, worst = 0;
    if (chain_init(&m, memory.bytes + (16 - (uintptr_t)memory.bytes % 16) % 16) != 0)
        return 1;
    for (int i = 0; i < BEADS; i++) {
        x[2 * i] = 1.1f * (float)i;
        x[2 * i + 1] = 0.2f * sinf((float)i);
    }
    for (int step = 0; step < STEPS; step++) {
        if (chain_run(&m, x, v, next_x, next_v, &energy) != 0)
            return 1;
        for (int i = 0; i < 2 * BEADS; i++) {
            x[i] = next_x[i];
            v[i] = next_v[i];
        }
    }
    for (int i = 0; i < 2 * BEADS; i++)
        worst = fmaxf(worst, fabsf(x[i] - expected[i]));
    printf("after %d steps the energy is %.3f, in JAX %.3f\n", STEPS, (double)energy, (double)expected_energy);
    return worst < 1e-4f && fabsf(energy - expected_energy) < 1e-3f ? 0 : 2;
}
