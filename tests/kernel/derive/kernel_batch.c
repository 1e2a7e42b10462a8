/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_batch.c: one kernel for many examples does what the kernel for one does, example by example: along every axis
   of the grid, with numbers known before the dispatch and not, under every schedule and without races. */
#include "kernel/flk.h"
#include "kernel/random_kernel.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_BUFFERS = 12, EXAMPLES = 3 };

typedef struct {
    const char *text;
    uint32_t grid[3];
    uint32_t open;      /* elements of buffers whose count is open */
    const char *shared; /* a buffer that all examples read, or NULL */
    uint32_t below;     /* u32 values stay below this; 0: 8 */
} batch_case;

typedef struct {
    flx_kernel *k;
    size_t n;
    const char *names[MAX_BUFFERS];
    size_t size[MAX_BUFFERS]; /* bytes of one example */
    bool is_shared[MAX_BUFFERS];
    unsigned char *all[MAX_BUFFERS];  /* by the kernel for many … */
    unsigned char *want[MAX_BUFFERS]; /* … and example by example */
} batch_run;

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *state >> 33;
}

static size_t element_size(uint32_t element)
{
    return element == FLX_F64 ? 8 : element == FLX_F16 ? 2 : 4;
}

static void fill(uint32_t element, void *data, size_t count, uint32_t below, uint64_t *state)
{
    for (size_t i = 0; i < count; i++) {
        double x = (double)next(state) / (double)(UINT64_C(1) << 31) * 2.0 - 1.0;
        if (element == FLX_F64)
            ((double *)data)[i] = x;
        else if (element == FLX_F32)
            ((float *)data)[i] = (float)x;
        else if (element == FLX_F16)
            ((uint16_t *)data)[i] = (uint16_t)(0x3800 + next(state) % 0x400);
        else
            ((uint32_t *)data)[i] = (uint32_t)(next(state) % below);
    }
}

static batch_run start(const batch_case *c)
{
    batch_run r = {.k = flk(c->text)};
    uint64_t state = 7;
    for (size_t i = 0; i < flx_kernel_buffer_count(r.k); i++) {
        flx_kernel_buffer b = {.struct_size = sizeof b};
        CHECK(flx_kernel_buffer_at(r.k, i, &b) == FLX_OK);
        if (b.access == FLX_KERNEL_WORKGROUP || b.access == FLX_KERNEL_PRIVATE)
            continue;
        CHECK(r.n < MAX_BUFFERS);
        size_t count = b.count ? b.count : c->open;
        size_t one = count * element_size(b.element);
        bool is_shared = c->shared && strcmp(c->shared, b.name) == 0;
        size_t examples = is_shared ? 1 : EXAMPLES;
        r.names[r.n] = b.name;
        r.size[r.n] = one;
        r.is_shared[r.n] = is_shared;
        r.all[r.n] = calloc(examples, one);
        r.want[r.n] = calloc(examples, one);
        CHECK(r.all[r.n] && r.want[r.n]);
        if (!(b.flags & FLX_KERNEL_OUTPUT))
            fill(b.element, r.all[r.n], count * examples, c->below ? c->below : 8, &state);
        memcpy(r.want[r.n], r.all[r.n], one * examples);
        r.n++;
    }
    return r;
}

static void finish(batch_run *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free(r->all[i]);
        free(r->want[i]);
    }
    flx_kernel_release(r->k);
}

static void run_one_by_one(batch_run *r, const uint32_t grid[3])
{
    for (size_t e = 0; e < EXAMPLES; e++) {
        flx_kernel_memory memory[MAX_BUFFERS];
        flx_error err = {0};
        for (size_t i = 0; i < r->n; i++)
            memory[i] =
                (flx_kernel_memory){r->names[i], r->want[i] + (r->is_shared[i] ? 0 : e * r->size[i]), r->size[i]};
        CHECK_OK(flx_kernel_run(r->k, grid, memory, r->n, NULL, &err), &err);
    }
}

