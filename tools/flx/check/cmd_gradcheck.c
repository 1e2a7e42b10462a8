/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_gradcheck.c: `flx gradcheck`: are the derivatives right? Everything is computed in f64, whatever the graph says,
   so that what is measured is the derivative and not the rounding. */
#include "args.h"
#include "check/gradient_check.h"
#include "command/derive.h"
#include "commands.h"
#include "io/elements.h"
#include "io/inputs.h"
#include "io/json_writer.h"
#include "io/load.h"
#include "io/summary.h"
#include "report.h"
#include "suggest.h"

#include <fluxion/transform.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const size_t max_searched_nodes = 400; /* each one is differentiated, so the search takes time by their square */

typedef struct {
    text_list wrt;      /* empty: all floating inputs */
    const char *output; /* the loss; NULL: the first */
    int order;
    double tolerance;
    bool json;
} request;

/* The graph in f64 and the point of the check. */
typedef struct {
    const model *model; /* of the file */
    model wide;         /* the same with the graph in f64; only the graph is its own */
    flx_graph *loss;    /* the part of it that computes the loss */
    inputs at;
    size_t *wrt; /* positions */
    size_t num_wrt;
} subject;

/* ---- Options ---- */

static int read_request(request *q, const args *a)
{
    static const char *const orders[] = {"1", "2", NULL};
    const char *tolerance = args_value(a, "--tol");
    const char *wrt = args_value(a, "--wrt");
    int order = choice_read(a, "--order", orders);
    *q = (request){
        .order = order + 1, .output = args_value(a, "--output"), .tolerance = 1e-6, .json = args_has(a, "--json")};
    if (order < 0)
        return STATUS_BAD_INPUT;
    if (tolerance && (!read_number(tolerance, &q->tolerance) || !(q->tolerance >= 0)))
        return fail(FLX_E_USAGE, "--tol must be a nonnegative number, got '%s'", tolerance);
    return wrt ? wrt_read(&q->wrt, a) : STATUS_OK;
}

/* ---- The subject ---- */

static int unknown_input(const subject *s, const char *name)
{
    const flx_graph *g = s->wide.graph;
    int status = fail(FLX_E_NAME, "graph '%s' has no input '%s'", flx_graph_name(g), name);
    suggestion near = suggest_begin(name);
    for (size_t i = 0; i < flx_graph_input_count(g); i++)
        suggest_consider(&near, flx_val_name(g, flx_graph_input(g, i)));
    if (near.best)
        hint("did you mean '%s'?", near.best);
    return status;
}

static int add_named(subject *s, const char *name)
{
    const flx_graph *g = s->wide.graph;
    for (size_t i = 0; i < flx_graph_input_count(g); i++) {
        flx_val v = flx_graph_input(g, i);
        if (strcmp(flx_val_name(g, v), name) != 0)
            continue;
        dtype_kind kind = kind_of(flx_val_type(g, v)->dtype);
        if (kind != KIND_FLOAT && kind != KIND_COMPLEX)
            return fail(FLX_E_NOT_DIFFERENTIABLE, "input '%s' is %s: only floating and complex inputs have derivatives",
                        name, flx_dtype_name(flx_val_type(g, v)->dtype));
        s->wrt[s->num_wrt++] = i;
        return STATUS_OK;
    }
    return unknown_input(s, name);
}

static int choose_wrt(subject *s, const request *q)
{
    const flx_graph *g = s->wide.graph;
    size_t n = flx_graph_input_count(g);
    s->wrt = calloc(n + q->wrt.count + 1, sizeof *s->wrt);
    if (!s->wrt)
        return fail_memory();
    int status = STATUS_OK;
    for (size_t i = 0; !status && i < q->wrt.count; i++)
        status = add_named(s, q->wrt.items[i]);
    for (size_t i = 0; !q->wrt.count && i < n; i++)
        if (kind_of(flx_val_type(g, flx_graph_input(g, i))->dtype) == KIND_FLOAT)
            s->wrt[s->num_wrt++] = i;
    if (!status && !s->num_wrt)
        status = fail(FLX_E_NOT_DIFFERENTIABLE, "graph '%s' has no floating input to differentiate with respect to",
                      flx_graph_name(g));
    return status;
}

