/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_race.c: the race detector: existing races are found, with both accesses; correct programs pass, in every
   schedule. Random programs are compared with a list of all accesses. */
#include "kernel/flk.h"

#include <stdio.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The outcome of `statements` over 2 workgroups of 4 with u32 buffers x, y, counters c, a workgroup buffer s and ids
   i, l. */
static flx_code detect(const char *statements, uint32_t way, flx_error *err)
{
    char text[2000];
    uint32_t x[16] = {0}, y[16] = {0}, c[16] = {0};
    snprintf(text, sizeof text,
             "kernel t(workgroup = [4, 1, 1]) {\n"
             "  buffer x: u32[16] read_write @0; buffer y: u32[16] read_write @1; buffer c: u32[16] read_write @2;\n"
             "  buffer s: u32[16] workgroup; buffer t: u32[16] workgroup; buffer p: u32[4] private;\n"
             "  let i = invocation_id(0); let l = local_id(0);\n%s\n}",
             statements);
    flx_kernel *k = flk(text);
    const flx_kernel_memory m[] = {{"x", x, sizeof x}, {"y", y, sizeof y}, {"c", c, sizeof c}};
    flx_kernel_run_options o = {
        .flags = FLX_KERNEL_DETECT_RACES, .schedule = way < 4 ? way : FLX_KERNEL_SHUFFLED, .seed = way};
    flx_code code = flx_kernel_run(k, (const uint32_t[3]){2, 1, 1}, m, 3, &o, err);
    flx_kernel_release(k);
    return code;
}

typedef struct {
    const char *statements;
    bool races;
} row;

