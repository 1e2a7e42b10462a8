/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_case.c: checks kernels and their derivatives against lists of numbers and against each other. */
#include "kernel/derive/kernel_case.h"

#include "base/half.h"
#include "emit/cuda_file.h"
#include "kernel/program/kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Data ---- */

static uint32_t element_of(const flx_kernel *k, const char *name)
{
    uint32_t b = flxi_kernel_find_buffer(k, name);
    if (b)
        return k->buffers[b].element;
    const char *stem = strncmp(name, "grad_", 5) == 0 ? name + 5 : strncmp(name, "tan_", 4) == 0 ? name + 4 : NULL;
    CHECK_MSG(stem != NULL, "there is no buffer %s", name);
    return element_of(k, stem) == FLX_F64 ? FLX_F64 : FLX_F32;
}

kernel_data *kernel_data_zeros(kernel_dataset *set, const flx_kernel *k, const char *name, size_t count)
{
    CHECK(set->n < sizeof set->at / sizeof set->at[0]);
    kernel_data *d = &set->at[set->n++];
    *d = (kernel_data){strdup(name), element_of(k, name), count, calloc(count + 1, sizeof(double))};
    CHECK(d->name && d->values);
    return d;
}

kernel_data *kernel_data_find(const kernel_dataset *set, const char *name)
{
    for (size_t i = 0; i < set->n; i++)
        if (strcmp(set->at[i].name, name) == 0)
            return (kernel_data *)&set->at[i];
    return NULL;
}

void kernel_data_free(kernel_dataset *set)
{
    for (size_t i = 0; i < set->n; i++) {
        free((char *)set->at[i].name);
        free(set->at[i].values);
    }
    set->n = 0;
}

static void append(kernel_data *d, double value, size_t times)
{
    d->values = realloc(d->values, (d->count + times + 1) * sizeof(double));
    CHECK(d->values != NULL);
    for (size_t i = 0; i < times; i++)
        d->values[d->count++] = value;
}

void kernel_data_read(kernel_dataset *set, const flx_kernel *k, const char *text)
{
    while (text && *text) {
        char name[40];
        int used = 0;
        CHECK_MSG(sscanf(text, " %39[a-z_0-9] = %n", name, &used) == 1, "data: %s", text);
        kernel_data *d = kernel_data_zeros(set, k, name, 0);
        for (text += used; *text && *text != ';';) {
            char *end;
            double value = strtod(text, &end);
            CHECK_MSG(end != text, "data of %s: %s", name, text);
            size_t times = 1;
            if (*end == '/')
                value /= strtod(end + 1, &end);
            else if (*end == '*')
                times = strtoul(end + 1, &end, 10);
            append(d, value, times);
            text = end + strspn(end, ", ");
        }
        text += *text == ';';
    }
}

static uint64_t bits_of(uint32_t element, double value)
{
    float f = (float)value;
    uint32_t word = 0;
    uint64_t bits = 0;
    switch (element) {
    case FLX_F64: memcpy(&bits, &value, 8); return bits;
    case FLX_F32: memcpy(&word, &f, 4); return word;
    case FLX_F16: return flxi_to_f16(value);
    case FLX_BF16: return flxi_to_bf16(value);
    default: return (uint64_t)(int64_t)value;
    }
}

static double value_of(uint32_t element, uint64_t bits)
{
    double d;
    float f;
    uint32_t word = (uint32_t)bits;
    switch (element) {
    case FLX_F64: memcpy(&d, &bits, 8); return d;
    case FLX_F32: memcpy(&f, &word, 4); return f;
    case FLX_F16: return flxi_from_f16((uint16_t)bits);
    case FLX_BF16: return flxi_from_bf16((uint16_t)bits);
    default: return (double)bits;
    }
}

/* The data as memory for a run, and back. */
typedef struct {
    flx_kernel_memory at[40];
    size_t n;
} memories;

