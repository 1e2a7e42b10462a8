/* SPDX-License-Identifier: Apache-2.0 */
/* pendulum_run.c: a pendulum that the controller of control.c holds upright: firmware for a Cortex-M, or a program for
   any other machine. pendulum_train.c says where control.c comes from. Here the pendulum is a simulation, in steps of a
   hundredth of a second; the controller is asked every twentieth. */
#include "control.h"

#include <math.h>
#include <stdio.h>

/* Everything the controller works in; doubles, because it must be aligned. */
static union {
    double alignment;
    unsigned char bytes[CONTROL_MEMORY_BYTES + 16];
} memory;

int main(void)
{
    control m;
    float state[2] = {0.6f, 0.0f}, torque = 0;
    if (control_init(&m, memory.bytes + (16 - (uintptr_t)memory.bytes % 16) % 16) != 0)
        return 1;
    for (int i = 0; i <= 500; i++) {
        if (i % 5 == 0 && control_run(&m, state, &torque) != 0)
            return 1;
        if (i % 100 == 0)
            printf("%s%.1f", i ? ", " : "angle by seconds: ", fabs((double)state[0]));
        state[1] += 0.01f * (9.81f * sinf(state[0]) - 0.1f * state[1] + torque);
        state[0] += 0.01f * state[1];
    }
    printf("\n");
    return fabsf(state[0]) < 0.1f && fabsf(state[1]) < 0.1f ? 0 : 2;
}
