/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_transforms.c: derivatives and batching against JAX. A fixture of tests/oracle/transforms holds functions; for
   each a graph FUNCTION__point that returns its inputs, with lanes along a leading axis where a case is batched, and
   tangents where one has them; and cases called FUNCTION__KIND__rel<N> that return the answers. The transform that the
   kind names is applied to the function and run at the point. Kinds and tolerances: tests/oracle/gradients.py. */
#include "compiled_oracle.h"
#include "fixture.h"
#include "test.h"

#include <fluxion/run.h>
#include <fluxion/transform.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 16, MAX_ANSWERS = 64 };

typedef struct {
    const char *name; /* of the case */
    const flx_graph *f;
    size_t num_inputs;
    const char *inputs[MAX_INPUTS];
    size_t num_wrt;
    const char *wrt[MAX_INPUTS]; /* the floating and complex inputs */
    size_t num_point;
    flx_tensor *point[2 * MAX_INPUTS]; /* the inputs, then the tangents of wrt or nothing */
    int64_t lanes;                     /* 1 where no input has lanes */
    size_t num_answers;
    flx_tensor *answers[MAX_ANSWERS];
    const flx_graph *case_graph; /* names of its outputs can carry a scale */
    uint32_t jacobian_mode;
} problem;

/* ---- One function for each kind ---- */

static flx_graph *apply_grad(const problem *p, flx_error *err)
{
    flx_grad_options options = {.struct_size = sizeof options, .flags = FLX_GRAD_VALUE};
    return flx_grad(p->f, p->wrt, p->num_wrt, &options, err);
}

static flx_graph *apply_hvp(const problem *p, flx_error *err)
{
    flx_grad_options options = {.struct_size = sizeof options, .flags = FLX_GRAD_VALUE};
    return flx_hvp(p->f, p->wrt, p->num_wrt, &options, err);
}

static flx_graph *apply_hess(const problem *p, flx_error *err)
{
    flx_jacobian_options options = {.struct_size = sizeof options, .mode = p->jacobian_mode};
    return flx_hessian(p->f, p->wrt, p->num_wrt, &options, err);
}

static flx_graph *apply_jac(const problem *p, flx_error *err)
{
    flx_jacobian_options options = {.struct_size = sizeof options, .mode = p->jacobian_mode};
    return flx_jacobian(p->f, p->wrt, p->num_wrt, &options, err);
}

static flx_graph *apply_jvp(const problem *p, flx_error *err)
{
    return flx_jvp(p->f, p->wrt, p->num_wrt, err);
}

static flx_graph *apply_nth3(const problem *p, flx_error *err)
{
    return flx_nth_grad(p->f, p->wrt[0], 3, err);
}

static flx_graph *apply_taylor4(const problem *p, flx_error *err)
{
    return flx_taylor(p->f, p->wrt, p->num_wrt, 4, err);
}

static flx_graph *batched(const problem *p, const flx_graph *g, size_t num_batched, flx_error *err)
{
    flx_vmap_axis axes[MAX_INPUTS];
    for (size_t i = 0; i < num_batched; i++)
        axes[i] = (flx_vmap_axis){p->inputs[i], 0};
    return flx_vmap(g, axes, num_batched, NULL, 0, p->lanes, err);
}

static flx_graph *apply_nothing(const problem *p, flx_error *err)
{
    return flx_simplify(p->f, err);
}

static flx_graph *apply_vmap(const problem *p, flx_error *err)
{
    return batched(p, p->f, p->num_inputs, err);
}

static flx_graph *apply_vmapone(const problem *p, flx_error *err)
{
    return batched(p, p->f, 1, err);
}

static flx_graph *batched_grad(const problem *p, size_t num_batched, flx_error *err)
{
    flx_graph *grad = apply_grad(p, err);
    flx_graph *g = grad ? batched(p, grad, num_batched, err) : NULL;
    flx_graph_release(grad);
    return g;
}

static flx_graph *apply_vmapgrad(const problem *p, flx_error *err)
{
    return batched_grad(p, p->num_inputs, err);
}

static flx_graph *apply_gradone(const problem *p, flx_error *err)
{
    return batched_grad(p, 1, err);
}

/* What to do with a kind of case. A kind with several rows is checked by each. */
typedef struct {
    const char *name;
    flx_graph *(*apply)(const problem *p, flx_error *err);
    uint32_t mode;      /* of flx_jacobian_options */
    size_t num_batched; /* inputs that get all lanes; the others get one */
    bool tangents;      /* are inputs of the graph */
    bool lane_by_lane;  /* the answers have lanes: each in turn */
    bool first_answers; /* there are more answers than results */
} transform_kind;

