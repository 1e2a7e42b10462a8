/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_extension.h: operations that programs add to a context: finding and evaluating them.

   An opaque part of a program refers to its extension from the moment it is built, if the extension was registered by
   then; otherwise it can only be carried, printed and written. Extensions never change and live as long as their
   context. */
#ifndef FLXI_KERNEL_EXTENSION_H
#define FLXI_KERNEL_EXTENSION_H

#include "kernel/program/kernel.h"

enum { FLXI_KEXTENSION_MAX_ARGS = 16 };

struct flxi_kextension {
    flx_kernel_extension is; /* texts are copies */
    const flxi_kextension *next;
};

/* The extension with this name or, without a name, with this number; NULL if there is none. */
const flxi_kextension *flxi_kextension_find(flx_context *ctx, const char *name, uint32_t id);

static inline bool flxi_kextension_is_pure(const flxi_kextension *x)
{
    return !(x->is.flags & FLX_KERNEL_EXTENSION_IMPURE);
}

static inline bool flxi_kextension_is_statement(const flxi_kextension *x)
{
    return (x->is.flags & FLX_KERNEL_EXTENSION_STATEMENT) != 0;
}

/* The value of an opaque part that has an evaluator, as bits in the format of kernel_scalar.h. */
uint64_t flxi_kextension_eval(const flxi_kopaque *o, const uint32_t *types, const uint64_t *args, size_t n);

#endif