static memories memories_of(const kernel_dataset *set)
{
    memories m = {.n = set->n};
    for (size_t i = 0; i < set->n; i++) {
        const kernel_data *d = &set->at[i];
        size_t width = flxi_ktype_bytes(d->element, 1);
        unsigned char *bytes = malloc(d->count * width + 1);
        CHECK(bytes != NULL);
        for (size_t j = 0; j < d->count; j++) {
            uint64_t bits = bits_of(d->element, d->values[j]);
            memcpy(bytes + j * width, &bits, width);
        }
        m.at[i] = (flx_kernel_memory){d->name, bytes, d->count * width};
    }
    return m;
}

static void take_back(kernel_dataset *set, memories *m)
{
    for (size_t i = 0; i < set->n; i++) {
        kernel_data *d = &set->at[i];
        size_t width = flxi_ktype_bytes(d->element, 1);
        for (size_t j = 0; j < d->count; j++) {
            uint64_t bits = 0;
            memcpy(&bits, (unsigned char *)m->at[i].data + j * width, width);
            d->values[j] = value_of(d->element, bits);
        }
        free(m->at[i].data);
    }
}

static void copy_data(kernel_dataset *to, const kernel_dataset *from)
{
    for (size_t i = 0; i < from->n; i++) {
        const kernel_data *d = &from->at[i];
        kernel_data *e = &to->at[to->n++];
        *e = (kernel_data){strdup(d->name), d->element, d->count, malloc((d->count + 1) * sizeof(double))};
        CHECK(e->name && e->values);
        memcpy(e->values, d->values, d->count * sizeof(double));
    }
}

/* ---- The current case ---- */

typedef struct {
    const kernel_case *c;
    flx_kernel *k;
    kernel_dataset data; /* with cotangents and zeroed outputs */
    const char *outputs[8], *inputs[8];
    size_t num_outputs, num_inputs;
    char names[2][120];
    double tolerance;
    bool wide; /* the f64 version */
    uint32_t grid[3];
} run;

static size_t split(char *names, const char **list)
{
    size_t n = 0;
    for (char *s = strtok(names, ","); s; s = strtok(NULL, ","))
        list[n++] = s;
    return n;
}

static size_t count_of(const run *r, const char *name)
{
    uint32_t b = flxi_kernel_find_buffer(r->k, name);
    const kernel_data *d = kernel_data_find(&r->data, name);
    return d ? d->count : (size_t)r->k->buffers[b].count;
}

/* Adds the buffers needed in addition to the forward ones: prefix "grad_" or "tan_". */
static kernel_data *companion(const run *r, kernel_dataset *set, const char *prefix, const char *name)
{
    char full[120];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    kernel_data *d = kernel_data_find(set, full);
    return d ? d : kernel_data_zeros(set, r->k, full, count_of(r, name));
}

static void start(run *r, const kernel_case *c, const char *text)
{
    r->c = c;
    r->k = flk(text);
    cuda_file_add(r->k);
    snprintf(r->names[0], sizeof r->names[0], "%s", c->outputs);
    snprintf(r->names[1], sizeof r->names[1], "%s", c->inputs);
    r->num_outputs = split(r->names[0], r->outputs);
    r->num_inputs = split(r->names[1], r->inputs);
    for (int a = 0; a < 3; a++)
        r->grid[a] = c->grid[a] ? c->grid[a] : 1;
    kernel_data_read(&r->data, r->k, c->data);
    for (size_t i = 0; i < r->num_outputs; i++) {
        if (!kernel_data_find(&r->data, r->outputs[i]))
            kernel_data_zeros(&r->data, r->k, r->outputs[i], count_of(r, r->outputs[i]));
        char name[120];
        snprintf(name, sizeof name, "grad_%s", r->outputs[i]);
        bool is_given = kernel_data_find(&r->data, name) != NULL;
        kernel_data *cotangent = companion(r, &r->data, "grad_", r->outputs[i]);
        for (size_t j = 0; !is_given && j < cotangent->count; j++)
            cotangent->values[j] = 1;
    }
}