static const row rows[] = {
    /* One invocation, its own elements. */
    {"x[i] = 1; x[i] = x[i] + 1; atomic_add(x[i], 1); x[i] = 2;", false},
    {"p[0] = i; s[l] = p[0]; y[i] = s[l];", false},
    /* Loads only, by any invocation. */
    {"y[i] = x[0] + x[(i + 1) % 8];", false},
    /* Atomics only. */
    {"atomic_add(x[0], 1); atomic_max(s[0], i);", false},
    {"if (l == 0) { s[1] = 1; } if (l == 1) { t[1] = 1; }", false},
    /* Two stores, the same value. */
    {"x[0] = 5;", true},
    {"s[0] = 5;", true},
    {"if (l == 0) { s[0] = 5; }", false}, /* each workgroup has its own */
    {"if (l == 0) { x[0] = 5; }", true},
    {"if (i == 0) { x[0] = 5; }", false},
    /* Store and load. */
    {"x[i] = 1; y[i] = x[(i + 1) % 8];", true},
    {"s[l] = 1; y[i] = s[3 - l];", true},
    {"s[l] = 1; barrier(); y[i] = s[3 - l];", false},
    {"s[l] = 1; barrier(); y[i] = s[3 - l]; s[l] = 2;", true},
    {"s[l] = 1; barrier(); let v = s[3 - l]; barrier(); s[l] = v; y[i] = v;", false},
    {"x[i] = 1; barrier(); y[i] = x[i / 4 * 4 + 3 - l];", false}, /* inside the workgroup */
    {"x[i] = 1; barrier(); y[i] = x[7 - i];", true},              /* across */
    {"x[i] = 1; barrier(grid); y[i] = x[7 - i];", false},
    {"x[i] = 1; barrier(grid); y[i] = x[7 - i]; x[i] = 2;", true},
    {"x[i] = 1; barrier(grid); let v = x[7 - i]; barrier(grid); x[i] = v;", false},
    /* The load first. */
    {"let v = x[0]; if (i == 7) { x[0] = v; }", true},
    {"let v = x[0]; barrier(); if (i == 7) { x[0] = v; }", true},
    {"let v = x[i / 4]; barrier(); if (l == 2) { x[i / 4] = v; }", false},
    {"let v = x[i / 4]; if (l == 2) { x[i / 4] = v; }", true},
    /* Earlier loads by others are forgotten only when they are ordered. */
    {"let v = s[0]; barrier(); if (l == 1) { v = s[0]; } barrier(); if (l == 2) { s[0] = v; }", false},
    {"let v = s[0]; barrier(); if (l == 1) { v = s[0]; } if (l == 2) { s[0] = v; }", true},
    {"if (l == 1) { y[i] = s[0]; } if (l == 1) { s[0] = 1; }", false},
    {"y[i] = s[0]; if (l == 1) { s[0] = 1; }", true},
    {"if (l < 2) { y[i] = s[0]; } barrier(); if (l == 2) { y[i] = s[0]; s[0] = 1; }", false},
    {"if (l == 0) { y[i] = x[0]; } barrier(); if (i == 1) { y[i] = x[0]; } barrier(); if (i == 2) { x[0] = 1; }", true},
    {"if (l == 0) { atomic_add(c[0], 1); } barrier(); if (i == 1) { atomic_add(c[0], 1); } barrier(); if (i == 2) { "
     "c[0] = 1; }",
     true},
    /* Atomic and plain. */
    {"atomic_add(c[i / 8], 1); y[i] = c[i / 8];", true}, /* c[0] for all; with a literal index it would be K54 */
    {"atomic_add(c[i / 4], 1); barrier(); y[i] = c[i / 4];", false},
    {"atomic_add(c[0], 1); barrier(); y[i] = c[0];", true},
    {"atomic_add(c[0], 1); barrier(grid); y[i] = c[0];", false},
    {"if (i == 3) { c[0] = 7; } atomic_add(c[0], 1);", true},
    {"if (l == 3) { s[0] = 7; } barrier(); atomic_add(s[0], 1); barrier(); y[i] = s[0];", false},
    {"if (i == 5) { atomic_add(c[0], 1); c[0] = c[0] + 1; }", false},
    {"if (i == 0) { atomic_add(c[0], 1); } if (i == 7) { y[0] = c[0]; }", true},
    /* An access out of bounds accesses nothing; different elements do not conflict. */
    {"x[100 + i / 8] = i;", false},
    {"x[2 * i] = 1; y[i] = x[2 * i + 1];", false},
    /* Copies access memory when they take effect. */
    {"async_load(x, s, 0, 16, tag); async_wait(tag);", true}, /* all write s */
    {"if (l == 0) { async_load(x, s, 0, 16, tag); async_wait(tag); } barrier(); y[i] = s[l];", false},
    {"if (l == 0) { async_load(x, s, 0, 16, tag); async_wait(tag); } y[i] = s[l];", true},
    {"if (i == 0) { all_reduce(x, y); }", false},
    {"if (i == 0) { all_reduce(x, y); } x[i + 8] = 1;", true},
};

TEST(kernel_race_found_if_and_only_if_it_is_there)
{
    for (size_t r = 0; r < COUNT(rows); r++)
        for (uint32_t way = 0; way < 7; way++) {
            flx_error err = {0};
            flx_code code = detect(rows[r].statements, way, &err);
            EXPECT_MSG(code == (rows[r].races ? FLX_E_KERNEL : FLX_OK), "way %u of %s\n%s", way, rows[r].statements,
                       err.message);
            if (rows[r].races)
                EXPECT_MSG(strncmp(err.message, "race '", 6) == 0, "%s", err.message);
        }
}

TEST(kernel_race_names_both_accesses)
{
    flx_error err = {0};
    CHECK_CODE(detect("if (i == 2) { x[5] = 1; } if (i == 3) { let v = 1u32; } else { if (i == 6) { y[0] = x[5]; } }",
                      0, &err),
               FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message, "race 'x'[5] is stored by invocation [2, 0, 0] at body/2/0 and loaded by invocation [6, "
                              "0, 0] at body/3/else/0/0");
    CHECK_EQ_STR(err.where, "kernel t: body/3/else/0/0");
    CHECK_EQ_STR(err.hint, "make both atomic, separate them with a grid barrier, or use two dispatches");
    CHECK_CODE(detect("if (l == 2) { y[0] = s[1]; } if (l == 1) { atomic_add(s[1], 2); }", 1, &err), FLX_E_KERNEL,
               &err);
    CHECK_EQ_STR(err.message, "race 's'[1] is loaded by invocation [6, 0, 0] at body/2/0 and changed atomically by "
                              "invocation [5, 0, 0] at body/3/0");
    CHECK_EQ_STR(err.hint, "separate them with a barrier, or make both atomic");
}

