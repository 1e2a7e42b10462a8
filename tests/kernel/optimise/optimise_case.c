/* SPDX-License-Identifier: Apache-2.0 */
/* optimise_case.c: see optimise_case.h. */
#include "kernel/optimise/optimise_case.h"

#include <stdio.h>
#include <stdlib.h>

static const char header[] = "kernel k(workgroup = [4, 1, 1]) {\n"
                             "buffer a: f32[16] read; buffer b: f32[16] read; buffer n: u32[16] read;\n"
                             "buffer u: u32[4] uniform; buffer x: f32[16] read_write; buffer y: f32[16] read_write;\n"
                             "buffer m: u32[16] read_write; buffer out: f32[16] output; buffer res: u32[16] output;\n";

/* Declarations of a body come before its first statement: everything up to the last "buffer" or "fn" line. */
static const char *statements_of(const char *body)
{
    const char *s = body;
    for (;;) {
        while (*s == ' ' || *s == '\n')
            s++;
        const char *end = NULL;
        if (strncmp(s, "buffer ", 7) == 0)
            end = strchr(s, ';');
        else if (strncmp(s, "fn ", 3) == 0 || strncmp(s, "adjoint ", 8) == 0)
            end = strchr(s, '}');
        if (!end)
            return s;
        s = end + 1;
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool mentions(const char *body, char name)
{
    for (const char *s = body; *s; s++)
        if (*s == name && !is_word(s[1]) && (s == body || !is_word(s[-1])))
            return true;
    return false;
}

flx_kernel *optimise_kernel(const char *body)
{
    if (strncmp(body, "kernel", 6) == 0)
        return flk(body);
    const char *statements = statements_of(body);
    const char *i = mentions(body, 'i') ? "let i = invocation_id(0); " : "";
    const char *l = mentions(body, 'l') ? "let l = local_id(0); " : "";
    size_t size = sizeof header + strlen(i) + strlen(l) + strlen(body) + 8;
    char *text = malloc(size);
    CHECK(text != NULL);
    snprintf(text, size, "%s%.*s%s%s%s\n}", header, (int)(statements - body), body, i, l, statements);
    flx_kernel *k = flk(text);
    free(text);
    return k;
}

/* ---- Running ---- */

enum { MAX_BUFFERS = 40, OPEN_COUNT = 16 };

typedef struct {
    flx_kernel_memory at[MAX_BUFFERS];
    size_t n;
} memories;

static void fill(uint32_t element, unsigned char *data, size_t size, uint64_t *state)
{
    static const float odd[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -2.5f, 3.0f, 1e-40f, 1e38f, (float)(1.0 / 3.0)};
    for (size_t i = 0; i < size; i += 4) {
        uint64_t r = test_random(state);
        float f = r % 3 ? odd[r / 3 % (sizeof odd / sizeof *odd)] : (float)(r >> 40) / 65536.0f - 100.0f;
        if (r % 61 == 0)
            f = r & 64 ? __builtin_inff() : __builtin_nanf("");
        uint32_t u = r % 7 ? (uint32_t)(r >> 8) % 12 : (uint32_t)(r >> 20);
        if (element == FLX_F32)
            memcpy(data + i, &f, size - i < 4 ? size - i : 4);
        else
            memcpy(data + i, &u, size - i < 4 ? size - i : 4);
    }
}

static memories make_memory(const flx_kernel *k, uint64_t seed)
{
    memories m = {.n = 0};
    for (size_t i = 0; i < flx_kernel_buffer_count(k); i++) {
        flx_kernel_buffer b = {.struct_size = sizeof b};
        CHECK(flx_kernel_buffer_at(k, i, &b) == FLX_OK);
        if (b.access == FLX_KERNEL_WORKGROUP || b.access == FLX_KERNEL_PRIVATE)
            continue;
        CHECK(m.n < MAX_BUFFERS);
        size_t size = (size_t)(b.count ? b.count : OPEN_COUNT) * 8;
        unsigned char *data = calloc(1, size);
        CHECK(data != NULL);
        uint64_t state = seed;
        for (const char *s = b.name; *s; s++)
            state = state * 31 + (unsigned char)*s;
        fill(b.element, data, size, &state);
        size_t bytes = flxi_ktype_bytes(b.element, b.count ? b.count : OPEN_COUNT);
        m.at[m.n++] = (flx_kernel_memory){b.name, data, bytes};
    }
    return m;
}

static void free_memory(memories *m)
{
    for (size_t i = 0; i < m->n; i++)
        free(m->at[i].data);
}

static flx_code run(const flx_kernel *k, memories *m, uint32_t schedule, flx_error *err)
{
    uint32_t grid[3] = {2, 1, 1};
    flx_kernel_run_options o = {.struct_size = sizeof o, .schedule = schedule, .subgroup_size = 4};
    return flx_kernel_run(k, grid, m->at, m->n, &o, err);
}

/* Bit for bit, except that all NaNs are equal. */
static bool same_contents(const flx_kernel *k, const flx_kernel_memory *a, const flx_kernel_memory *b)
{
    const flxi_kbuffer *buffer = &k->buffers[flxi_kernel_find_buffer(k, a->buffer)];
    if (buffer->element != FLX_F32)
        return memcmp(a->data, b->data, a->size) == 0;
    const float *x = a->data, *y = b->data;
    for (size_t i = 0; i < a->size / sizeof *x; i++)
        if (memcmp(&x[i], &y[i], sizeof *x) != 0 && (x[i] == x[i] || y[i] == y[i]))
            return false;
    return true;
}

void optimise_check_same(const flx_kernel *before, const flx_kernel *after)
{
    flx_error e1 = {0}, e2 = {0};
    CHECK_OK(flx_kernel_validate(after, NULL, NULL, 0, NULL, &e2), &e2);
    for (uint32_t schedule = FLX_KERNEL_FORWARD; schedule <= FLX_KERNEL_REVERSE; schedule++) {
        memories m1 = make_memory(before, 7 + schedule), m2 = make_memory(after, 7 + schedule);
        flx_code c1 = run(before, &m1, schedule, &e1), c2 = run(after, &m2, schedule, &e2);
        CHECK_MSG(c1 == c2, "'%s' against '%s'", e1.message, e2.message);
        for (size_t i = 0; c1 == FLX_OK && i < m1.n; i++)
            for (size_t j = 0; j < m2.n; j++)
                if (strcmp(m1.at[i].buffer, m2.at[j].buffer) == 0)
                    CHECK_MSG(same_contents(before, &m1.at[i], &m2.at[j]), "buffer %s differs", m1.at[i].buffer);
        free_memory(&m1);
        free_memory(&m2);
    }
}

/* ---- Comparing ---- */

static void check_text(const flx_kernel *got, const char *expected)
{
    flx_kernel *k = optimise_kernel(expected);
    flx_buffer a = flk_text(got), b = flk_text(k);
    CHECK_EQ_STR(a.data, b.data);
    flx_buffer_free(&a);
    flx_buffer_free(&b);
    flx_kernel_release(k);
}

void optimise_expect(const char *passes, const char *before, const char *after)
{
    flx_error err = {0};
    test_fail_context("pass %s on: %s", passes, before);
    flx_kernel *k = optimise_kernel(before);
    flx_kernel *once = flx_kernel_optimise(k, passes, &err);
    CHECK_MSG(once != NULL, "%s", err.message);
    check_text(once, after);
    optimise_check_same(k, once);
    flx_kernel *twice = flx_kernel_optimise(once, passes, &err);
    CHECK_MSG(twice != NULL, "%s", err.message);
    check_text(twice, after);
    flx_kernel_release(k);
    flx_kernel_release(once);
    flx_kernel_release(twice);
}

void optimise_keeps(const char *passes, const char *body)
{
    optimise_expect(passes, body, body);
}

void optimise_expect_with(flxi_kpass_fn pass, const flxi_ksimplify_options *o, const char *before, const char *after)
{
    flx_error err = {0};
    test_fail_context("on: %s", before);
    flx_kernel *k = optimise_kernel(before);
    flx_kernel *made = pass(k, o, &err);
    CHECK_MSG(made != NULL, "%s", err.message);
    CHECK_OK(flx_kernel_validate(made, NULL, NULL, 0, NULL, &err), &err);
    check_text(made, after);
    flx_kernel_release(k);
    flx_kernel_release(made);
}