static void compare(const run *r, const kernel_dataset *got, const char *expected, const char *what)
{
    kernel_dataset want = {0};
    kernel_data_read(&want, r->k, expected);
    for (size_t i = 0; i < want.n; i++) {
        const kernel_data *w = &want.at[i], *g = kernel_data_find(got, w->name);
        CHECK_MSG(g && g->count == w->count, "%s: %s has another length", what, w->name);
        double scale = 1;
        for (size_t j = 0; j < w->count; j++)
            scale = fmax(scale, fabs(w->values[j]));
        for (size_t j = 0; j < w->count; j++)
            EXPECT_MSG(fabs(g->values[j] - w->values[j]) <= r->tolerance * scale,
                       "%s: %s[%zu] is %.17g, expected %.17g", what, w->name, j, g->values[j], w->values[j]);
    }
    kernel_data_free(&want);
}

static bool is_atomic(const flx_kernel *k)
{
    flx_buffer text = flk_text(k);
    bool found = strstr(text.data, "atomic_") != NULL;
    flx_buffer_free(&text);
    return found;
}

/* ---- Forward ---- */

static void only_forward(const run *r, kernel_dataset *set)
{
    for (size_t i = 0; i < r->data.n; i++) {
        kernel_dataset one = {.at = {r->data.at[i]}, .n = 1};
        if (flxi_kernel_find_buffer(r->k, r->data.at[i].name))
            copy_data(set, &one);
    }
}

static void check_forward(const run *r, const flx_kernel_run_options *options)
{
    kernel_dataset set = {0};
    flx_error err = {0};
    only_forward(r, &set);
    memories m = memories_of(&set);
    CHECK_OK(flx_kernel_run(r->k, r->grid, m.at, m.n, options, &err), &err);
    take_back(&set, &m);
    compare(r, &set, r->c->values, "value");
    kernel_data_free(&set);
}

/* ---- First order ---- */

static flx_kernel_derived *derive(const run *r, bool forward_mode, const flx_kernel_grad_options *options)
{
    flx_error err = {0};
    flx_kernel_derived *d = (forward_mode ? flx_kernel_jvp : flx_kernel_grad)(r->k, r->outputs, r->num_outputs,
                                                                              r->inputs, r->num_inputs, options, &err);
    CHECK_MSG(d != NULL, "%s (%s; hint: %s)", err.message, err.where, err.hint);
    cuda_file_add_derived(d);
    return d;
}

/* The data with zeroed gradients; buffers that are both input and output keep their cotangent. */
static void gradient_data(const run *r, kernel_dataset *set)
{
    copy_data(set, &r->data);
    for (size_t i = 0; i < r->num_inputs; i++)
        companion(r, set, "grad_", r->inputs[i]);
}

static void run_derived(const run *r, const flx_kernel_derived *d, kernel_dataset *set,
                        const flx_kernel_run_options *options)
{
    flx_error err = {0};
    memories m = memories_of(set);
    flx_kernel_memory known[40];
    size_t n = flk_known_memory(d, m.at, m.n, known);
    flx_code code = flx_kernel_derived_run(d, r->grid, known, n, options, &err);
    if (code != FLX_OK) {
        flx_buffer text = flk_text(flx_kernel_derived_kernel(d, 0));
        CHECK_MSG(code == FLX_OK, "%s (%s)\n%s", err.message, err.where, text.data);
    }
    take_back(set, &m);
}

static void show_failure(const flx_kernel *k)
{
    if (!test_failed())
        return;
    flx_buffer text = flk_text(k);
    printf("%s", text.data);
    flx_buffer_free(&text);
}

static void check_properties(const run *r, const flx_kernel_derived *d)
{
    flx_kernel *k = flx_kernel_derived_kernel(d, 0);
    flx_buffer text = flk_text(k);
    if (r->c->flags & CASE_NO_ATOMIC)
        EXPECT_MSG(!is_atomic(k), "an atomic in\n%s", text.data);
    if (r->c->flags & CASE_ATOMIC)
        EXPECT_MSG(is_atomic(k), "no atomic in\n%s", text.data);
    if (r->c->flags & CASE_NO_TAPE)
        EXPECT_MSG(strstr(text.data, "tape_") == NULL, "a tape in\n%s", text.data);
    flx_kernel *again = flk(text.data);
    flx_buffer a = {0}, b = {0};
    flx_error err = {0};
    CHECK_OK(flx_kernel_encode(k, &a, &err), &err);
    CHECK_OK(flx_kernel_encode(again, &b, &err), &err);
    EXPECT_MSG(a.size == b.size && memcmp(a.data, b.data, a.size) == 0, "text does not read back to the same\n%s",
               text.data);
    flx_buffer_free(&a);
    flx_buffer_free(&b);
    flx_kernel_release(again);
    flx_buffer_free(&text);
}

