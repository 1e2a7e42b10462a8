/* SPDX-License-Identifier: Apache-2.0 */
/* damage.c: see damage.h. Each attempt gets a copy of exactly its size on the heap, so that a sanitizer sees a read
   past its end. */
#include "damage.h"

#include "fault.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int32_t code; /* FLX_OK when a tensor was returned */
    size_t calls; /* allocations made */
    size_t failed;
} outcome;

static outcome attempt(damage_decoder decode, const unsigned char *bytes, size_t size, fault f, size_t largest)
{
    flx_context_options options = {.alloc = fault_alloc, .alloc_user = &f, .memory_limit = 1 << 26};
    flx_context *ctx = flx_context_new(&options);
    outcome o = {.code = FLX_E_OOM};
    if (ctx) {
        unsigned char *copy = malloc(size ? size : 1);
        CHECK(copy);
        if (size)
            memcpy(copy, bytes, size);
        f.largest = 0;
        flx_error err = {.code = 12345};
        flx_tensor *t = decode(ctx, copy, size, &err);
        free(copy);
        o.code = t ? FLX_OK : err.code;
        CHECK_MSG(t || (err.code != FLX_OK && err.code != 12345 && err.message[0]), "an error without a message");
        CHECK_MSG(f.largest <= largest, "requested %zu bytes, the limit is %zu", f.largest, largest);
        if (t)
            CHECK(flx_tensor_nbytes(t) == 0 || flx_tensor_const_data(t));
        flx_tensor_release(t);
        flx_context_free(ctx);
    }
    CHECK_MSG(fault_is_clean(&f), "%zu blocks leaked, %zu errors", f.live_blocks, f.errors);
    o.calls = f.calls;
    o.failed = f.failed;
    return o;
}

void damage_everywhere(damage_decoder decode, const void *bytes, size_t size, size_t largest)
{
    const unsigned char *whole = bytes;
    fault none = {0};
    CHECK_EQ_I64(attempt(decode, whole, size, none, largest).code, FLX_OK);
    for (size_t n = 0; n < size; n++) {
        test_fail_context("cut to %zu of %zu bytes", n, size);
        CHECK(attempt(decode, whole, n, none, largest).code != FLX_OK);
    }
    static const unsigned char flips[] = {0x01, 0x02, 0x10, 0x80, 0xff};
    unsigned char *changed = malloc(size);
    CHECK(changed);
    for (size_t i = 0; i < size; i++) {
        for (size_t k = 0; k < sizeof flips; k++) {
            memcpy(changed, whole, size);
            changed[i] ^= flips[k];
            test_fail_context("byte %zu is %#x instead of %#x", i, changed[i], whole[i]);
            outcome o = attempt(decode, changed, size, none, largest);
            CHECK(o.code != FLX_E_INTERNAL && o.code != FLX_E_OOM && o.code != FLX_E_IO);
        }
    }
    free(changed);
    test_fail_context("%s", "");
}

void damage_allocations(damage_decoder decode, const void *bytes, size_t size)
{
    fault none = {0};
    outcome whole = attempt(decode, bytes, size, none, SIZE_MAX);
    CHECK_EQ_I64(whole.code, FLX_OK);
    for (size_t n = 1; n <= whole.calls; n++) {
        for (int forever = 0; forever < 2; forever++) {
            test_fail_context("allocation %zu of %zu fails%s", n, whole.calls, forever ? ", and all later ones" : "");
            outcome o = attempt(decode, bytes, size, (fault){.fail_at = n, .forever = forever}, SIZE_MAX);
            CHECK(o.failed > 0);
            CHECK_EQ_I64(o.code, FLX_E_OOM);
        }
    }
    test_fail_context("%s", "");
}

static unsigned digit_value(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

size_t damage_hex(const char *hex, unsigned char *out, size_t room)
{
    size_t n = 0;
    for (; hex[0] && hex[1] && n < room; hex += 2)
        out[n++] = (unsigned char)(digit_value(hex[0]) << 4 | digit_value(hex[1]));
    return n;
}
