/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_vector_random.c: random kernels that have a vector form, against the interpreter. They contain what that form
   treats specially: values that are uniform, ramps or varying, masks, loops that lanes leave one by one, ends of
   buffers inside of a vector, subgroup ops. Invocations store only to their own elements, so the schedule does not
   matter. */
#include "emit/vector_pair.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    char *at;
    size_t n;
    uint64_t state;
    const char *real;  /* "f32" or "f64" */
    unsigned lanes;    /* of a subgroup; 0: none */
    int floats, words; /* variables so far: a0 …, n0 … */
    int depth, loops;
    bool divergent;
} maker;

enum { TEXT_SIZE = 1 << 16, COUNT = 200 };

static unsigned pick(maker *m, unsigned n)
{
    return (unsigned)(test_random(&m->state) >> 20) % n;
}

static void add(maker *m, const char *text)
{
    size_t n = strlen(text);
    CHECK(m->n + n + 1 < TEXT_SIZE);
    memcpy(m->at + m->n, text, n + 1);
    m->n += n;
}

static void addf(maker *m, const char *fmt, int a)
{
    char text[100];
    snprintf(text, sizeof text, fmt, a);
    add(m, text);
}

static void add_real(maker *m, unsigned depth);

static void add_word(maker *m, unsigned depth)
{
    static const char *const ops[] = {" + ", " - ", " * ", " & ", " ^ ", " >> ", " | ", " << "};
    unsigned kind = pick(m, depth ? 9 : 4);
    if (kind == 0) {
        add(m, "i");
    } else if (kind == 1) {
        addf(m, "%d", (int)pick(m, 70));
    } else if (kind == 2 && m->words) {
        addf(m, "n%d", (int)pick(m, (unsigned)m->words));
    } else if (kind == 3) {
        add(m, m->loops ? "j" : "workgroup_id(1)");
        if (m->loops)
            addf(m, "%d", (int)pick(m, (unsigned)m->loops));
    } else if (kind == 4) {
        add(m, "k[");
        add_word(m, depth - 1);
        add(m, "]");
    } else if (kind == 5) {
        add(m, "(");
        add_word(m, depth - 1);
        addf(m, pick(m, 2) ? " / %d)" : " %% %d)", (int)pick(m, 9) + 1);
    } else {
        add(m, "(");
        add_word(m, depth ? depth - 1 : 0);
        add(m, ops[pick(m, 8)]);
        add_word(m, depth ? depth - 1 : 0);
        add(m, ")");
    }
}

static void add_condition(maker *m, unsigned depth)
{
    static const char *const signs[] = {" < ", " > ", " == ", " != ", " <= ", " >= "};
    unsigned kind = pick(m, depth ? 4 : 2);
    add(m, "(");
    if (kind == 0) {
        add_word(m, depth ? depth - 1 : 0);
        add(m, signs[pick(m, 6)]);
        add_word(m, depth ? depth - 1 : 0);
    } else if (kind == 1) {
        add_real(m, depth ? depth - 1 : 0);
        add(m, signs[pick(m, 6)]);
        add_real(m, depth ? depth - 1 : 0);
    } else {
        add_condition(m, depth - 1);
        add(m, pick(m, 2) ? " && " : " || ");
        add_condition(m, depth - 1);
    }
    add(m, ")");
}

static void add_load(maker *m, unsigned depth)
{
    add(m, pick(m, 2) ? "x[" : "y[");
    switch (pick(m, 6)) {
    case 0: add(m, "i]"); break;
    case 1: addf(m, "i + %d]", (int)pick(m, 30)); break;
    case 2: addf(m, "%d]", (int)pick(m, 190)); break;
    case 3: addf(m, "i * %d + 3]", (int)pick(m, 3)); break;
    case 4: add(m, "workgroup_id(1) * 7 + i]"); break;
    default: add_word(m, depth ? depth - 1 : 0); add(m, " % 210]");
    }
}

