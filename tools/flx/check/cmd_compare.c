/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_compare.c: `flx compare`: the same inputs on two devices.

   Two floats differ by |a - b| / max(1, |a|, |b|): relative for large values, absolute for small ones. Equal values,
   infinities included, and two NaNs do not differ; a NaN or infinity against anything else differs without limit.
   Complex numbers are measured by their absolute values. Integers and bools must be equal. */
#include "args.h"
#include "check/rounding.h"
#include "command/cmd_devices.h"
#include "commands.h"
#include "io/elements.h"
#include "io/inputs.h"
#include "io/json_writer.h"
#include "io/load.h"
#include "io/summary.h"
#include "report.h"

#include <fluxion/run.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *names;           /* "ref,cpu" cut into two strings */
    const char *device[2]; /* the default device and ref, unless given */
    double tolerance;
    bool is_given; /* the tolerance; otherwise rounding may explain more */
} request;

/* ---- Options ---- */

static int read_devices(request *q, const char *text)
{
    if (!text) {
        q->device[1] = "ref";
        return device_choose(NULL, &q->device[0]);
    }
    q->names = strdup(text);
    if (!q->names)
        return fail_memory();
    char *comma = strchr(q->names, ',');
    if (!comma || strchr(comma + 1, ','))
        return fail(FLX_E_USAGE, "--devices must have the form A,B, got '%s'", text);
    *comma = 0;
    int status = device_choose(q->names, &q->device[0]);
    return status ? status : device_choose(comma + 1, &q->device[1]);
}

static int read_request(request *q, const args *a)
{
    const char *tolerance = args_value(a, "--tol");
    q->tolerance = 1e-5;
    q->is_given = tolerance;
    if (tolerance && (!read_number(tolerance, &q->tolerance) || !(q->tolerance >= 0)))
        return fail(FLX_E_USAGE, "--tol must be a nonnegative number, got '%s'", tolerance);
    return read_devices(q, args_value(a, "--devices"));
}

/* ---- Comparing ---- */

typedef struct {
    double worst;
    int64_t at;      /* element with the worst difference; where one differs too much, the one that does so most */
    double rounding; /* what rounding explains there, scaled like the difference */
    bool differs;
} difference;

static double scaled(double distance, double a, double b)
{
    return isfinite(distance) ? distance / fmax(1, fmax(a, b)) : INFINITY;
}

static double element_difference(const flx_tensor *x, const flx_tensor *y, int64_t i)
{
    dtype_kind kind = kind_of(flx_tensor_type(x)->dtype);
    if (kind != KIND_FLOAT && kind != KIND_COMPLEX)
        return integer_compare(element_integer(x, i), element_integer(y, i)) == 0 ? 0 : INFINITY;
    double a[2] = {flx_tensor_get(x, i), element_imaginary(x, i)};
    double b[2] = {flx_tensor_get(y, i), element_imaginary(y, i)};
    double d[2];
    for (int k = 0; k < 2; k++)
        d[k] = a[k] == b[k] || (isnan(a[k]) && isnan(b[k])) ? 0 : a[k] - b[k];
    return scaled(hypot(d[0], d[1]), hypot(a[0], a[1]), hypot(b[0], b[1]));
}

/* How much of the difference rounding explains. */
static double explained(const flx_tensor *x, const double *bounds, int64_t i)
{
    double size = hypot(flx_tensor_get(x, i), element_imaginary(x, i));
    return bounds ? scaled(bounds[i], size, size) : 0;
}

/* `bounds` is NULL where rounding explains nothing. */
static difference compare_tensors(const flx_tensor *x, const flx_tensor *y, double tolerance, const double *bounds)
{
    difference d = {0};
    double most = 0; /* times the difference that is allowed */
    int64_t count = flx_tensor_count(x);
    for (int64_t i = 0; i < count; i++) {
        double e = element_difference(x, y, i);
        if (!(e > 0))
            continue;
        double rounding = e > tolerance ? explained(y, bounds, i) : 0;
        double allowed = fmax(tolerance, rounding), times = allowed > 0 ? e / allowed : INFINITY;
        bool differs = e > allowed;
        if (differs > d.differs || (differs == d.differs && (differs ? times > most : e > d.worst))) {
            d = (difference){e, i, rounding, differs};
            most = times;
        }
    }
    return d;
}

