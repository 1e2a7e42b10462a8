/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_optimise_random.c: random kernels full of literals, integers, overwritten variables and memory: every pass
   alone, and all together, must produce the same bits in memory. Effort optimised_kernels: how many;
   FLX_TEST_CASE=SEED: only this seed. */
#include "kernel/optimise/optimise_case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_SIZE = 1 << 16, MAX_NAMES = 64 };

typedef struct {
    uint64_t state;
    char text[TEXT_SIZE];
    size_t n;
    int names;                         /* made so far */
    int ints[MAX_NAMES], num_ints;     /* u32 variables in scope; odd numbers may be assigned */
    int floats[MAX_NAMES], num_floats; /* f32 */
    int depth;
    bool has_returns; /* then there are no barriers */
} writer;

static unsigned pick(writer *w, unsigned n)
{
    return (unsigned)(test_random(&w->state) >> 33) % n;
}

static void put(writer *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(w->text + w->n, TEXT_SIZE - w->n, fmt, args);
    va_end(args);
    CHECK(n >= 0 && w->n + (size_t)n < TEXT_SIZE);
    w->n += (size_t)n;
}

static void put_int(writer *w, int depth);
static void put_float(writer *w, int depth);
static void put_condition(writer *w, int depth);

/* name(a, b, …), an argument for each letter of `args`: i an integer, f a float, c a condition. */
static void put_call(writer *w, const char *name, const char *args, int depth)
{
    put(w, "%s", name);
    for (const char *a = args; *a; a++) {
        put(w, a == args ? "(" : ", ");
        if (*a == 'c')
            put_condition(w, depth - 1);
        else if (*a == 'f')
            put_float(w, depth - 1);
        else
            put_int(w, depth - 1);
    }
    put(w, ")");
}

static void put_int(writer *w, int depth)
{
    static const char *const ops[] = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"};
    static const char *const calls[] = {"min", "max", "abs_diff", "saturating_sub", "mul_high", "rotate_left"};
    unsigned what = depth > 0 ? pick(w, 13) : pick(w, 5);
    switch (what) {
    case 12: put_call(w, "f", "ii", depth); return;
    case 0:
    case 1:
        if (w->num_ints) {
            put(w, "v%d", w->ints[pick(w, (unsigned)w->num_ints)]);
            return;
        }
        put(w, "i");
        return;
    case 2: put(w, "%u", pick(w, 4) ? pick(w, 6) : pick(w, 40)); return;
    case 3: put(w, "%s", pick(w, 2) ? "l" : "i"); return;
    case 4: put(w, "buf_len(%s)", pick(w, 2) ? "a" : "z"); return;
    case 5:
        put(w, "%s[", pick(w, 2) ? "n" : "q");
        put_int(w, depth - 1);
        put(w, "]");
        return;
    case 6: put_call(w, calls[pick(w, 6)], "ii", depth); return;
    case 7: put_call(w, "select", "cii", depth); return;
    case 8: put_call(w, "cast<u32>", "c", depth); return;
    default: break;
    }
    put(w, "(");
    put_int(w, depth - 1);
    /* a literal zero divisor is an error: max with 1 avoids it */
    unsigned op = pick(w, 10);
    put(w, " %s ", ops[op]);
    put(w, op == 3 || op == 4 ? "max(1, " : "(");
    put_int(w, depth - 1);
    put(w, "))");
}

static void put_condition(writer *w, int depth)
{
    static const char *const ops[] = {"<", "<=", ">", ">=", "==", "!="};
    unsigned what = depth > 0 ? pick(w, 8) : 7;
    if (what < 2) {
        put(w, "(");
        put_condition(w, depth - 1);
        put(w, what ? " && " : " || ");
        put_condition(w, depth - 1);
        put(w, ")");
    } else if (what == 2) {
        put(w, "!(");
        put_condition(w, depth - 1);
        put(w, ")");
    } else if (what == 3) {
        put(w, "(");
        put_float(w, depth - 1);
        put(w, " %s ", ops[pick(w, 6)]);
        put_float(w, depth - 1);
        put(w, ")");
    } else {
        put(w, "(");
        put_int(w, depth - 1);
        put(w, " %s ", ops[pick(w, 6)]);
        put_int(w, depth - 1);
        put(w, ")");
    }
}

