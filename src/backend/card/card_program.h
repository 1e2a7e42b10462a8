/* SPDX-License-Identifier: Apache-2.0 */
/* card_program.h: the kernels of a program, as far as the devices for cards treat them alike: their text, what is
   compiled, and the steps that run them. */
#ifndef FLXI_CARD_PROGRAM_H
#define FLXI_CARD_PROGRAM_H

#include "backend/card/card_way.h"
#include "emit/kernel_emit.h"

/* A compiled kernel: what the device needs to launch it comes after this. */
struct flxi_card_kernel {
    flxi_kentry entry;
    const flx_kernel *kernel;
};

/* How a device compiles a program. */
typedef struct {
    size_t size; /* of its flxi_device_code, which begins with an arena */
    flx_code (*build)(flxi_device_code *c, const flxi_compile_request *q, flx_error *err);
    const flxi_card_kernel *(*kernel)(const flxi_device_code *c, size_t i);
    void (*free)(flxi_device_code *c);
} flxi_card_compiler;

flx_code flxi_card_compile(const flxi_card_compiler *by, const flxi_compile_request *q, flxi_kernel_code *kernels,
                           flxi_device_code **out, flx_error *err);

/* How a device wants kernels that are made from groups of nodes. */
typedef struct {
    const flxi_ktarget *target;
    const char *before_loop; /* a line for the compiler, or NULL */
    bool aligns;             /* memory of whole multiples of 16 bytes begins at such addresses */
} flxi_card_style;

/* The text of the kernels of a request whose number in `text_of` is `text`, or of all without such a list. `entries`:
   of all kernels of the request. */
flx_code flxi_card_write(const flxi_card_style *style, const flxi_compile_request *q, const uint8_t *text_of,
                         uint8_t text, flxi_kentry *entries, flxi_strbuf *out, flx_error *err);

/* The text of all kernels, as write_source() of a device. */
flx_code flxi_card_write_source(const flxi_card_style *style, const flxi_compile_request *q, flxi_strbuf *out,
                                flx_error *err);

/* run_kernel(), run_call() and run_node() of a device. A call waits for a kernel that says how it ended. */
flx_code flxi_card_run_kernel(const flxi_launcher *on, const flxi_kernel_step *s, flx_error *err);
flx_code flxi_card_run_call(const flxi_launcher *on, const flxi_call_step *s, flx_error *err);
flx_code flxi_card_run_node(const flxi_launcher *on, const flxi_node_step *s, flx_error *err);

#endif