static const flx_kernel_run_options schedules[] = {
    {.struct_size = sizeof(flx_kernel_run_options), .flags = FLX_KERNEL_DETECT_RACES, .schedule = FLX_KERNEL_FORWARD},
    {.struct_size = sizeof(flx_kernel_run_options), .schedule = FLX_KERNEL_REVERSE},
    {.struct_size = sizeof(flx_kernel_run_options), .schedule = FLX_KERNEL_INTERLEAVED},
    {.struct_size = sizeof(flx_kernel_run_options), .schedule = FLX_KERNEL_SHUFFLED, .seed = 7},
};

/* The same on compiled C: the first schedule sets the options. */
static const flx_kernel_run_options compiled = {.struct_size = sizeof(flx_kernel_run_options), .device = "cpu"};

static void check_compiled_gradient(const run *r, const flx_kernel_derived *d)
{
    kernel_dataset set = {0};
    gradient_data(r, &set);
    run_derived(r, d, &set, &compiled);
    compare(r, &set, r->c->gradients, "compiled gradient");
    kernel_data_free(&set);
}

static void check_gradient(const run *r, const flx_kernel_derived *d)
{
    check_properties(r, d);
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        kernel_dataset set = {0};
        gradient_data(r, &set);
        run_derived(r, d, &set, &schedules[i]);
        compare(r, &set, r->c->gradients, "gradient");
        kernel_data_free(&set);
    }
    show_failure(flx_kernel_derived_kernel(d, 0));
}

/* A direction for the inputs: irregular numbers of size about 1. */
static double direction(const char *name, size_t i)
{
    double phase = 0;
    for (const char *c = name; *c; c++)
        phase = 1.7 * phase + (double)*c;
    return sin(phase + 2.3 * (double)i) + 0.3;
}

static double dot(const kernel_dataset *set, const char *const *names, size_t n, const char *prefix,
                  const kernel_dataset *other, const char *other_prefix)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        char a[120], b[120];
        snprintf(a, sizeof a, "%s%s", prefix, names[i]);
        snprintf(b, sizeof b, "%s%s", other_prefix, names[i]);
        const kernel_data *x = kernel_data_find(set, a), *y = kernel_data_find(other, b);
        CHECK_MSG(x && y && x->count == y->count, "%s and %s", a, b);
        for (size_t j = 0; j < x->count; j++)
            sum += x->values[j] * y->values[j];
    }
    return sum;
}

static void add_directions(const run *r, kernel_dataset *set)
{
    for (size_t i = 0; i < r->num_inputs; i++) {
        kernel_data *t = companion(r, set, "tan_", r->inputs[i]);
        for (size_t j = 0; j < t->count; j++)
            t->values[j] = direction(r->inputs[i], j);
    }
}

/* <s, jvp(v)> = <grad(s), v> */
static void check_identity(const run *r, const flx_kernel_derived *gradient)
{
    flx_kernel_derived *d = derive(r, true, NULL);
    kernel_dataset forward = {0}, backward = {0}, directions = {0};
    only_forward(r, &forward);
    add_directions(r, &forward);
    for (size_t i = 0; i < r->num_outputs; i++)
        companion(r, &forward, "tan_", r->outputs[i]);
    copy_data(&directions, &forward);
    run_derived(r, d, &forward, &schedules[0]);
    gradient_data(r, &backward);
    run_derived(r, gradient, &backward, NULL);
    double left = dot(&r->data, r->outputs, r->num_outputs, "grad_", &forward, "tan_");
    double right = dot(&backward, r->inputs, r->num_inputs, "grad_", &directions, "tan_");
    double bound = (r->wide ? 1e-10 : 2e-4) * fmax(1, fmax(fabs(left), fabs(right)));
    EXPECT_MSG(fabs(left - right) <= bound, "<s, jvp(v)> = %.17g but <grad(s), v> = %.17g", left, right);
    show_failure(flx_kernel_derived_kernel(d, 0));
    flx_kernel_derived_free(d);
    kernel_data_free(&forward);
    kernel_data_free(&backward);
    kernel_data_free(&directions);
}