static flx_kernel *make_batch(const batch_run *r, uint32_t axis, uint32_t groups, uint64_t size)
{
    const char *batched[MAX_BUFFERS];
    size_t n = 0;
    flx_error err = {0};
    for (size_t i = 0; i < r->n; i++)
        if (!r->is_shared[i])
            batched[n++] = r->names[i];
    flx_kernel *many = flx_kernel_vmap(r->k, batched, n, axis, groups, size, &err);
    CHECK_MSG(many != NULL, "%s (%s)", err.message, err.hint);
    return many;
}

static void run_together(const batch_run *r, const flx_kernel *many, const uint32_t grid[3],
                         const flx_kernel_run_options *options)
{
    flx_kernel_memory memory[MAX_BUFFERS];
    flx_error err = {0};
    for (size_t i = 0; i < r->n; i++) {
        size_t size = r->size[i] * (r->is_shared[i] ? 1 : EXAMPLES);
        memory[i] = (flx_kernel_memory){r->names[i], malloc(size), size};
        CHECK(memory[i].data != NULL);
        memcpy(memory[i].data, r->all[i], size);
    }
    CHECK_OK(flx_kernel_run(many, grid, memory, r->n, options, &err), &err);
    for (size_t i = 0; i < r->n; i++) {
        CHECK_MSG(memcmp(memory[i].data, r->want[i], memory[i].size) == 0, "buffer %s differs", r->names[i]);
        free(memory[i].data);
    }
}

static void check_layout(const batch_run *r, const batch_case *c, uint32_t axis, uint32_t groups, uint64_t size)
{
    static const flx_kernel_run_options ways[] = {
        {.struct_size = sizeof ways[0], .flags = FLX_KERNEL_DETECT_RACES},
        {.struct_size = sizeof ways[0], .device = "cpu"},
    };
    flx_error err = {0};
    uint32_t grid[3] = {c->grid[0], c->grid[1], c->grid[2]};
    grid[axis] *= EXAMPLES;
    flx_kernel *many = make_batch(r, axis, groups, size);
    flx_buffer text = flk_text(many);
    test_fail_context("axis %u, groups %u, size %u:\n%s", (unsigned)axis, (unsigned)groups, (unsigned)size, text.data);
    flx_kernel *lean = flx_kernel_optimise(many, NULL, &err);
    CHECK_MSG(lean != NULL, "%s", err.message);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        run_together(r, i ? lean : many, grid, &ways[i]);
    flx_kernel_release(lean);
    flx_kernel_release(many);
    flx_buffer_free(&text);
}

static void check_batch(const batch_case *c)
{
    batch_run r = start(c);
    test_fail_context("%s", c->text);
    run_one_by_one(&r, c->grid);
    for (uint32_t axis = 0; axis < 3; axis++) {
        check_layout(&r, c, axis, c->grid[axis], EXAMPLES);
        check_layout(&r, c, axis, c->grid[axis], 0);
        check_layout(&r, c, axis, 0, EXAMPLES);
    }
    test_count_case();
    finish(&r);
}

