/* SPDX-License-Identifier: Apache-2.0 */
/* train_on_device.c: a classifier that learns where it runs, without a library and without an operating system's help:
   the model and its training step are a C file. To build and run:

       flx build examples/mlp.flx --set N=4 --params embed --init 1 --with train:adamw --rate 0.01 \
           -o mlp.c --header mlp.h
       cc -std=c99 -O2 -ffp-contract=off -I. examples/standalone/train_on_device.c mlp.c -lm -o train_on_device
       ./train_on_device

   It prints the loss before and after the training, and how many examples are classified correctly. */
#include "mlp.h"

#include <stdio.h>

/* Everything the model works in; doubles, because it must be aligned. */
static union {
    double alignment;
    unsigned char bytes[MLP_MEMORY_BYTES + 16];
} memory;

enum { EXAMPLES = 4, FEATURES = 64, CLASSES = 10, STEPS = 12 };

/* Numbers that look random, the same everywhere. */
static float next_feature(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

int main(void)
{
    mlp m;
    uint32_t state = 1;
    float x[EXAMPLES * FEATURES], p[EXAMPLES * CLASSES], loss = 0, first = 0;
    int32_t label[EXAMPLES];
    unsigned char *at = memory.bytes + (16 - (uintptr_t)memory.bytes % 16) % 16;
    if (mlp_init(&m, at) != 0)
        return 1;
    for (int i = 0; i < EXAMPLES * FEATURES; i++)
        x[i] = next_feature(&state);
    for (int i = 0; i < EXAMPLES; i++)
        label[i] = (int32_t)(3 * i % CLASSES);
    for (int step = 0; step < STEPS; step++) {
        int code = mlp_step(&m, x, label, &loss, p);
        if (code != 0)
            return code;
        first = step == 0 ? loss : first;
    }
    int correct = 0;
    for (int i = 0; i < EXAMPLES; i++) {
        int best = 0;
        for (int c = 1; c < CLASSES; c++)
            best = p[i * CLASSES + c] > p[i * CLASSES + best] ? c : best;
        correct += best == label[i];
    }
    printf("loss %.4f, after %d steps %.4f; %d of %d are correct\n", (double)first, STEPS, (double)loss, correct,
           EXAMPLES);
    return correct == EXAMPLES ? 0 : 2;
}