/* ---- Second order, in f64 ---- */

static void gradient_at(const run *r, const flx_kernel_derived *d, double step, kernel_dataset *set)
{
    gradient_data(r, set);
    for (size_t i = 0; i < r->num_inputs; i++) {
        kernel_data *x = kernel_data_find(set, r->inputs[i]);
        for (size_t j = 0; j < x->count; j++)
            x->values[j] += step * direction(r->inputs[i], j);
    }
    run_derived(r, d, set, NULL);
}

/* The gradient kernel as a kernel to be differentiated with respect to the same inputs. */
static void second_run(const run *r, const flx_kernel_derived *gradient, run *g, char outputs[8][120])
{
    *g = *r;
    g->k = flx_kernel_derived_kernel(gradient, 0);
    g->data.n = 0;
    gradient_data(r, &g->data);
    g->num_outputs = r->num_inputs;
    g->num_inputs = 0;
    for (size_t i = 0; i < r->num_inputs; i++) {
        snprintf(outputs[i], 120, "grad_%s", r->inputs[i]);
        g->outputs[i] = outputs[i];
        if (flxi_kernel_find_buffer(g->k, r->inputs[i])) /* else the gradient does not depend on it */
            g->inputs[g->num_inputs++] = r->inputs[i];
    }
}

/* The derivative's name for the gradient of an input; grad_x may be taken. */
static void gradient_name(const flx_kernel_derived *d, const char *input, char *name, size_t size)
{
    flx_kernel_need need;
    for (size_t i = 0; flx_kernel_derived_need(d, i, &need) == FLX_OK; i++)
        if (need.role == FLX_KERNEL_GRADIENT && strcmp(need.forward, input) == 0)
            snprintf(name, size, "%s", need.buffer);
}

/* The tangents `forward` of the gradient against finite differences of it: runs at x + h v and x - h v. */
static void check_differences(const run *r, const run *g, const flx_kernel_derived *gradient,
                              const kernel_dataset *forward)
{
    kernel_dataset plus = {0}, minus = {0};
    const double h = 1e-5;
    double scale = 1;
    gradient_at(r, gradient, h, &plus);
    gradient_at(r, gradient, -h, &minus);
    for (size_t i = 0; i < g->num_outputs; i++) {
        char name[130];
        snprintf(name, sizeof name, "tan_%s", g->outputs[i]);
        const kernel_data *t = kernel_data_find(forward, name);
        const double *above = kernel_data_find(&plus, g->outputs[i])->values;
        const double *below = kernel_data_find(&minus, g->outputs[i])->values;
        for (size_t j = 0; j < t->count; j++)
            scale = fmax(scale, fabs(t->values[j]));
        for (size_t j = 0; j < t->count; j++) {
            double difference = (above[j] - below[j]) / (2 * h);
            EXPECT_MSG(fabs(difference - t->values[j]) <= 1e-5 * scale,
                       "second order: %s[%zu] is %.12g, finite differences give %.12g", name, j, t->values[j],
                       difference);
        }
    }
    kernel_data_free(&plus);
    kernel_data_free(&minus);
}