static const batch_case cases[] = {
    {"kernel square(workgroup = [4, 1, 1]) { buffer x: f64[6] read; buffer out: f64[6] output; let i = "
     "invocation_id(0);"
     "out[i] = x[i] * x[i]; }",
     {2, 1, 1},
     0,
     NULL,
     0},
    /* neighbours beyond the ends read zero, not the next example */
    {"kernel stencil(workgroup = [4, 1, 1]) { buffer u: f32[] read; buffer next: f32[] output; let i = "
     "invocation_id(0);"
     "if (i >= buf_len(u)) { return; } next[i] = u[i - 1] - 2.0 * u[i] + u[i + 1]; }",
     {2, 1, 1},
     7,
     NULL,
     0},
    /* stores beyond the end are dropped, not the next example's first */
    {"kernel shift() { buffer x: f32[4] read; buffer out: f32[4] output; let i = invocation_id(0); out[i + 2] = x[i]; "
     "}",
     {4, 1, 1},
     0,
     NULL,
     0},
    {"kernel ids(workgroup = [2, 1, 2]) { buffer out: u32[96] output; let a = invocation_id(0); let b = "
     "invocation_id(1);"
     "let c = invocation_id(2); let at = (c * 3 + b) * 4 + a; out[at * 2] = workgroup_id(0) + 10 * workgroup_id(1) + "
     "100 * workgroup_id(2) + 1000 * num_workgroups(0) + 10000 * num_workgroups(1) + 100000 * num_workgroups(2);"
     "out[at * 2 + 1] = a + 10 * b + 100 * c + 1000 * local_id(0) + 10000 * local_id(2); }",
     {2, 3, 2},
     0,
     NULL,
     0},
    {"kernel mirror(workgroup = [4, 1, 1]) { buffer x: f64[8] read; buffer out: f64[8] output; buffer sh: f64[4] "
     "workgroup;"
     "let l = local_id(0); let i = invocation_id(0); sh[l] = x[i]; barrier(); out[i] = sh[3 - l] * sh[l]; }",
     {2, 1, 1},
     0,
     NULL,
     0},
    {"kernel scatter(workgroup = [4, 1, 1]) { buffer k: u32[8] read; buffer w: u32[8] read; buffer out: u32[5] output;"
     "let i = invocation_id(0); atomic_add(out[k[i]], w[i]); }",
     {2, 1, 1},
     0,
     NULL,
     7},
    {"kernel slots() { buffer x: f32[6] read; buffer n: u32[1] output; buffer out: f32[6] output; let i = "
     "invocation_id(0);"
     "let slot = atomic_add(n[0], 1); if (x[i] > 0.0) { out[i] = x[i]; } }",
     {6, 1, 1},
     0,
     NULL,
     0},
    {"kernel chase() { buffer k: u32[8] read; buffer x: f64[8] read; buffer out: f64[8] output; let i = "
     "invocation_id(0);"
     "out[k[k[i]]] = x[k[k[k[i]]]]; }",
     {1, 1, 1},
     0,
     NULL,
     0},
    {"kernel table() { buffer x: u32[5] read; buffer t: f64[8] read; buffer out: f64[5] output; let i = "
     "invocation_id(0);"
     "out[i] = t[x[i]] * cast<f64>(buf_len(t) + buf_len(x)); }",
     {5, 1, 1},
     0,
     "t",
     0},
    {"kernel total() { buffer x: f64[] read; buffer out: f64[1] output; let s = 0.0f64; for (j in 0..buf_len(x)) "
     "{ s = s + x[j]; } out[0] = s; }",
     {1, 1, 1},
     5,
     NULL,
     0},
    {"kernel lanes(workgroup = [8, 1, 1]) { buffer x: u32[16] read; buffer out: u32[16] output; let i = "
     "invocation_id(0);"
     "out[i] = subgroup_add(x[i]) + subgroup_shuffle(x[i], 3) + subgroup_ballot(x[i] > 2); }",
     {2, 1, 1},
     0,
     NULL,
     0},
    {"kernel mixed() { buffer keep: bool[3] read; buffer x: f16[3] read; buffer s: f32[1] uniform; buffer y: f16[3] "
     "output;"
     "buffer n: bool[3] output; let i = invocation_id(0); y[i] = select(keep[i], x[i] * x[i], cast<f16>(s[0]));"
     "n[i] = x[i] > 0.75f16; }",
     {3, 1, 1},
     0,
     NULL,
     2},
    {"kernel in_place() { buffer x: f64[4] read_write; let i = invocation_id(0); x[i] = sin(x[i]); x[i] = x[i] + x[i]; "
     "}",
     {4, 1, 1},
     0,
     NULL,
     0},
    {"kernel function() { buffer x: f64[4] read; buffer out: f64[4] output; fn f(a: f64, i: u32) -> f64 { let b = a * "
     "a; "
     "return b + cast<f64>(i); } let i = invocation_id(0); out[i] = f(x[i], i); }",
     {4, 1, 1},
     0,
     NULL,
     0},
    {"kernel where_allowed() { buffer x: u32[4] read distinct where(count == 4) usage(at_most_once); "
     "buffer out: u32[4] output range(0, 8); let i = invocation_id(0); out[i] = x[i]; }",
     {4, 1, 1},
     0,
     NULL,
     0},
};