static int subject_read(subject *s, const model *m, const request *q, const args *a)
{
    flx_error err = {0};
    *s = (subject){.model = m, .wide = *m};
    if (!flx_graph_output_count(m->graph))
        return fail(FLX_E_USAGE, "graph '%s' has no output to differentiate", flx_graph_name(m->graph));
    s->wide.graph = flx_widen(m->graph, &err);
    if (!s->wide.graph)
        return report_transform(&err);
    flx_val loss;
    if (loss_find(s->wide.graph, q->output, &loss, &err) != FLX_OK)
        return report(&err, NULL);
    s->loss = flx_extract(s->wide.graph, &loss, 1, &err);
    if (!s->loss)
        return report_transform(&err);
    int status = choose_wrt(s, q);
    return status ? status : inputs_read(&s->at, &s->wide, a, MISSING_IS_VARIED);
}

static void subject_free(subject *s)
{
    inputs_free(&s->at);
    flx_graph_release(s->loss);
    flx_graph_release(s->wide.graph);
    free(s->wrt);
}

/* ---- Telling ---- */

static const flx_type *type_of(const subject *s, const check_result *r)
{
    return flx_tensor_type(s->at.values[r->input]);
}

/* How many numbers one element is. */
static int64_t parts_of(const flx_type *type)
{
    return type->dtype == FLX_C128 ? 2 : 1;
}

static void position_of(const flx_type *type, int64_t number, int64_t index[FLX_MAX_RANK])
{
    int64_t i = number / parts_of(type);
    for (int32_t k = type->rank; k-- > 0;) {
        index[k] = i % type->dims[k];
        i /= type->dims[k];
    }
}

/* `[2, 0]`, or `[2, 0].im`; nothing for a real scalar. */
static void print_position(const flx_type *type, int64_t number)
{
    int64_t index[FLX_MAX_RANK];
    position_of(type, number, index);
    if (type->rank)
        putchar('[');
    for (int32_t k = 0; k < type->rank; k++)
        printf("%s%lld", k ? ", " : "", (long long)index[k]);
    if (type->rank)
        putchar(']');
    if (parts_of(type) == 2)
        fputs(number % 2 ? ".im" : ".re", stdout);
}

static const char *const claimed_name[] = {"", "gradient", "product"};

/* An error that is allowed only because rounding explains it. */
static bool is_hidden(const request *q, const check_result *r)
{
    return r->worst > q->tolerance && !check_fails(r, q->tolerance);
}

static void print_hidden(const request *q, const check_result *r)
{
    if (is_hidden(q, r))
        printf(" (rounding of the loss hides errors up to %.2g)", r->hidden);
}

static void print_text(const subject *s, const request *q, int order, const check_result *r)
{
    const flx_type *type = type_of(s, r);
    const char *name = s->at.feeds[r->input].name;
    char *text = type_text(s->model->ctx, type);
    printf("%s%s: %s max error %.2g", order == 2 ? "hvp of " : "", name, text ? text : "", r->worst);
    free(text);
    if (r->at >= 0) {
        printf(" at %s", name);
        print_position(type, r->at);
        printf(": %s %.9g, finite differences %.9g", claimed_name[order], r->claimed, r->found);
    }
    if (r->elements < flx_tensor_count(s->at.values[r->input]))
        printf(" (%lld of %lld elements)", (long long)r->elements, (long long)flx_tensor_count(s->at.values[r->input]));
    print_hidden(q, r);
    puts(check_fails(r, q->tolerance) ? " FAILS" : "");
}