static void put_float(writer *w, int depth)
{
    static const char *const literals[] = {"0.0f32", "1.0f32", "-1.0f32", "2.0f32", "-0.0f32", "0.5f32", "3.25f32"};
    static const char *const ops[] = {"+", "-", "*", "/"};
    static const char *const calls[] = {"sqrt", "abs", "floor", "-", "sign", "exp"};
    switch (depth > 0 ? pick(w, 11) : pick(w, 2)) {
    case 10: put_call(w, "g", "f", depth); return;
    case 0:
        if (w->num_floats) {
            put(w, "v%d", w->floats[pick(w, (unsigned)w->num_floats)]);
            return;
        }
        put(w, "%s", literals[pick(w, 7)]);
        return;
    case 1: put(w, "%s", literals[pick(w, 7)]); return;
    case 2:
    case 3:
        put(w, "%s[", pick(w, 2) ? "a" : pick(w, 2) ? "p" : "x");
        if (w->text[w->n - 2] == 'x')
            put(w, "i");
        else
            put_int(w, depth - 1);
        put(w, "]");
        return;
    case 4: put_call(w, calls[pick(w, 6)], "f", depth); return;
    case 5: put_call(w, "select", "cff", depth); return;
    case 6: put_call(w, "fma", "fff", depth); return;
    default: break;
    }
    put(w, "(");
    put_float(w, depth - 1);
    put(w, " %s ", ops[pick(w, 4)]);
    put_float(w, depth - 1);
    put(w, ")");
}

static void put_list(writer *w, int statements);

static void put_let(writer *w)
{
    bool is_int = pick(w, 2);
    int name = w->names++;
    put(w, "let v%d = ", name);
    is_int ? put_int(w, 3) : put_float(w, 3);
    put(w, ";\n");
    int *list = is_int ? w->ints : w->floats, *n = is_int ? &w->num_ints : &w->num_floats;
    if (*n < MAX_NAMES)
        list[(*n)++] = name;
}

static void put_assign(writer *w)
{
    bool is_int = pick(w, 2);
    int *list = is_int ? w->ints : w->floats, n = is_int ? w->num_ints : w->num_floats;
    int name = n ? list[pick(w, (unsigned)n)] : 0;
    if (!n || name % 2 == 0) { /* loops use even names */
        put_let(w);
        return;
    }
    put(w, "v%d = ", name);
    is_int ? put_int(w, 3) : put_float(w, 3);
    put(w, ";\n");
}

/* Own elements of x, c and res, any element of private arrays, sums in m that nothing reads. */
static void put_store(writer *w)
{
    switch (pick(w, 7)) {
    case 5:
        put(w, "atomic_add(m[");
        put_int(w, 1);
        put(w, "], ");
        put_int(w, 2);
        put(w, ");\n");
        return;
    case 6:
        put(w, "res[i] = atomic_max(c[i], ");
        put_int(w, 2);
        put(w, ");\n");
        return;
    case 0: put(w, "x[i] = "); break;
    case 1: put(w, "out[i] = "); break;
    case 2:
        put(w, "p[");
        put_int(w, 1);
        put(w, "] = ");
        break;
    default:
        if (pick(w, 2)) {
            put(w, "res[i] = ");
        } else {
            put(w, "q[");
            put_int(w, 1);
            put(w, "] = ");
        }
        put_int(w, 3);
        put(w, ";\n");
        return;
    }
    put_float(w, 3);
    put(w, ";\n");
}

static void put_body(writer *w, int statements)
{
    int ints = w->num_ints, floats = w->num_floats;
    w->depth++;
    put(w, "{\n");
    put_list(w, statements);
    put(w, "}\n");
    w->depth--;
    w->num_ints = ints;
    w->num_floats = floats;
}

static void put_loop(writer *w)
{
    int name = w->names += w->names % 2, ints = w->num_ints;
    w->names++;
    put(w, "for (v%d in ", name);
    if (pick(w, 3)) {
        unsigned from = pick(w, 3);
        put(w, "%u..%u) ", from, from + pick(w, 11));
    } else {
        put(w, "0..");
        put_int(w, 1);
        put(w, " %% 5) ");
    }
    if (w->num_ints < MAX_NAMES)
        w->ints[w->num_ints++] = name;
    put_body(w, 1 + (int)pick(w, 4));
    w->num_ints = ints;
}