/* ---- Telling ---- */

static void print_position(const flx_type *type, int64_t i)
{
    int64_t index[FLX_MAX_RANK];
    for (int32_t k = type->rank; k-- > 0;) {
        index[k] = i % type->dims[k];
        i /= type->dims[k];
    }
    putchar('[');
    for (int32_t k = 0; k < type->rank; k++)
        printf("%s%lld", k ? ", " : "", (long long)index[k]);
    putchar(']');
}

static void print_text(const model *m, const char *const device[2], size_t i, flx_tensor **const outputs[2],
                       difference d)
{
    const flx_tensor *x = outputs[0][i];
    const flx_type *type = flx_tensor_type(x);
    char *text = type_text(m->ctx, type);
    printf("%s: %s max difference %.3g", flx_graph_output_name(m->graph, i), text ? text : "", d.worst);
    free(text);
    if (d.worst > 0) {
        fputs(" at ", stdout);
        print_position(type, d.at);
        for (int k = 0; k < 2; k++) {
            fputs(k ? ", " : ": ", stdout);
            element_text(stdout, outputs[k][i], d.at);
            printf(" on %s", device[k]);
        }
    }
    if (d.rounding > 0)
        printf(d.differs ? "; rounding explains %.3g" : "; rounding explains up to %.3g", d.rounding);
    puts(d.differs ? " DIFFERS" : "");
}

static void print_json(const model *m, const request *q, const char *const device[2], size_t i, const flx_tensor *x,
                       difference d)
{
    json j = {0};
    json_object_begin(&j, NULL);
    json_text(&j, "name", flx_graph_output_name(m->graph, i));
    type_json(&j, m->ctx, flx_tensor_type(x));
    json_array_begin(&j, "devices");
    json_text(&j, NULL, device[0]);
    json_text(&j, NULL, device[1]);
    json_array_end(&j);
    json_number(&j, "max_difference", d.worst, 53);
    json_integer(&j, "element", d.at);
    json_number(&j, "tolerance", q->tolerance, 53);
    if (d.rounding > 0)
        json_number(&j, "rounding", d.rounding, 53);
    json_bool(&j, "agree", !d.differs);
    json_object_end(&j);
}

/* `r` is NULL where rounding explains nothing. */
static int tell(const model *m, const request *q, const args *a, const char *const device[2],
                flx_tensor **const outputs[2], const rounding_effect *r)
{
    size_t n = flx_graph_output_count(m->graph);
    size_t differing = 0;
    bool is_explained = false;
    for (size_t i = 0; i < n; i++) {
        difference d = compare_tensors(outputs[0][i], outputs[1][i], q->tolerance, r ? r->bounds[i] : NULL);
        differing += d.differs;
        is_explained |= !d.differs && d.worst > q->tolerance;
        if (args_has(a, "--json"))
            print_json(m, q, device, i, outputs[0][i], d);
        else
            print_text(m, device, i, outputs, d);
    }
    if (!args_has(a, "--json"))
        printf("%s and %s %s: %zu of %zu outputs within %g%s\n", device[0], device[1], differing ? "differ" : "agree",
               n - differing, n, q->tolerance, is_explained ? " or the effect of rounding" : "");
    return differing ? STATUS_DIFFERS : STATUS_OK;
}

/* ---- The command ---- */

static int run_on(const model *m, const inputs *in, const char *device, flx_tensor **outputs)
{
    flx_run_options options = {
        .struct_size = sizeof options, .device = device, .dims = in->dims, .num_dims = in->num_dims};
    flx_error err = {0};
    flx_code code = flx_run(m->graph, &options, in->feeds, in->num_feeds, outputs, &err);
    tell_slow();
    return code ? report(&err, NULL) : STATUS_OK;
}