static void print_json(const subject *s, const request *q, int order, const check_result *r)
{
    const flx_type *type = type_of(s, r);
    int64_t index[FLX_MAX_RANK];
    json j = {0};
    json_object_begin(&j, NULL);
    json_text(&j, "name", s->at.feeds[r->input].name);
    type_json(&j, s->model->ctx, type);
    json_integer(&j, "order", order);
    json_integer(&j, "checked", r->elements);
    json_number(&j, "max_error", r->worst, 53);
    if (r->at >= 0) {
        position_of(type, r->at, index);
        json_array_begin(&j, "position");
        for (int32_t k = 0; k < type->rank; k++)
            json_integer(&j, NULL, index[k]);
        json_array_end(&j);
        if (parts_of(type) == 2)
            json_text(&j, "part", r->at % 2 ? "im" : "re");
        json_number(&j, claimed_name[order], r->claimed, 53);
        json_number(&j, "differences", r->found, 53);
    }
    json_number(&j, "tolerance", q->tolerance, 53);
    if (is_hidden(q, r))
        json_number(&j, "hidden", r->hidden, 53);
    json_bool(&j, "agree", !check_fails(r, q->tolerance));
    json_object_end(&j);
}

/* ---- Where it went wrong ---- */

/* Whether the check fails when the value is treated as the loss; not when that cannot be differentiated. For order 1
   only the number that failed is checked. */
static bool value_fails(const subject *s, const request *q, flx_val v, int order, const check_result *failed)
{
    flx_error err = {0};
    bool fails = false;
    flx_graph *part = flx_extract(s->loss, &v, 1, &err);
    check_result *results = calloc(s->num_wrt + 1, sizeof *results);
    check_point p = {part, &s->at, s->wrt, s->num_wrt, q->tolerance, -1};
    if (order == 1) {
        p.wrt = &failed->input;
        p.num_wrt = 1;
        p.only = failed->at;
    }
    if (part && results && check_derivatives(&p, order, results, &err) == FLX_OK)
        for (size_t k = 0; k < p.num_wrt; k++)
            fails = fails || check_fails(&results[k], q->tolerance);
    flx_graph_release(part);
    free(results);
    return fails;
}

/* Finds the first value in the order of computation whose derivative with respect to the inputs is wrong: those of its
   operands are right, so the op that computes it is to blame. */
static bool find_culprit(const subject *s, const request *q, int order, const check_result *failed, flx_val *culprit,
                         const char **op)
{
    size_t n = flx_graph_node_count(s->loss);
    for (size_t i = 0; i < n && n <= max_searched_nodes; i++) {
        flx_node_view node;
        if (flx_graph_node(s->loss, i, &node) != FLX_OK)
            continue;
        *op = node.op;
        for (uint32_t k = 0; k < node.num_results; k++) {
            *culprit = flx_node_result(s->loss, i, k);
            dtype_kind kind = kind_of(flx_val_type(s->loss, *culprit)->dtype);
            if ((kind == KIND_FLOAT || kind == KIND_COMPLEX) && value_fails(s, q, *culprit, order, failed))
                return true;
        }
    }
    return false;
}

/* At a kink the differences of both sides are averaged, which no gradient is. */
static bool is_kink(const subject *s, const check_result *failed, double *left, double *right)
{
    flx_error err = {0};
    check_point p = {.graph = s->loss, .at = &s->at, .wrt = &failed->input, .num_wrt = 1};
    if (one_sided_slopes(&p, failed->at, left, right, &err) != FLX_OK)
        return false;
    return fabs(*left - *right) > 1e-3 * fmax(1, fmax(fabs(*left), fabs(*right)));
}

static void explain(const subject *s, const request *q, int order, const check_result *failed)
{
    double left;
    double right;
    if (order == 1 && is_kink(s, failed, &left, &right))
        printf("the loss has a kink there: its slope is %.6g on the left and %.6g on the right\n", left, right);
    flx_val culprit;
    const char *op;
    if (!find_culprit(s, q, order, failed, &culprit, &op))
        return;
    const char *name = flx_val_name(s->loss, culprit);
    printf("the error first shows in %s%s%s%s\n", op, name ? " '" : "", name ? name : "", name ? "'" : "");
}

/* ---- The command ---- */

