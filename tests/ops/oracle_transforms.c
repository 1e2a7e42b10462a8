/* oracle_transforms.c: derivatives and batching against JAX. A fixture of tests/oracle/transforms holds functions, and cases
   called FUNCTION__KIND__rel<N> that return a point, tangents where the kind has them, and the answers. The transform that the
   kind names is applied to the function and run at the point. Kinds and tolerances: tests/oracle/gradients.py. */
#include "fixture.h"
#include "test.h"

#include <fluxion/run.h>
#include <fluxion/transform.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 16, MAX_TENSORS = 128 };

typedef struct {
    const char *name; /* of the case */
    const flx_graph *f;
    const flx_graph *data; /* the case's graph: names of its outputs can carry a scale */
    size_t num_inputs;
    const char *inputs[MAX_INPUTS];
    size_t num_wrt;
    const char *wrt[MAX_INPUTS]; /* the floating and complex inputs */
    uint32_t jacobian_mode;
    int64_t lanes; /* of a batched case */
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
    flx_graph_free(grad);
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

/* What to do with a kind of case. A kind with several rows is checked by each; a transform that gives fewer results than there
   are answers gives the first ones. */
typedef struct {
    const char *name;
    flx_graph *(*apply)(const problem *p, flx_error *err);
    bool has_tangents; /* in the data, behind the point: one for each of wrt */
    bool adds_inputs;  /* for them, to the graph */
    bool lane_by_lane; /* on each lane of batched data in turn */
    uint32_t mode;     /* of flx_jacobian_options */
} transform_kind;

static const transform_kind kinds[] = {
    {.name = "grad", .apply = apply_grad},
    {.name = "hvp", .apply = apply_hvp, .has_tangents = true, .adds_inputs = true},
    {.name = "hvp", .apply = apply_grad, .has_tangents = true},
    {.name = "hess", .apply = apply_hess, .mode = FLX_JACOBIAN_AUTO},
    {.name = "hess", .apply = apply_hess, .mode = FLX_JACOBIAN_FORWARD},
    {.name = "hess", .apply = apply_hess, .mode = FLX_JACOBIAN_REVERSE},
    {.name = "jac", .apply = apply_jac, .mode = FLX_JACOBIAN_AUTO},
    {.name = "jac", .apply = apply_jac, .mode = FLX_JACOBIAN_FORWARD},
    {.name = "jac", .apply = apply_jac, .mode = FLX_JACOBIAN_REVERSE},
    {.name = "jvp", .apply = apply_jvp, .has_tangents = true, .adds_inputs = true},
    {.name = "nth3", .apply = apply_nth3},
    {.name = "taylor4", .apply = apply_taylor4, .has_tangents = true, .adds_inputs = true},
    {.name = "taylor4", .apply = apply_jvp, .has_tangents = true, .adds_inputs = true},
    {.name = "vmap", .apply = apply_vmap},
    {.name = "vmap", .apply = apply_nothing, .lane_by_lane = true},
    {.name = "vmapone", .apply = apply_vmapone},
    {.name = "vmapgrad", .apply = apply_vmapgrad},
    {.name = "vmapgrad", .apply = apply_grad, .lane_by_lane = true},
    {.name = "gradone", .apply = apply_gradone},
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
    case FLX_C128:
        return true;
    default:
        return false;
    }
}

static problem problem_of(const flx_graph *data, const flx_graph *f)
{
    problem p = {.name = flx_graph_name(data), .f = f, .data = data, .num_inputs = flx_graph_input_count(f)};
    CHECK(p.num_inputs <= MAX_INPUTS);
    for (size_t i = 0; i < p.num_inputs; i++) {
        flx_val v = flx_graph_input(f, i);
        p.inputs[i] = flx_val_name(f, v);
        if (is_differentiable(flx_val_type(f, v)))
            p.wrt[p.num_wrt++] = p.inputs[i];
    }
    return p;
}