static void add_subgroup(maker *m, unsigned depth)
{
    unsigned kind = pick(m, 4);
    add(m, kind == 0 ? "subgroup_add(" : kind == 1 ? "cast<" : "subgroup_shuffle(");
    if (kind == 1) {
        add(m, m->real);
        add(m, ">(subgroup_ballot");
        add_condition(m, depth - 1);
        add(m, ")");
        return;
    }
    add_real(m, depth - 1);
    if (kind == 2)
        addf(m, ", subgroup_lane() ^ %d", (int)pick(m, m->lanes));
    if (kind == 3) {
        add(m, ", ");
        add_word(m, 1);
        addf(m, " %% %d", (int)m->lanes + 2);
    }
    add(m, ")");
}

static void add_real(maker *m, unsigned depth)
{
    static const char *const binary[] = {"min", "max", "min_nan", "max_nan", "copysign", "abs_diff"};
    static const char *const unary[] = {"-", "abs", "sqrt", "floor", "trunc", "rint", "round", "sign", "recip", "ceil"};
    static const char *const signs[] = {" + ", " - ", " * ", " / "};
    unsigned kind = pick(m, depth ? 12 : 3);
    if (kind == 0 && m->floats) {
        addf(m, "a%d", (int)pick(m, (unsigned)m->floats));
    } else if (kind == 1) {
        addf(m, "%d.5", (int)pick(m, 4));
        add(m, m->real);
    } else if (kind <= 3) {
        add_load(m, depth);
    } else if (kind == 4) {
        add(m, unary[pick(m, 10)]);
        add(m, "(");
        add_real(m, depth - 1);
        add(m, ")");
    } else if (kind == 5) {
        add(m, binary[pick(m, 6)]);
        add(m, "(");
        add_real(m, depth - 1);
        add(m, ", ");
        add_real(m, depth - 1);
        add(m, ")");
    } else if (kind == 6) {
        add(m, "fma(");
        add_real(m, depth - 1);
        add(m, ", ");
        add_real(m, depth - 1);
        add(m, ", ");
        add_real(m, depth - 1);
        add(m, ")");
    } else if (kind == 7) {
        add(m, "select(");
        add_condition(m, depth - 1);
        add(m, ", ");
        add_real(m, depth - 1);
        add(m, ", ");
        add_real(m, depth - 1);
        add(m, ")");
    } else if (kind == 8) {
        add(m, "cast<");
        add(m, m->real);
        add(m, pick(m, 2) ? ">(cast<i32>(" : ">(cast<u32>(");
        add_real(m, depth - 1);
        add(m, "))");
    } else if (kind == 9 && m->lanes && !m->divergent) {
        add_subgroup(m, depth);
    } else {
        add(m, "(");
        add_real(m, depth - 1);
        add(m, signs[pick(m, 4)]);
        add_real(m, depth - 1);
        add(m, ")");
    }
}

static void add_statements(maker *m, unsigned n);

/* A body, with the variables of the enclosing scope. */
static void add_body(maker *m)
{
    int floats = m->floats, words = m->words;
    m->depth++;
    add(m, " {\n");
    add_statements(m, 1 + pick(m, 3));
    add(m, "}\n");
    m->depth--;
    m->floats = floats;
    m->words = words;
}

static void add_if(maker *m)
{
    bool was_divergent = m->divergent;
    m->divergent = true;
    add(m, "if ");
    add_condition(m, 2);
    add_body(m);
    if (pick(m, 2)) {
        add(m, "else");
        add_body(m);
    }
    m->divergent = was_divergent;
}

static void add_loop(maker *m)
{
    bool was_divergent = m->divergent, varies = pick(m, 3) == 0;
    addf(m, "for (j%d in ", m->loops);
    addf(m, "%d..", (int)pick(m, 2));
    if (varies) {
        m->divergent = true;
        add_word(m, 1);
        add(m, " % 5)");
    } else {
        addf(m, "%d)", (int)pick(m, 5));
    }
    m->loops++;
    add_body(m);
    m->loops--;
    m->divergent = was_divergent;
}