TEST(kernel_batch_agrees_with_a_loop_over_examples)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_batch(&cases[i]);
}

TEST(kernel_batch_of_random_kernels_agrees_with_a_loop)
{
    char *text = malloc(RANDOM_KERNEL_SIZE);
    CHECK(text != NULL);
    for (uint64_t seed = 1; seed <= 25; seed++) {
        random_kernel_write(seed, text);
        batch_run r = start(&(batch_case){text, {RANDOM_KERNEL_GROUPS, 1, 1}, 0, NULL, RANDOM_KERNEL_TABLE});
        batch_case c = {text, {RANDOM_KERNEL_GROUPS, 1, 1}, 0, NULL, RANDOM_KERNEL_TABLE};
        run_one_by_one(&r, c.grid);
        check_layout(&r, &c, (uint32_t)(seed % 3), c.grid[seed % 3], seed % 2 ? EXAMPLES : 0);
        finish(&r);
    }
    free(text);
}

/* ---- Unsupported kernels ---- */

static void check_refused(const char *text, const char *batched, const char *message)
{
    flx_error err = {0};
    flx_kernel *k = flk(text);
    flx_kernel *many = flx_kernel_vmap(k, &batched, 1, 2, 1, 4, &err);
    test_fail_context("%s", text);
    CHECK(many == NULL);
    CHECK_CODE(err.code, FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message, message);
    CHECK(err.hint[0] != 0);
    flx_kernel_release(k);
}

TEST(kernel_batch_refuses_what_examples_would_share)
{
    check_refused("kernel k() { buffer x: f32[4] read; buffer out: f32[4] output; out[0] = x[0]; }", "x",
                  "batching all examples would write to buffer 'out'");
    check_refused("kernel k() { buffer x: f32[4] read; }", "y",
                  "buffer not found 'y', requested as batched buffer of 'k'");
    check_refused("kernel k() { buffer t: f32[4] workgroup; }", "t",
                  "batching kernel 'k' has no bound buffer to batch");
    check_refused("kernel k() { buffer x: f32[1073741824] read; }", "x",
                  "batching 4 examples of buffer 'x' exceed the range of u32 indices");
    check_refused("kernel k(workgroup = [4, 1, 1]) { buffer x: u32[4] read; buffer t: u32[4] workgroup; "
                  "async_load(x, t, 0, 16, a); async_wait(a); }",
                  "x", "batching kernel 'k' has asynchronous copies of batched buffers");
    check_refused("kernel k() { buffer x: u32[3] read; indirect_dispatch(x, 0); }", "x",
                  "batching kernel 'k' has a statement about the whole dispatch");
    check_refused("kernel k() { buffer n: u32[4] read_write; n[atomic_add(n[0], 1)] = 5; }", "n",
                  "batching kernel 'k' has an index with effects; bind it to a variable");
    check_refused("kernel k() { buffer n: u32[4] read_write; let a = n[atomic_add(n[0], 1)]; }", "n",
                  "batching kernel 'k' has an index with effects; bind it to a variable");
}

TEST(kernel_batch_needs_a_layout)
{
    flx_error err = {0};
    flx_kernel *k = flk("kernel k() { buffer x: f32[4] read; }");
    const char *const x[] = {"x"};
    CHECK(flx_kernel_vmap(k, x, 1, 3, 1, 4, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_USAGE, &err);
    CHECK(flx_kernel_vmap(k, x, 1, 0, 0, 0, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_USAGE, &err);
    CHECK(flx_kernel_vmap(NULL, x, 1, 0, 1, 1, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_USAGE, &err);
    CHECK(flx_kernel_vmap(k, NULL, 1, 0, 1, 1, &err) == NULL);
    CHECK_CODE(err.code, FLX_E_USAGE, &err);
    flx_kernel_release(k);
}