static void put_if(writer *w)
{
    put(w, "if (");
    put_condition(w, 2);
    put(w, ") ");
    put_body(w, 1 + (int)pick(w, 3));
    if (pick(w, 2)) {
        w->n--; /* the line's end */
        put(w, " else ");
        put_body(w, 1 + (int)pick(w, 3));
    }
}

/* Each invocation writes its own element, all read, with barriers around: only in uniform control flow. */
static void put_phase(writer *w)
{
    put(w, "barrier();\ns[l] = ");
    put_float(w, 2);
    put(w, ";\nbarrier();\nout[i] = s[3 - l] + ");
    put_float(w, 2);
    put(w, ";\n");
}

static void put_list(writer *w, int statements)
{
    for (int i = 0; i < statements; i++) {
        unsigned what = pick(w, 13);
        bool has_room = w->depth < 3 && w->n < TEXT_SIZE / 4;
        if (what < 4)
            put_let(w);
        else if (what < 6)
            put_assign(w);
        else if (what < 8)
            put_store(w);
        else if (what == 8 && has_room)
            put_loop(w);
        else if (what == 9 && has_room)
            put_if(w);
        else if (what == 10 && w->depth == 0 && !w->has_returns)
            put_phase(w);
        else if (what == 10 && w->depth > 0 && w->has_returns && i == statements - 1)
            put(w, "return;\n");
        else if (what == 11 && w->depth < 3)
            put_body(w, 2);
        else if (what == 12 && w->depth < 3) {
            put(w, "region r ");
            put_body(w, 2);
        } else
            put_store(w);
    }
}

static void put_kernel(writer *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->state = seed;
    w->has_returns = pick(w, 2);
    put(w, "kernel k(workgroup = [4, 1, 1]) {\nbuffer a: f32[16] read; buffer n: u32[16] read; buffer z: u32[] read;\n"
           "buffer x: f32[16] read_write; buffer out: f32[16] output; buffer res: u32[16] output;\n"
           "buffer m: u32[16] read_write; buffer c: u32[16] read_write;\n"
           "buffer s: f32[4] workgroup; buffer p: f32[6] private; buffer q: u32[5] private;\n"
           "fn f(d: u32, e: u32) -> u32 { let t = d * 2; for (j in 0..e & 3) { t = t + j; } return t ^ e; }\n"
           "fn g(d: f32) -> f32 { let t = d * d; if (t > 1.0) { t = -t; } return t + d; }\n"
           "let i = invocation_id(0); let l = local_id(0);\n");
    put_list(w, 6 + (int)pick(w, 16));
    if (w->num_floats)
        put(w, "x[i] = v%d;\n", w->floats[w->num_floats - 1]);
    put(w, "}\n");
}

static void check_seed(writer *w, uint64_t seed)
{
    static const char *const passes[] = {
        "inline",   "coalesce", "fold",       "propagate", "bounds",
        "if",       "forward",  "dead_store", "peel",      "unroll",
        "fuse",     "split",    "strip_mine", "cse",       "licm",
        "barriers", "dce",      "select",     "strength",  "propagate,cse,dce",
        NULL,
    };
    flx_error err = {0};
    put_kernel(w, seed);
    test_fail_context("seed %llu:\n%s", (unsigned long long)seed, w->text);
    flx_kernel *k = flx_kernel_parse(flk_context(), w->text, w->n, "random", &err);
    if (!k && err.code == FLX_E_KERNEL) /* an invalid literal index or divisor */
        return;
    CHECK_MSG(k != NULL, "%s: %s", err.where, err.message);
    for (size_t p = 0; p < sizeof passes / sizeof *passes; p++) {
        test_fail_context("seed %llu, pass %s:\n%s", (unsigned long long)seed, passes[p] ? passes[p] : "all", w->text);
        flx_kernel *o = flx_kernel_optimise(k, passes[p], &err);
        CHECK_MSG(o != NULL, "%s", err.message);
        optimise_check_same(k, o);
        flx_kernel_release(o);
        test_count_case();
    }
    flx_kernel_release(k);
}

TEST(kernel_optimise_random_kernels)
{
    static writer w;
    uint64_t state = test_seed(), only;
    if (test_case_seed(&only)) {
        check_seed(&w, only);
        return;
    }
    for (int64_t i = 0; i < effort(EFFORT_optimised_kernels); i++)
        check_seed(&w, test_random(&state));
}
