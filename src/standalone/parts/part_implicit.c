/* SPDX-License-Identifier: Apache-2.0 */
/* part_implicit.c: cg, gmres, fixed_point and root by the functions of the reference evaluator
   (numeric/linalg/krylov.c, iteration.c). The graph of the node is a function, which a second one calls with numbers in
   double. A method that stops at its bound leaves its last iterate. */
#include "numeric/linalg/iteration.h"
#include "ops/opcode.h"
#include "standalone/parts/parts.h"

#include <float.h>
#include <math.h>

typedef struct {
    int64_t n;    /* numbers: complex elements have two */
    int64_t most; /* iterations; FLXI_ABSENT: the method's own bound */
    const char *type;
    double unit, tol;
} equation;

static equation equation_of(const flxi_device_node *n)
{
    const flx_type *t = n->in_types[0];
    equation e = {.n = flxi_sa_count(t) * (flxi_is_complex(t->dtype) ? 2 : 1)};
    e.most = flxi_sa_int(n, "max_iterations");
    e.type = flxi_sa_type(t->dtype);
    e.unit = flxi_part_dtype(t->dtype) == FLX_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    e.tol = fmax(flxi_attr_real(&flxi_ops[n->op], n->attrs, "tol"), 8.0 * e.unit);
    return e;
}

/* Numbers in double, and after them those of the graph's argument and of its result. */
static size_t room_of(const flxi_device_node *node)
{
    int64_t n = equation_of(node).n;
    switch (node->op) {
    case OP_cg: return 2 * (size_t)n + flxi_cg_room(n);
    case OP_gmres: return 2 * (size_t)n + flxi_gmres_room(n);
    case OP_root: return (size_t)n + flxi_newton_room(n);
    default: return (size_t)n + flxi_fixed_point_room(n);
    }
}

size_t flxi_sa_implicit_scratch(const flxi_device_node *n)
{
    return 8 * (room_of(n) + 2 * (size_t)equation_of(n).n);
}

/* The function of the node's graph for vectors of double; `user` is an array of addresses. */
static const char *write_function(flxi_sa_writer *outer, const equation *e)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, outer->f->mem);
    flxi_sa_writer w = *outer;
    w.out = &text;
    w.depth = 1;
    flxi_add_text(&text, "static int NAME_(void *user, double *x, double *y)\n{\n");
    flxi_sa_line(&w, "const void *const *const at = (const void *const *)user;");
    flxi_sa_line(&w, "%s *const point = (%s *)(uintptr_t)at[1], *const value = point + %lld;", e->type, e->type,
                 (long long)e->n);
    flxi_sa_open(&w, "for (int64_t i = 0; i < %lld; i++)", (long long)e->n);
    flxi_sa_line(&w, "point[i] = (%s)x[i];", e->type);
    flxi_sa_line(&w, "x[i] = point[i];");
    flxi_sa_close(&w);
    const char *arguments = "(unsigned char *)(uintptr_t)at[0], point";
    for (uint32_t k = 1; k < w.n->nin; k++)
        arguments =
            flxi_sa_print(&w, "%s, (const %s *)at[%u]", arguments, flxi_sa_type(w.n->in_types[k]->dtype), k + 1);
    flxi_sa_call_body(&w, 0, flxi_sa_print(&w, "%s, value", arguments));
    flxi_sa_line(&w, "for (int64_t i = 0; i < %lld; i++)", (long long)e->n);
    flxi_sa_line(&w, "    y[i] = value[i];");
    flxi_sa_line(&w, "return 0;");
    flxi_sa_close(&w);
    const char *name = flxi_sa_static_of(w.f, &text, &text, flxi_sa_print(&w, "%s_function", flxi_ops[w.n->op].name),
                                         "The equation as a function of a vector.");
    flxi_strbuf_free(&text);
    outer->code = w.code;
    return name;
}

/* Declares the memory, and `at` for the function. */
static void write_operands(flxi_sa_writer *w, const equation *e)
{
    flxi_sa_line(w, "double *const x = (double *)scratch;");
    flxi_sa_line(w, "const void *at[%u];", w->n->nin + 1);
    flxi_sa_line(w, "at[0] = scratch + %zu;", w->body_at);
    flxi_sa_line(w, "at[1] = x + %zu;", room_of(w->n));
    for (uint32_t k = 1; k < w->n->nin; k++)
        flxi_sa_line(w, "at[%u] = x%u;", k + 1, k);
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)e->n);
    flxi_sa_line(w, "    x[i] = x0[i];");
}

static int64_t bound_of(const equation *e, int64_t own)
{
    return e->most == FLXI_ABSENT ? own : e->most;
}

static void write_result(flxi_sa_writer *w, const equation *e, int64_t from, const char *method)
{
    flxi_sa_line(w, "const int code = %s;", method);
    flxi_sa_line(w, "if (code != 0)");
    flxi_sa_line(w, "    return code;");
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)e->n);
    flxi_sa_line(w, "    y0[i] = (%s)x[i + %lld];", e->type, (long long)from);
}

void flxi_sa_linear(flxi_sa_writer *w)
{
    equation e = equation_of(w->n);
    long long n = (long long)e.n;
    if (n == 0)
        return;
    const char *function = write_function(w, &e), *type = flxi_sa_borrow(w->f, "krylov.h", "flxi_krylov");
    const char *method = flxi_sa_borrow(w->f, "krylov.c", w->n->op == OP_cg ? "flxi_krylov_cg" : "flxi_krylov_gmres");
    write_operands(w, &e);
    flxi_sa_line(w, "%s k = {%s, at, %lld, %s, INT64_C(%lld), x + %lld, 0};", type, function, n, flxi_sa_real(w, e.tol),
                 (long long)bound_of(&e, 10 * n + 100), 2 * n);
    write_result(w, &e, n, flxi_sa_print(w, "%s(&k, x, x + %lld)", method, n));
}

void flxi_sa_steps_to_point(flxi_sa_writer *w)
{
    equation e = equation_of(w->n);
    long long n = (long long)e.n;
    bool is_root = w->n->op == OP_root;
    if (n == 0)
        return;
    const char *function = write_function(w, &e), *type = flxi_sa_borrow(w->f, "iteration.h", "flxi_iteration");
    const char *method = flxi_sa_borrow(w->f, "iteration.c", is_root ? "flxi_newton" : "flxi_fixed_point");
    write_operands(w, &e);
    flxi_sa_line(w, "%s k = {%s, at, %lld, %s, %s, INT64_C(%lld), x + %lld, 0};", type, function, n,
                 flxi_sa_real(w, e.tol), flxi_sa_real(w, e.unit), (long long)bound_of(&e, is_root ? 100 : 10000), n);
    write_result(w, &e, 0, flxi_sa_print(w, "%s(&k, x)", method));
}
