/* compile_c.h: from C text to functions in this process, by the system's compiler. */
#ifndef FLXI_COMPILE_C_H
#define FLXI_COMPILE_C_H

#include "base/error.h"
#include "base/memory.h"

enum {
    FLXI_C_CONTRACT = 1, /* a * b + c may become one operation */
};

/* A loaded shared object; any number of threads may use it. */
typedef struct flxi_object flxi_object;

/* Compiles `n` bytes of C, which must not depend on any header, and loads the result. The compiler is $FLX_CC, else the
   first of cc, gcc and clang on the PATH. Everything happens in a directory that only this user can enter and that is gone
   when this returns. DEVICE when there is no compiler, it fails or takes too long. */
flx_code flxi_compile_c(const flxi_allocator *mem, const char *text, size_t n, unsigned flags, flxi_object **out,
                        flx_error *err);
void *flxi_object_symbol(const flxi_object *o, const char *name); /* NULL: there is none */
void flxi_object_free(flxi_object *o);                            /* NULL is fine */

#endif