static bool exceeds(const model *m, const request *q, flx_tensor **const outputs[2])
{
    for (size_t i = 0; i < flx_graph_output_count(m->graph); i++)
        if (compare_tensors(outputs[0][i], outputs[1][i], q->tolerance, NULL).differs)
            return true;
    return false;
}

/* The effect of rounding is measured only where it decides: that takes several runs on ref. */
static int compare_outputs(const model *m, const request *q, const args *a, const inputs *in,
                           const char *const device[2], flx_tensor **const outputs[2])
{
    rounding_effect r = {0};
    bool measures = !q->is_given && strcmp(device[1], "ref") == 0 && exceeds(m, q, outputs);
    int status = measures ? rounding_measure(&r, m, in, outputs[1]) : STATUS_OK;
    if (!status)
        status = tell(m, q, a, device, outputs, measures ? &r : NULL);
    rounding_free(&r);
    return status;
}

static void release_outputs(flx_tensor **outputs, size_t n)
{
    for (size_t i = 0; outputs && i < n; i++)
        flx_tensor_release(outputs[i]);
    free(outputs);
}

static int compare_model(const model *m, const request *q, const args *a)
{
    size_t n = flx_graph_output_count(m->graph);
    flx_tensor **outputs[2] = {calloc(n + 1, sizeof **outputs), calloc(n + 1, sizeof **outputs)};
    inputs in = {0};
    int status = outputs[0] && outputs[1] ? inputs_read(&in, m, a, MISSING_IS_FILLED) : fail_memory();
    for (int k = 1; !status && k >= 0; k--)
        status = run_on(m, &in, q->device[k], outputs[k]);
    if (!status)
        status = compare_outputs(m, q, a, &in, q->device, outputs);
    release_outputs(outputs[0], n);
    release_outputs(outputs[1], n);
    inputs_free(&in);
    return status;
}

static int run_compare(const args *a)
{
    request q = {0};
    int status = read_request(&q, a);
    if (!status) {
        model m;
        status = model_open_chosen(&m, a);
        if (!status && !q.is_given)
            q.tolerance = fmax(q.tolerance, 16 * coarsest_spacing(m.graph));
        if (!status)
            status = compare_model(&m, &q, a);
        model_close(&m);
    }
    free(q.names);
    return status;
}

static const option options[] = {
    OPTION_GRAPH,
    {"--devices", "A,B", "the two devices; the default device and ref, unless given", MAY_BE_GIVEN},
    OPTION_IN,
    OPTION_VALUES,
    OPTION_SET,
    {"--tol", "T",
     "the largest difference allowed; unless given 1e-5, for f16 0.016, for bf16\n0.125, or what rounding explains",
     MAY_BE_GIVEN},
    OPTION_JSON,
    {0},
};

static const char *const examples[] = {
    "flx compare examples/mlp.flx --set N=4",
    "flx compare examples/mlp.flx --devices cpu,ref --set N=4 --tol 1e-4",
    "flx compare examples/newton.flx --devices ref,ref --in x=2 --tol 0",
    NULL,
};

const command command_compare = {
    .name = "compare",
    .operand = "FILE",
    .summary = "run a graph on two devices and compare the results",
    .about = "Runs the main graph of the file on the devices with the same inputs and prints for each output the\n"
             "largest difference. Two floats differ by |a - b| / max(1, |a|, |b|); integers and bools must be\n"
             "equal. The exit status is 1 if an output differs by more than the tolerance. Inputs that are not\n"
             "given are filled: floating ones are normal, others zeros.\n"
             "\n"
             "Without --tol an element may also differ by what rounding explains: device ref runs the graph four\n"
             "more times with every floating input moved to a neighbouring number, and 16 times what that\n"
             "changes is allowed, at most half of the digits. The tolerance is that of the coarsest floating\n"
             "dtype in the graph: 1e-5, but 16 units in the last place of f16 (0.016) or bf16 (0.125).\n"
             "\n" ABOUT_SPEC,
    .options = options,
    .examples = examples,
    .run = run_compare,
};