TEST(kernel_race_ids_have_three_axes)
{
    flx_error err = {0};
    flx_kernel *k = flk("kernel t(workgroup = [2, 3, 1]) { buffer x: u32[1] read_write @0;\n"
                        "  let n = invocation_id(0) + 4 * invocation_id(1);\n"
                        "  if (n == 1 + 4 * 5) { x[0] = 1; } if (n == 2 + 4 * 1) { x[0] = 2; } }");
    uint32_t x[1];
    const flx_kernel_memory m = {"x", x, sizeof x};
    flx_kernel_run_options o = {.flags = FLX_KERNEL_DETECT_RACES};
    CHECK_CODE(flx_kernel_run(k, (const uint32_t[3]){2, 2, 1}, &m, 1, &o, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_STR(
        err.message,
        "race 'x'[0] is stored by invocation [2, 1, 0] at body/2/0 and stored by invocation [1, 5, 0] at body/1/0");
    flx_kernel_release(k);
}

/* ---- Promises ---- */

static flx_code promise(const char *text, uint32_t *a, uint32_t *out, uint32_t flags, flx_error *err)
{
    flx_kernel *k = flk(text);
    const flx_kernel_memory m[] = {{"a", a, 16}, {"out", out, 16}};
    flx_kernel_run_options o = {.flags = flags};
    flx_code code = flx_kernel_run(k, (const uint32_t[3]){2, 1, 1}, m, 2, &o, err);
    flx_kernel_release(k);
    return code;
}

TEST(kernel_race_checks_distinct)
{
    static const char scatter[] =
        "kernel t(workgroup = [2, 1, 1]) { buffer a: u32[4] read distinct @0; buffer out: u32[4] output @1;\n"
        "  out[a[invocation_id(0)]] = invocation_id(0); }";
    uint32_t good[4] = {2, 0, 3, 1}, bad[4] = {2, 0, 9, 2}, out[4];
    flx_error err = {0};
    CHECK_OK(promise(scatter, good, out, FLX_KERNEL_DETECT_RACES, &err), &err);
    CHECK_OK(promise(scatter, bad, out, 0, &err), &err);
    CHECK_CODE(promise(scatter, bad, out, FLX_KERNEL_DETECT_RACES, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message, "distinct broken promise: 'a'[0] and [3] hold the same value");
    /* Buffers that the kernel writes are checked afterwards. */
    static const char made[] =
        "kernel t(workgroup = [2, 1, 1]) { buffer a: u32[4] read_write distinct @0; buffer out: u32[4] output @1;\n"
        "  a[invocation_id(0)] = invocation_id(0) / 2 + out[0]; }";
    CHECK_CODE(promise(made, good, out, FLX_KERNEL_DETECT_RACES, &err), FLX_E_KERNEL, &err);
    CHECK(strncmp(err.message, "distinct ", 9) == 0);
}

TEST(kernel_race_checks_exclusive)
{
    static const char mine[] =
        "kernel t(workgroup = [2, 1, 1]) { buffer a: u32[4] read_write exclusive @0; buffer out: u32[4] output @1;\n"
        "  a[invocation_id(0)] = 1; out[invocation_id(0)] = a[invocation_id(0)]; }";
    static const char handed_on[] =
        "kernel t(workgroup = [2, 1, 1]) { buffer a: u32[4] read_write exclusive @0; buffer out: u32[4] output @1;\n"
        "  a[invocation_id(0)] = 1; barrier(); out[invocation_id(0)] = a[invocation_id(0) ^ 1]; }";
    static const char loads[] =
        "kernel t(workgroup = [2, 1, 1]) { buffer a: u32[4] read exclusive @0; buffer out: u32[4] output @1;\n"
        "  out[invocation_id(0)] = a[workgroup_id(0)]; }";
    static const char later[] =
        "kernel t(workgroup = [2, 1, 1]) { buffer a: u32[4] read_write exclusive @0; buffer out: u32[4] output @1;\n"
        "  a[invocation_id(0)] = 1; barrier(grid); out[invocation_id(0)] = a[3 - invocation_id(0)]; }";
    uint32_t a[4] = {0}, out[4];
    flx_error err = {0};
    CHECK_OK(promise(mine, a, out, FLX_KERNEL_DETECT_RACES, &err), &err);
    CHECK_OK(promise(handed_on, a, out, 0, &err), &err);
    CHECK_CODE(promise(handed_on, a, out, FLX_KERNEL_DETECT_RACES, &err), FLX_E_KERNEL, &err);
    CHECK_EQ_STR(err.message,
                 "exclusive broken promise: 'a'[1] is accessed by invocation [1, 0, 0] at body/0 and loaded by "
                 "invocation [0, 0, 0] at body/2");
    CHECK_CODE(promise(later, a, out, FLX_KERNEL_DETECT_RACES, &err), FLX_E_KERNEL, &err);
    CHECK(strncmp(err.message, "exclusive ", 10) == 0);
    CHECK_CODE(promise(loads, a, out, FLX_KERNEL_DETECT_RACES, &err), FLX_E_KERNEL, &err);
    CHECK(strncmp(err.message, "exclusive ", 10) == 0);
}

/* ---- Against all pairs ---- */

typedef struct {
    uint32_t who, interval, epoch, element;
    char kind; /* 'l'oad, 's'tore, 'a'tomic */
} access;

/* Accesses by single invocations, a barrier now and then. */
static size_t random_program(uint64_t *state, char *text, size_t size, access *list)
{
    size_t count = 0, n = 0;
    uint32_t interval = 0, epoch = 0;
    uint32_t steps = 2 + (uint32_t)(test_random(state) % 14);
    text[0] = 0;
    for (uint32_t i = 0; i < steps && n < size - 100; i++) {
        uint64_t r = test_random(state);
        if (r % 4 == 0) {
            bool grid = r >> 8 & 1;
            interval++;
            epoch += grid;
            n += (size_t)snprintf(text + n, size - n, "barrier(%s); ", grid ? "grid" : "");
            continue;
        }
        access a = {(uint32_t)(r >> 16 & 7), interval, epoch, (uint32_t)(r >> 24 & 1), "lsa"[(r >> 32) % 3]};
        list[count++] = a;
        const char *form = a.kind == 'l'   ? "if (i == %u) { y[i] = x[%u]; } "
                           : a.kind == 's' ? "if (i == %u) { x[%u] = i; } "
                                           : "if (i == %u) { atomic_add(x[%u], 1); } ";
        n += (size_t)snprintf(text + n, size - n, form, a.who, a.element);
    }
    return count;
}

static bool any_race(const access *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) {
            const access *a = &list[i], *b = &list[j];
            bool conflict = a->element == b->element && a->who != b->who && (a->kind != b->kind || a->kind == 's');
            bool same_group = a->who / 4 == b->who / 4;
            bool ordered = a->epoch != b->epoch || (same_group && a->interval != b->interval);
            if (conflict && !ordered)
                return true;
        }
    return false;
}

TEST(kernel_race_agrees_with_all_pairs)
{
    uint64_t state = test_seed();
    int with = 0, without = 0;
    for (int i = 0; i < 1500; i++) {
        char text[1200];
        access list[16];
        bool races = any_race(list, random_program(&state, text, sizeof text, list));
        for (uint32_t way = 0; way < 5; way++) {
            flx_error err = {0};
            flx_code code = detect(text, way == 4 ? (uint32_t)i + 4 : way, &err);
            CHECK_MSG(code == (races ? FLX_E_KERNEL : FLX_OK), "way %u of %s\n%s", way, text, err.message);
        }
        with += races;
        without += !races;
    }
    CHECK_MSG(with > 250 && without > 250, "%d with, %d without", with, without);
}