static int check_order(const subject *s, const request *q, int order, check_result *results, check_result *worst)
{
    flx_error err = {0};
    check_point p = {s->loss, &s->at, s->wrt, s->num_wrt, q->tolerance, -1};
    if (check_derivatives(&p, order, results, &err) != FLX_OK)
        return report_transform(&err);
    *worst = results[0];
    for (size_t k = 0; k < s->num_wrt; k++) {
        if (check_is_worse(&results[k], worst, q->tolerance))
            *worst = results[k];
        if (q->json)
            print_json(s, q, order, &results[k]);
        else
            print_text(s, q, order, &results[k]);
    }
    return STATUS_OK;
}

static void conclude(const subject *s, const request *q, int order, const check_result *worst)
{
    bool ok = !check_fails(worst, q->tolerance);
    printf("%s: the worst error is %.2g", ok ? "derivatives agree" : "derivatives differ", worst->worst);
    if (worst->at >= 0) {
        printf(" at %s", s->at.feeds[worst->input].name);
        print_position(type_of(s, worst), worst->at);
        if (order == 2)
            fputs(" of the second order", stdout);
    }
    printf(", %g is allowed", q->tolerance);
    print_hidden(q, worst);
    putchar('\n');
    if (!ok)
        explain(s, q, order, worst);
}

static int check_subject(const subject *s, const request *q)
{
    check_result *results = calloc(s->num_wrt + 1, sizeof *results);
    check_result worst = {0};
    int worst_order = 1;
    int status = results ? STATUS_OK : fail_memory();
    for (int order = 1; !status && order <= q->order; order++) {
        check_result found = {0};
        status = check_order(s, q, order, results, &found);
        if (order == 1 || check_is_worse(&found, &worst, q->tolerance)) {
            worst = found;
            worst_order = order;
        }
    }
    free(results);
    if (status)
        return status;
    if (!q->json)
        conclude(s, q, worst_order, &worst);
    return check_fails(&worst, q->tolerance) ? STATUS_DIFFERS : STATUS_OK;
}

static int run_gradcheck(const args *a)
{
    request q;
    int status = read_request(&q, a);
    if (!status) {
        model m;
        status = model_open_chosen(&m, a);
        if (!status) {
            subject s;
            status = subject_read(&s, &m, &q, a);
            if (!status)
                status = check_subject(&s, &q);
            subject_free(&s);
        }
        model_close(&m);
    }
    list_free(&q.wrt);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    {"--wrt", "NAMES", "the inputs and parameters to look at, as in a,b; all floating ones\nunless given",
     MAY_BE_GIVEN},
    OPTION_LOSS(""),
    {"--order", "1|2", "2 checks second derivatives too; 1 unless given", MAY_BE_GIVEN},
    OPTION_IN,
    OPTION_VALUES,
    OPTION_SET,
    {"--tol", "T", "the largest error allowed; 1e-6 unless given", MAY_BE_GIVEN},
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx gradcheck examples/logistic.flx --set N=4",
    "flx gradcheck examples/rosenbrock.flx --set N=5 --order 2",
    "flx gradcheck examples/newton.flx --in x=2",
    NULL,
};

const command command_gradcheck = {
    .name = "gradcheck",
    .operand = "FILE",
    .summary = "check the derivatives of a graph against finite differences",
    .about =
        "Compares the gradient of the main graph's first output, by reverse mode, with central differences,\n"
        "extrapolated to step 0, at one point. With --order 2 it also compares the Hessian times a vector, by\n"
        "forward over reverse mode, with finite differences of the gradient. All arithmetic is in f64, whatever the\n"
        "dtypes of the graph. Prints for each input the largest error |a - b| / max(1, |a|, |b|), where it is\n"
        "and both values. If one is larger than the tolerance, the exit status is 1 and the first op in which\n"
        "the error shows is named. An error that rounding explains, of a large loss or of large numbers that\n"
        "cancel in it, is allowed; the line says up to what size such errors are not seen.\n"
        "\n"
        "Inputs that are not given are filled: floating ones are normal, input number K with seed K, others\n"
        "zeros. A first output of several elements is replaced by their sum with fixed random weights. Of an\n"
        "input with more than 2000 elements, 200 are chosen at random, always the same ones.\n"
        "\n" ABOUT_SPEC,
    .options = options,
    .examples = examples,
    .run = run_gradcheck,
};