static const transform_kind kinds[] = {
    {.name = "grad", .apply = apply_grad},
    {.name = "hvp", .apply = apply_hvp, .tangents = true},
    {.name = "hvp", .apply = apply_grad, .first_answers = true},
    {.name = "hess", .apply = apply_hess, .mode = FLX_JACOBIAN_AUTO},
    {.name = "hess", .apply = apply_hess, .mode = FLX_JACOBIAN_FORWARD},
    {.name = "hess", .apply = apply_hess, .mode = FLX_JACOBIAN_REVERSE},
    {.name = "jac", .apply = apply_jac, .mode = FLX_JACOBIAN_AUTO},
    {.name = "jac", .apply = apply_jac, .mode = FLX_JACOBIAN_FORWARD},
    {.name = "jac", .apply = apply_jac, .mode = FLX_JACOBIAN_REVERSE},
    {.name = "jvp", .apply = apply_jvp, .tangents = true},
    {.name = "nth3", .apply = apply_nth3},
    {.name = "taylor4", .apply = apply_taylor4, .tangents = true},
    {.name = "taylor4", .apply = apply_jvp, .tangents = true, .first_answers = true},
    {.name = "vmap", .apply = apply_vmap, .num_batched = MAX_INPUTS},
    {.name = "vmap", .apply = apply_nothing, .lane_by_lane = true},
    {.name = "vmapone", .apply = apply_vmapone, .num_batched = 1},
    {.name = "vmapgrad", .apply = apply_vmapgrad, .num_batched = MAX_INPUTS},
    {.name = "vmapgrad", .apply = apply_grad, .lane_by_lane = true},
    {.name = "gradone", .apply = apply_gradone, .num_batched = 1},
};

static bool is_of_kind(const transform_kind *kind, const char *suffix)
{
    size_t n = strlen(kind->name);
    return strncmp(suffix, kind->name, n) == 0 && strncmp(suffix + n, "__", 2) == 0;
}

/* ---- Running ---- */

static bool is_differentiable(const flx_type *t)
{
    switch (t->dtype) {
    case FLX_F64:
    case FLX_F32:
    case FLX_F16:
    case FLX_BF16:
    case FLX_C64:
    case FLX_C128: return true;
    default: return false;
    }
}

/* Row `lane` of a tensor with lanes. */
static flx_tensor *lane_of(flx_context *ctx, const flx_tensor *t, int64_t lane)
{
    flx_type type = *flx_tensor_type(t);
    size_t bytes = flx_tensor_nbytes(t) / (size_t)type.dims[0];
    type.rank--;
    memmove(type.dims, type.dims + 1, (size_t)type.rank * sizeof type.dims[0]);
    return flx_tensor_new(ctx, &type, (const char *)flx_tensor_const_data(t) + (size_t)lane * bytes, NULL);
}

static bool has_lanes(const problem *p, size_t input)
{
    return flx_tensor_type(p->point[input])->rank > flx_val_type(p->f, flx_graph_input(p->f, input))->rank;
}

/* Input i in the form that the kind needs, to be released. */
static flx_tensor *input_at(const problem *p, const transform_kind *kind, size_t i, int64_t lane)
{
    if (i < kind->num_batched || !has_lanes(p, i))
        return flx_tensor_retain(p->point[i]);
    return lane_of(flx_graph_context(p->f), p->point[i], lane);
}

static void compare_results(const problem *p, const flx_graph *g, const transform_kind *kind, int64_t lane,
                            flx_tensor *const *results)
{
    for (size_t i = 0; i < flx_graph_output_count(g); i++) {
        flx_tensor *answer = kind->lane_by_lane ? lane_of(flx_graph_context(p->f), p->answers[i], lane)
                                                : flx_tensor_retain(p->answers[i]);
        fixture_agree(p->name, flx_graph_output_name(g, i), results[i], answer,
                      flx_graph_output_name(p->case_graph, i));
        flx_tensor_release(answer);
    }
}

typedef struct {
    const flx_feed *at;
    size_t n;
} feed_list;

static const flx_tensor *feed_by_name(const void *user, const char *name)
{
    const feed_list *l = user;
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->at[i].name, name) == 0)
            return l->at[i].value;
    return NULL;
}

static void run_reference(const problem *p, const flx_graph *g, const transform_kind *kind, int64_t lane,
                          const feed_list *feeds)
{
    flx_tensor *results[MAX_ANSWERS];
    flx_error err = {0};
    flx_code code = flx_run(g, ON_REF, feeds->at, feeds->n, results, &err);
    if (!EXPECT_MSG(code == FLX_OK, "%s: %s (%s)", p->name, err.message, err.where))
        return;
    compare_results(p, g, kind, lane, results);
    for (size_t i = 0; i < flx_graph_output_count(g); i++)
        flx_tensor_release(results[i]);
}

static bool is_compiling; /* cases are gathered for the compiler instead of being run */

