/* SPDX-License-Identifier: Apache-2.0 */
/* callbacks.h: the smallest functions that extensions of kernels and custom ops can have, for tests of
   arguments. */
#ifndef FLX_TEST_CALLBACKS_H
#define FLX_TEST_CALLBACKS_H

#include <fluxion/custom.h>
#include <fluxion/kernel.h>

static inline uint32_t type_of_first(void *user, const uint32_t *types, size_t n)
{
    (void)user;
    return n ? types[0] : 0;
}

static inline uint64_t evaluate_first(void *user, const void *payload, size_t size, const uint32_t *types,
                                      const uint64_t *args, size_t n)
{
    (void)user, (void)payload, (void)size, (void)types;
    return n ? args[0] : 0;
}

static inline flx_code infer_same(void *user, const flx_custom_call *c, flx_type *results, size_t *n, flx_error *err)
{
    (void)user, (void)err;
    results[0] = *flx_custom_input(c, 0);
    *n = 1;
    return FLX_OK;
}

static inline flx_code evaluate_nothing(void *user, const flx_custom_call *c, const void *const *in, void *const *out,
                                        flx_error *err)
{
    (void)user, (void)c, (void)in, (void)out, (void)err;
    return FLX_OK;
}

#endif
