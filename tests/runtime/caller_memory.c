/* SPDX-License-Identifier: Apache-2.0 */
/* caller_memory.c: what flx_exec_run_at() demands of the memory that it is given. */
#include "../test.h"

#include <fluxion/fluxion.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    flx_context *ctx;
    flx_module *m;
    flx_exec *e;
    flx_error err;
} compiled;

static compiled compile(const char *text, const flx_share *shares, size_t num_shares)
{
    compiled c = {.ctx = flx_context_new(NULL)};
    c.m = flx_parse(c.ctx, text, strlen(text), "memory", &c.err);
    CHECK_MSG(c.m, "%s", c.err.message);
    const flx_compile_options o = {.struct_size = sizeof o,
                                   .device = "cpu",
                                   .flags = FLX_COMPILE_INTERPRET,
                                   .shares = shares,
                                   .num_shares = num_shares};
    c.e = flx_compile(flx_module_main(c.m), &o, &c.err);
    CHECK_MSG(c.e, "%s", c.err.message);
    return c;
}

static void release(compiled *c)
{
    flx_exec_free(c->e);
    flx_module_free(c->m);
    flx_context_free(c->ctx);
}

static void rejected(compiled *c, const void *const *in, void *const *out, const char *says)
{
    c->err = (flx_error){0};
    CHECK_CODE(flx_exec_run_at(c->e, in, out, &c->err), FLX_E_USAGE, &c->err);
    CHECK_MSG(strstr(c->err.message, says), "%s", c->err.message);
    CHECK_MSG(c->err.hint[0], "no hint: %s", c->err.message);
    test_count_case();
}

static void accepted(compiled *c, const void *const *in, void *const *out)
{
    CHECK_OK(flx_exec_run_at(c->e, in, out, &c->err), &c->err);
    test_count_case();
}

TEST(caller_memory_must_be_aligned)
{
    compiled c = compile("graph f(x: f32[4], z: c128[1]) { return mul(x, 2), neg(z) }", NULL, 0);
    _Alignas(16) char x[32] = {0}, z[32] = {0}, y[32], w[32];
    accepted(&c, (const void *[]){x, z}, (void *[]){y, w});
    accepted(&c, (const void *[]){x + 4, z + 8}, (void *[]){y + 12, w + 8}); /* complex numbers as their parts */
    for (int shift = 1; shift < 4; shift++) {
        rejected(&c, (const void *[]){x + shift, z}, (void *[]){y, w}, "input 'x' (f32) is not aligned to 4 bytes");
        rejected(&c, (const void *[]){x, z}, (void *[]){y + shift, w}, "(f32) is not aligned to 4 bytes");
    }
    rejected(&c, (const void *[]){x, z + 4}, (void *[]){y, w}, "input 'z' (c128) is not aligned to 8 bytes");
    rejected(&c, (const void *[]){x, z}, (void *[]){y, w + 4}, "(c128) is not aligned to 8 bytes");
    release(&c);
}

TEST(caller_memory_of_outputs_overlaps_nothing)
{
    compiled c = compile(
        "graph f(x: f32[4], p: f32[4]) { a = reduce_sum(mul(x, p)) b = reverse(x, axes=[0]) return a, b }", NULL, 0);
    float m[32] = {1, 2, 3, 4, 5, 6, 7, 8};
    accepted(&c, (const void *[]){m, m + 4}, (void *[]){m + 8, m + 9});
    accepted(&c, (const void *[]){m, m}, (void *[]){m + 8, m + 4}); /* inputs may be the same */
    CHECK(m[4] == 4 && m[7] == 1);
    rejected(&c, (const void *[]){m, m + 4}, (void *[]){m + 8, m}, "output 'b' overlaps that of the input 'x'");
    rejected(&c, (const void *[]){m, m + 4}, (void *[]){m + 8, m + 3}, "output 'b' overlaps that of the input 'x'");
    rejected(&c, (const void *[]){m + 3, m + 12}, (void *[]){m + 8, m}, "output 'b' overlaps that of the input 'x'");
    rejected(&c, (const void *[]){m, m + 4}, (void *[]){m + 7, m + 8}, "output 'a' overlaps that of the input 'p'");
    rejected(&c, (const void *[]){m, m + 4}, (void *[]){m + 9, m + 8}, "output 'b' overlaps that of the output 'a'");
    rejected(&c, (const void *[]){m, m + 4}, (void *[]){m + 11, m + 8}, "output 'b' overlaps that of the output 'a'");
    release(&c);
}