static void add_statements(maker *m, unsigned n)
{
    for (unsigned s = 0; s < n; s++) {
        unsigned kind = pick(m, m->depth < 3 ? 8 : 6);
        if (kind == 0 || m->floats == 0) {
            addf(m, "let a%d = ", m->floats);
            add_real(m, 3);
            m->floats++;
        } else if (kind == 1) {
            addf(m, "let n%d = ", m->words);
            add_word(m, 2);
            m->words++;
        } else if (kind <= 3) {
            addf(m, "a%d = ", (int)pick(m, (unsigned)m->floats));
            add_real(m, 3);
        } else if (kind <= 5) {
            addf(m, "out[(workgroup_id(1) * 4 + %d) * 256 + i] = ", (int)pick(m, 4));
            add_real(m, 3);
        } else {
            if (kind == 6)
                add_if(m);
            else
                add_loop(m);
            continue;
        }
        add(m, ";\n");
    }
}

static flx_kernel *make(flx_context *ctx, uint64_t seed)
{
    static char text[TEXT_SIZE];
    maker m = {.at = text, .state = seed};
    m.real = pick(&m, 3) ? "f32" : "f64";
    unsigned all = m.real[1] == '3' ? 16 : 8, frame = pick(&m, 3);
    m.lanes = pick(&m, 3) == 0 ? all : 0;
    snprintf(text, TEXT_SIZE,
             "kernel r(workgroup = [%u, 1, 1]) { buffer x: %s[190] read; buffer y: %s[230] read; buffer k: u32[] read;"
             " buffer out: %s[] output;\nlet i = invocation_id(0);\n",
             m.lanes ? m.lanes : 32, m.real, m.real, m.real);
    m.n = strlen(text);
    add(&m, frame == 0 && !m.lanes   ? "if (i < buf_len(x)) {\n"
            : frame == 1 && !m.lanes ? "if (i >= 171) { return; }\n"
                                     : "");
    add_statements(&m, 8);
    add(&m, "out[workgroup_id(1) * 1024 + i] = a0;\n");
    add(&m, frame == 0 && !m.lanes ? "}\n}" : "}");
    return flk_in(ctx, text);
}

/* Effort emitted_kernels: how many, 20 in one file. */
TEST(kernel_vector_random_kernels_that_fit)
{
    enum { BATCH = 20 };
    flx_kernel *kernels[BATCH];
    size_t total = (size_t)effort(EFFORT_emitted_kernels);
    uint64_t seed = test_seed();
    for (size_t done = 0; done < total && !test_failed(); done += BATCH) {
        flx_context *ctx = flx_context_new(NULL);
        for (size_t i = 0; i < BATCH; i++)
            kernels[i] = make(ctx, seed + done + i);
        flxi_vector_options o = {.bytes = done / BATCH % 3 == 1 ? 16 : 0, .parts = done / BATCH % 3 == 2 ? 2 : 0};
        size_t in_vectors = vector_prepare(kernels, BATCH, &o);
        CHECK_MSG(in_vectors == BATCH, "%zu of %d are in vectors", in_vectors, (int)BATCH);
        for (size_t i = 0; i < BATCH; i++) {
            uint32_t width = kernels[i]->size[0];
            device_pair p = {.device = "vector",
                             .grid = {(COUNT + width - 1) / width, 2, 1},
                             .open_count = 2048,
                             .max_index = 220,
                             .seed = seed + done + i,
                             .subgroup_size = width <= 16 ? width : 0};
            device_pair_check(kernels[i], &p);
            flx_kernel_release(kernels[i]);
        }
        vector_forget();
        flx_context_free(ctx);
    }
}