static void run_lane(const problem *p, const flx_graph *g, const transform_kind *kind, int64_t lane)
{
    char names[MAX_INPUTS][80];
    flx_tensor *inputs[MAX_INPUTS];
    flx_feed feeds[2 * MAX_INPUTS];
    size_t n = 0;
    for (; n < p->num_inputs; n++) {
        inputs[n] = input_at(p, kind, n, lane);
        feeds[n] = (flx_feed){p->inputs[n], inputs[n]};
    }
    for (size_t i = 0; kind->tangents && i < p->num_wrt; i++, n++) {
        snprintf(names[i], sizeof names[i], "tangent_%s", p->wrt[i]);
        feeds[n] = (flx_feed){names[i], p->point[n]};
    }
    if (is_compiling)
        compiled_oracle_add(p->name, g, feed_by_name, &(feed_list){feeds, n}, p->answers, p->case_graph);
    else
        run_reference(p, g, kind, lane, &(feed_list){feeds, n});
    for (size_t i = 0; i < p->num_inputs; i++)
        flx_tensor_release(inputs[i]);
}

static void run_kind(problem *p, const transform_kind *kind)
{
    flx_error err = {0};
    p->jacobian_mode = kind->mode;
    CHECK_MSG(!kind->tangents || p->num_point == p->num_inputs + p->num_wrt, "%s: the point has no tangents", p->name);
    flx_graph *g = kind->apply(p, &err);
    if (EXPECT_MSG(g != NULL, "%s: %s (%s)", p->name, err.message, err.where)) {
        size_t n = flx_graph_output_count(g);
        bool fits = kind->first_answers ? 0 < n && n < p->num_answers : n == p->num_answers;
        flx_code code = flx_graph_verify(g, &err);
        if (EXPECT_MSG(fits, "%s: %zu results, %zu answers", p->name, n, p->num_answers) &&
            EXPECT_MSG(code == FLX_OK, "%s: %s (%s)", p->name, err.message, err.where))
            for (int64_t lane = 0; lane < (kind->lane_by_lane ? p->lanes : 1); lane++)
                run_lane(p, g, kind, lane);
    }
    flx_graph_release(g);
}

/* ---- Reading ---- */

static size_t run_constants(const flx_graph *g, flx_tensor **out, size_t max)
{
    flx_error err = {0};
    size_t n = flx_graph_output_count(g);
    CHECK(n <= max);
    CHECK_OK(flx_run(g, ON_REF, NULL, 0, out, &err), &err);
    return n;
}

static problem problem_of(const flx_module *m, const flx_graph *case_graph, const char *function)
{
    char point_name[96];
    snprintf(point_name, sizeof point_name, "%s__point", function);
    const flx_graph *f = flx_module_find(m, function);
    const flx_graph *point = flx_module_find(m, point_name);
    problem p = {.name = flx_graph_name(case_graph), .f = f, .case_graph = case_graph, .lanes = 1};
    CHECK_MSG(f && point, "%s: there is no function %s, or no %s", p.name, function, point_name);
    p.num_inputs = flx_graph_input_count(f);
    p.num_point = run_constants(point, p.point, 2 * MAX_INPUTS);
    p.num_answers = run_constants(case_graph, p.answers, MAX_ANSWERS);
    CHECK(p.num_inputs <= MAX_INPUTS && p.num_inputs <= p.num_point);
    for (size_t i = 0; i < p.num_inputs; i++) {
        flx_val v = flx_graph_input(f, i);
        p.inputs[i] = flx_val_name(f, v);
        if (is_differentiable(flx_val_type(f, v)))
            p.wrt[p.num_wrt++] = p.inputs[i];
        if (has_lanes(&p, i))
            p.lanes = flx_tensor_type(p.point[i])->dims[0];
    }
    return p;
}

static void run_case(const flx_module *m, const flx_graph *g)
{
    const char *name = flx_graph_name(g);
    const char *suffix = strstr(name, "__");
    if (!suffix || strcmp(suffix, "__point") == 0)
        return; /* a function, a body that one uses, or where it is asked */
    char function[80];
    snprintf(function, sizeof function, "%.*s", (int)(suffix - name), name);
    problem p = problem_of(m, g, function);
    size_t checks = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (is_of_kind(&kinds[i], suffix + 2)) {
            if (!is_compiling || (!kinds[i].lane_by_lane && case_turn(80)))
                run_kind(&p, &kinds[i]);
            checks++;
        }
    CHECK_MSG(checks > 0, "%s: unknown kind", name);
    for (size_t i = 0; i < p.num_point; i++)
        flx_tensor_release(p.point[i]);
    for (size_t i = 0; i < p.num_answers; i++)
        flx_tensor_release(p.answers[i]);
    test_count_case();
}

TEST(oracle_transforms_agree)
{
    fixture_each("transforms", run_case);
}

TEST(oracle_transforms_agree_compiled)
{
    is_compiling = true;
    fixture_each("transforms", run_case);
    compiled_oracle_end();
    is_compiling = false;
}
