/* SPDX-License-Identifier: Apache-2.0 */
/* cortex_m_start.c: what a program needs to run on a Cortex-M4F or M7 without an operating system, for example under
   qemu: the table of vectors, and the floating-point unit. Newlib's own start-up code does the rest; its output goes to
   the debugger (semihosting). docs/standalone.md has the commands. */
#include <stdint.h>

extern unsigned char stack_top[]; /* cortex_m.ld */
void _start(void);
void reset(void);
void _init(void);
void _fini(void);

void reset(void)
{
    volatile uint32_t *const access = (volatile uint32_t *)0xe000ed88u;
    *access |= 0xf00000u; /* the coprocessors 10 and 11 are the floating-point unit */
    __asm__ volatile("dsb\n isb");
    _start();
}

void _init(void)
{
}

void _fini(void)
{
}

/* The stack, what runs first, and room for handlers of exceptions, of which there are none. */
typedef struct {
    const unsigned char *stack;
    void (*reset)(void);
    void (*others[14])(void);
} table;

__attribute__((section(".vectors"), used)) static const table vectors = {stack_top, reset, {0}};