/* Runs g on the point; what it gives must be the answers that follow in `data`, or the first of them. */
static void compare_run(const problem *p, const flx_graph *g, const transform_kind *kind, flx_tensor **data,
                        size_t num_data)
{
    char names[MAX_INPUTS][80];
    flx_feed feeds[2 * MAX_INPUTS];
    flx_tensor *out[MAX_TENSORS];
    flx_error err = {0};
    size_t n = p->num_inputs;
    for (size_t i = 0; i < n; i++)
        feeds[i] = (flx_feed){p->inputs[i], data[i]};
    for (size_t i = 0; kind->has_tangents && i < p->num_wrt; i++, n++) {
        snprintf(names[i], sizeof names[i], "tangent_%s", p->wrt[i]);
        feeds[n] = (flx_feed){names[i], data[n]};
    }
    size_t num_out = flx_graph_output_count(g);
    if (!EXPECT_MSG(0 < num_out && num_out <= num_data - n, "%s: %zu results, expected %zu", p->name, num_out,
                    num_data - n))
        return;
    flx_code code = flx_graph_verify(g, &err);
    if (code == FLX_OK)
        code = flx_run(g, NULL, feeds, kind->adds_inputs ? n : p->num_inputs, out, &err);
    if (!EXPECT_MSG(code == FLX_OK, "%s: %s (%s)", p->name, err.message, err.where))
        return;
    for (size_t i = 0; i < num_out; i++) {
        fixture_agree(p->name, flx_graph_output_name(g, i), out[i], data[n + i], flx_graph_output_name(p->data, n + i));
        flx_tensor_release(out[i]);
    }
}

/* Row `lane` of a batched tensor. */
static flx_tensor *lane_of(flx_context *ctx, const flx_tensor *t, int64_t lane)
{
    flx_type type = *flx_tensor_type(t);
    size_t bytes = flx_tensor_size(t) / (size_t)type.dims[0];
    type.rank--;
    memmove(type.dims, type.dims + 1, (size_t)type.rank * sizeof type.dims[0]);
    return flx_tensor_new(ctx, &type, (const char *)flx_tensor_bytes(t) + (size_t)lane * bytes, NULL);
}

static void compare_lanes(const problem *p, const flx_graph *g, const transform_kind *kind, flx_tensor **data,
                          size_t num_data)
{
    flx_tensor *rows[MAX_TENSORS];
    for (int64_t lane = 0; lane < p->lanes; lane++) {
        for (size_t i = 0; i < num_data; i++)
            rows[i] = lane_of(flx_graph_context(g), data[i], lane);
        compare_run(p, g, kind, rows, num_data);
        for (size_t i = 0; i < num_data; i++)
            flx_tensor_release(rows[i]);
    }
}

static void run_kind(problem *p, const transform_kind *kind, flx_tensor **data, size_t num_data)
{
    flx_error err = {0};
    p->jacobian_mode = kind->mode;
    flx_graph *g = kind->apply(p, &err);
    if (EXPECT_MSG(g != NULL, "%s: %s (%s)", p->name, err.message, err.where))
        (kind->lane_by_lane ? compare_lanes : compare_run)(p, g, kind, data, num_data);
    flx_graph_free(g);
}

static void run_case(const flx_module *m, const flx_graph *data_graph)
{
    const char *name = flx_graph_name(data_graph);
    const char *suffix = strstr(name, "__");
    if (!suffix)
        return; /* a function, or a body that one uses */
    char function[80];
    snprintf(function, sizeof function, "%.*s", (int)(suffix - name), name);
    const flx_graph *f = flx_module_find(m, function);
    CHECK_MSG(f != NULL, "%s: there is no function %s", name, function);
    flx_error err = {0};
    flx_tensor *data[MAX_TENSORS];
    size_t num_data = flx_graph_output_count(data_graph);
    CHECK(num_data <= MAX_TENSORS);
    CHECK_OK(flx_run(data_graph, NULL, NULL, 0, data, &err), &err);
    problem p = problem_of(data_graph, f);
    p.lanes = flx_tensor_type(data[0])->rank > 0 ? flx_tensor_type(data[0])->dims[0] : 1;
    size_t checks = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (is_of_kind(&kinds[i], suffix + 2)) {
            run_kind(&p, &kinds[i], data, num_data);
            checks++;
        }
    CHECK_MSG(checks > 0, "%s: unknown kind", name);
    for (size_t i = 0; i < num_data; i++)
        flx_tensor_release(data[i]);
    test_count_case();
}

TEST(oracle_transforms_agree)
{
    fixture_each("transforms", run_case);
}