/* <w, H v> = <H w, v> with w = v: the tangents `forward` of the gradient against the gradient of the gradient. */
static void check_symmetry(const run *g, const flx_kernel_derived *twice, const kernel_dataset *forward)
{
    kernel_dataset backward = {0};
    char seconds[8][130];
    double left = 0, right = 0;
    copy_data(&backward, &g->data);
    for (size_t i = 0; i < g->num_outputs; i++) {
        kernel_data *w = companion(g, &backward, "grad_", g->outputs[i]);
        for (size_t j = 0; j < w->count; j++)
            w->values[j] = direction(g->outputs[i], j);
    }
    for (size_t i = 0; i < g->num_inputs; i++) {
        gradient_name(twice, g->inputs[i], seconds[i], sizeof seconds[i]);
        CHECK(backward.n < sizeof backward.at / sizeof backward.at[0]);
        size_t count = count_of(g, g->inputs[i]);
        backward.at[backward.n++] =
            (kernel_data){strdup(seconds[i]), FLX_F64, count, calloc(count + 1, sizeof(double))};
    }
    run_derived(g, twice, &backward, &schedules[0]);
    for (size_t i = 0; i < g->num_outputs; i++) {
        char name[130];
        snprintf(name, sizeof name, "tan_%s", g->outputs[i]);
        const kernel_data *t = kernel_data_find(forward, name);
        for (size_t j = 0; j < t->count; j++)
            left += direction(g->outputs[i], j) * t->values[j];
    }
    for (size_t i = 0; i < g->num_inputs; i++) {
        const kernel_data *x = kernel_data_find(&backward, seconds[i]);
        for (size_t j = 0; j < x->count; j++)
            right += direction(g->inputs[i], j) * x->values[j];
    }
    EXPECT_MSG(fabs(left - right) <= 1e-9 * fmax(1, fabs(left)),
               "<w, jvp(grad)(v)> = %.15g, <grad(grad)(w), v> = %.15g", left, right);
    kernel_data_free(&backward);
}

static void check_second(const run *r)
{
    const flx_kernel_grad_options bounded = {.struct_size = sizeof bounded, .max_trips = 8};
    flx_kernel_derived *gradient = derive(r, false, &bounded);
    run g;
    char outputs[8][120];
    second_run(r, gradient, &g, outputs);
    if (g.num_inputs > 0) {
        kernel_dataset forward = {0};
        flx_kernel_derived *over = derive(&g, true, &bounded), *twice = derive(&g, false, &bounded);
        copy_data(&forward, &g.data);
        add_directions(&g, &forward);
        for (size_t i = 0; i < g.num_outputs; i++)
            companion(&g, &forward, "tan_", g.outputs[i]);
        run_derived(&g, over, &forward, &schedules[0]);
        check_differences(r, &g, gradient, &forward);
        show_failure(flx_kernel_derived_kernel(over, 0));
        check_symmetry(&g, twice, &forward);
        show_failure(flx_kernel_derived_kernel(twice, 0));
        flx_kernel_derived_free(over);
        flx_kernel_derived_free(twice);
        kernel_data_free(&forward);
    }
    flx_kernel_derived_free(gradient);
    kernel_data_free(&g.data);
}

/* ---- The whole ---- */

static void check_version(const kernel_case *c, const char *text, bool wide)
{
    run r = {.wide = wide};
    double tolerance = c->tolerance > 0 ? c->tolerance : 1e-6;
    r.tolerance = wide && !(c->tolerance > 0) ? 1e-12 : tolerance;
    start(&r, c, text);
    for (size_t i = 0; c->values && i < sizeof schedules / sizeof schedules[0]; i++)
        check_forward(&r, &schedules[i]);
    flx_kernel_grad_options options = {.struct_size = sizeof options, .tape_budget = c->tape_budget};
    flx_kernel_derived *d = derive(&r, false, &options);
    check_gradient(&r, d);
    check_identity(&r, d);
    if (!wide && !(c->flags & CASE_INTERPRETED)) {
        if (c->values)
            check_forward(&r, &compiled);
        check_compiled_gradient(&r, d);
    }
    flx_kernel_derived_free(d);
    if (wide && !(c->flags & CASE_NO_SECOND))
        check_second(&r);
    kernel_data_free(&r.data);
    flx_kernel_release(r.k);
    test_count_case();
}

void kernel_case_check(const kernel_case *c)
{
    if (c->extend)
        c->extend(flk_context());
    check_version(c, c->text, false);
    if (!(c->flags & CASE_F32_ONLY)) {
        char *text = strdup(c->text);
        CHECK(text != NULL);
        for (char *s = text; (s = strstr(s, "f32")) != NULL;)
            memcpy(s, "f64", 3);
        check_version(c, text, true);
        free(text);
    }
    cuda_file_end();
}