/* The same address is for pairs that may share, and only from the same element on. */
TEST(caller_memory_is_shared_where_that_is_allowed)
{
    const flx_share pair = {0, 0};
    flx_error err = {0};
    compiled c = compile("graph f(x: f32[4], g: f32[4]) { return sub(x, mul(reverse(g, axes=[0]), 0.5)) }", &pair, 1);
    const flx_compile_options o = {
        .struct_size = sizeof o, .device = "cpu", .shares = &pair, .num_shares = 1, .threads = 1};
    flx_exec_free(c.e);
    c.e = flx_compile(flx_module_main(c.m), &o, &err);
    CHECK_MSG(c.e, "%s", err.message);
    float x[8] = {1, 2, 3, 4}, g[4] = {2, 2, 2, 2};
    CHECK(flx_exec_may_share(c.e, 0, 0) && !flx_exec_may_share(c.e, 1, 0));
    accepted(&c, (const void *[]){x, g}, (void *[]){x});
    CHECK(x[0] == 0 && x[3] == 3);
    rejected(&c, (const void *[]){x, g}, (void *[]){x + 1}, "overlaps that of the input 'x'");
    rejected(&c, (const void *[]){x, x}, (void *[]){x}, "overlaps that of the input 'g'");
    release(&c);
}

TEST(caller_memory_of_no_bytes_may_be_anywhere)
{
    compiled c = compile("graph f(x: f64[0], y: f32[2]) { a = neg(x) b = neg(y) return a, b }", NULL, 0);
    float m[8] = {1, 2};
    accepted(&c, (const void *[]){(char *)m + 1, m}, (void *[]){(char *)m + 3, m + 2});
    CHECK(m[2] == -1 && m[3] == -2);
    release(&c);
}

/* With more outputs than are compared, alignment is still checked. */
TEST(caller_memory_of_many_outputs)
{
    enum { MANY = 40 };
    char text[4000] = "graph f(x: f32[2]) { return ";
    size_t used = strlen(text);
    for (int k = 0; k < MANY; k++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%smul(x, %d)", k ? ", " : "", k + 1);
    snprintf(text + used, sizeof text - used, " }");
    compiled c = compile(text, NULL, 0);
    float x[2] = {1, 2}, y[2 * MANY];
    void *out[MANY];
    for (int k = 0; k < MANY; k++)
        out[k] = y + 2 * (size_t)k;
    accepted(&c, (const void *[]){x}, out);
    CHECK(y[0] == 1 && y[2 * MANY - 1] == 2 * MANY);
    out[MANY - 1] = (char *)y + 2;
    rejected(&c, (const void *[]){x}, out, "is not aligned to 4 bytes");
    release(&c);
}

/* How much memory an input has depends on the extents of the run. */
TEST(caller_memory_is_measured_by_the_extents_of_a_run)
{
    compiled c = compile("graph f(x: f32[N]) { return reverse(x, axes=[0]) }", NULL, 0);
    float m[8] = {1, 2, 3, 4};
    const void *in[] = {m};
    void *out[] = {m + 2};
    for (int64_t extent = 4; extent > 0; extent -= 2) {
        const flx_dim_binding dim = {"N", extent};
        const flx_run_options o = {.struct_size = sizeof o, .dims = &dim, .num_dims = 1};
        flx_code code = flx_exec_run_at_with(c.e, &o, in, out, &c.err);
        CHECK_CODE(code, extent == 4 ? FLX_E_USAGE : FLX_OK, &c.err);
        test_count_case();
    }
    CHECK(m[2] == 2 && m[3] == 1);
    release(&c);
}
