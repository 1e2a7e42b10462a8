/* SPDX-License-Identifier: Apache-2.0 */
/* custom_kernel_rules.c: derivatives of kernel_call. They come from the kernel's own transforms: the derived kernel is
   again a kernel_call, whose tapes and scratch buffers are unused results. */
#include "kernel/check/kernel_validate.h"
#include "kernel/derive/kernel_derived.h"
#include "kernel/program/kernel_rewrite.h"
#include "ops/custom/custom_kernel.h"

/* ---- Shared by both modes ---- */

typedef struct {
    flxi_site *s;
    const flxi_kernel_call *a;
    const flxi_kernel_binding *m;
    flx_kernel_derived *d;
    flxi_strbuf inputs, outputs;  /* names for the derived call */
    flxi_strbuf scratch, lengths; /* buffers that it allocates itself when it runs, and their lengths */
    flx_val *operands;
    flx_type *types;
    size_t num_operands, num_results;
    flx_val counts; /* trips of the loops whose number depends on data, where they are counted */
} derivation;

/* The kernel that was differentiated is a simplified one, so buffers are matched by name. */
static uint32_t buffer_of(const derivation *x, const flxi_kneed *n)
{
    return n->forward ? flxi_kernel_find_buffer(x->m->k, x->d->forward->buffers[n->forward].name) : 0;
}

static flx_val in_dtype(flxi_site *s, flx_val v, int32_t dtype)
{
    if (flxi_typeof(s, v)->dtype == dtype)
        return v;
    return flx_cast(s->g, v, (flx_dtype)dtype);
}

static void add_operand(derivation *x, const flxi_kneed *n, flx_val v)
{
    flxi_kernel_call_add_name(&x->inputs, n->name);
    x->operands[x->num_operands++] = in_dtype(x->s, v, n->element);
}

static void add_result(derivation *x, const flxi_kneed *n, const flx_type *like)
{
    flxi_kernel_call_add_name(&x->outputs, n->name);
    flx_type t = *like;
    t.dtype = n->element;
    x->types[x->num_results++] = t;
}

static flx_dim invocations(const derivation *x)
{
    flx_dim n = 1;
    for (size_t i = 0; i < 3; i++) {
        flx_dim groups = i < x->a->grid.n ? x->a->grid.v[i] : 1;
        n = flx_dim_mul(x->s->ctx, n, flx_dim_mul(x->s->ctx, groups, x->m->k->size[i]));
    }
    return n;
}

/* The shape of a forward buffer: that of its operand or result. */
static const flx_type *shape_of(const derivation *x, uint32_t buffer)
{
    uint32_t i = flxi_kernel_call_input(x->m, buffer), k = flxi_kernel_call_output(x->m, buffer);
    if (i != UINT32_MAX)
        return flxi_typeof(x->s, x->s->x[i]);
    return k != UINT32_MAX ? flxi_typeof(x->s, x->s->y[k]) : NULL;
}

/* A buffer that only the derived kernel has: flat. */
static flx_type own_type(const derivation *x, const flxi_kneed *n)
{
    flx_dim count = (flx_dim)n->length.slots;
    if (n->length.per_invocation)
        count = flx_dim_mul(x->s->ctx, count, invocations(x));
    return flx_type_make((flx_dtype)n->element, 1, &count);
}

static bool begin(derivation *x, flx_kernel_derived *d, const flx_error *err)
{
    const flxi_allocator *mem = flxi_kernel_mem(x->m->k);
    flxi_strbuf_init(&x->inputs, mem);
    flxi_strbuf_init(&x->outputs, mem);
    flxi_strbuf_init(&x->scratch, mem);
    flxi_strbuf_init(&x->lengths, mem);
    x->d = d;
    if (!d) {
        flxi_site_fail(x->s, (flx_code)err->code, err->hint, "kernel '%.40s': %.120s%s%.40s", x->m->k->name,
                       err->message, err->where[0] ? " at " : "", err->where);
        return false;
    }
    x->operands = flxi_rule_new(x->s, flx_val, d->needs.n + 2); /* the counts may be one more operand */
    x->types = flxi_rule_new(x->s, flx_type, d->needs.n + 1);
    return x->operands && x->types;
}

static const char *text_of(const flxi_strbuf *b)
{
    return b->at ? b->at : "";
}

/* Appends the call; results in `out`, one per entry of types. */
static bool call(derivation *x, const flx_kernel *k, flx_val *out)
{
    flxi_site *s = x->s;
    flx_buffer text = {0};
    flx_error err = {0};
    flx_code code = flx_kernel_print(k, &text, &err);
    if (code == FLX_OK && (x->inputs.failed || x->outputs.failed || x->scratch.failed || x->lengths.failed))
        code = flxi_oom(&err, "the derivative of a kernel");
    if (code != FLX_OK) {
        flxi_site_fail(s, code, NULL, "%.120s", err.message);
        flx_buffer_free(&text);
        return false;
    }
    const flx_attr attrs[] = {
        {.key = "kernel", .kind = FLX_ATTR_STRING, .as.s = text.data},
        {.key = "inputs", .kind = FLX_ATTR_STRING, .as.s = text_of(&x->inputs)},
        {.key = "results", .kind = FLX_ATTR_STRING, .as.s = text_of(&x->outputs)},
        {.key = "outputs", .kind = FLX_ATTR_TYPES, .as.types = {x->types, x->num_results}},
        {.key = "grid", .kind = FLX_ATTR_INTS, .as.ints = x->a->grid},
        {.key = "max_trips", .kind = FLX_ATTR_INT, .as.i = x->a->max_trips},
        {.key = "scratch", .kind = FLX_ATTR_STRING, .as.s = text_of(&x->scratch)},
        {.key = "lengths", .kind = FLX_ATTR_STRING, .as.s = text_of(&x->lengths)},
    };
    size_t n = sizeof attrs / sizeof attrs[0];
    if (x->scratch.n)
        x->operands[x->num_operands++] = x->counts;
    flx_op(s->g, "kernel_call", x->operands, x->num_operands, attrs, n, out, x->num_results);
    flx_buffer_free(&text);
    return flx_graph_error(s->g, NULL) == FLX_OK;
}

static void end(derivation *x)
{
    flxi_strbuf_free(&x->inputs);
    flxi_strbuf_free(&x->outputs);
    flxi_strbuf_free(&x->scratch);
    flxi_strbuf_free(&x->lengths);
    flx_kernel_derived_free(x->d);
}

static size_t list_names(const flxi_kernel_binding *m, const uint32_t *buffers, size_t n,
                         bool (*is_asked)(const void *, uint32_t), const void *user, const char **names)
{
    size_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        if (is_asked(user, i))
            names[count++] = m->k->buffers[buffers[i]].name;
    return count;
}

static bool is_wanted(const void *user, uint32_t i)
{
    const flxi_site *s = user;
    return s->wanted[i];
}

static bool has_cotangent(const void *user, uint32_t k)
{
    return !flxi_is_none(((const flx_val *)user)[k]);
}

/* The size of the tapes is known only after the counting kernel has run, so no type can express it: the call allocates
   such buffers itself. */
static void add_scratch(derivation *x, const flxi_kneed *n)
{
    flxi_kernel_call_add_name(&x->scratch, n->name);
    flxi_addf(&x->lengths, "%s%llu", x->lengths.n ? ", " : "", (unsigned long long)n->length.slots);
    for (size_t i = 0; i < n->length.num_counters; i++)
        flxi_addf(&x->lengths, " * counts[%u]", n->length.counters[i] - 1);
    if (n->length.per_invocation)
        flxi_add_text(&x->lengths, " * invocations");
}

static bool is_counts(const flxi_kneed *n)
{
    return n->role == FLX_KERNEL_COUNTER && !(n->flags & FLX_KERNEL_NEED_ZERO);
}

static void add_own(derivation *x, const flxi_kneed *n)
{
    flx_type own = own_type(x, n);
    if (n->length.num_counters)
        add_scratch(x, n);
    else
        add_result(x, n, &own);
}

/* The role of each buffer of the reverse kernel: an operand, a result to keep, or a result that is discarded. */
static void bind_reverse(derivation *x, const flx_val *dy, size_t *gradient_of)
{
    flxi_site *s = x->s;
    for (size_t i = 0; i < x->d->needs.n; i++) {
        const flxi_kneed *n = &x->d->needs.at[i];
        uint32_t buffer = buffer_of(x, n), in = flxi_kernel_call_input(x->m, buffer),
                 out = flxi_kernel_call_output(x->m, buffer);
        switch ((flx_kernel_role)n->role) {
        case FLX_KERNEL_PRIMAL:
        case FLX_KERNEL_SCRATCH:
            if (in != UINT32_MAX)
                add_operand(x, n, s->x[in]);
            else
                add_result(x, n, flxi_typeof(s, s->y[out]));
            break;
        case FLX_KERNEL_COTANGENT:
            add_operand(x, n, dy[out]);
            if (in != UINT32_MAX && s->wanted[in]) {
                gradient_of[in] = x->num_results + 1;
                add_result(x, n, flxi_typeof(s, s->x[in]));
            }
            break;
        case FLX_KERNEL_GRADIENT:
            gradient_of[in] = x->num_results + 1;
            add_result(x, n, flxi_typeof(s, s->x[in]));
            break;
        case FLX_KERNEL_ADJOINT: add_result(x, n, shape_of(x, buffer)); break;
        case FLX_KERNEL_COUNTER:
            if (is_counts(n))
                add_operand(x, n, x->counts);
            else
                add_own(x, n);
            break;
        default: add_own(x, n);
        }
    }
}

/* Additions to gradients are not atomic along axes whose index the kernel does not use. */
static bool has_lone_axes(derivation *x)
{
    for (uint32_t a = 0; a < 3 && a < x->a->grid.n; a++) {
        flx_dim n = x->a->grid.v[a];
        if (!x->d->lone_axes[a] || (flx_dim_is_static(n) && n <= 1))
            continue;
        flxi_site_fail(x->s, FLX_E_KERNEL, "use invocation_id of that axis in the kernel, or a grid of 1 along it",
                       "the derivative of kernel '%.60s' needs one invocation along axis %u", x->m->k->name,
                       (unsigned)a);
        return false;
    }
    return true;
}

/* Runs the kernel that counts trips. Its buffers are those of the forward kernel and its one output, the counts. */
static bool count_trips(derivation *x)
{
    const flx_kernel *k = x->d->counting;
    derivation c = {.s = x->s, .a = x->a, .m = x->m};
    flxi_strbuf *lists[] = {&c.inputs, &c.outputs, &c.scratch, &c.lengths};
    for (size_t i = 0; i < 4; i++)
        flxi_strbuf_init(lists[i], flxi_kernel_mem(k));
    c.operands = flxi_rule_new(x->s, flx_val, k->num_buffers + 1);
    c.types = flxi_rule_new(x->s, flx_type, k->num_buffers + 1);
    flx_val *out = flxi_rule_new(x->s, flx_val, k->num_buffers + 1);
    size_t counts = 0;
    for (uint32_t i = 1; c.operands && c.types && out && i <= k->num_buffers; i++) {
        const flxi_kbuffer *b = &k->buffers[i];
        uint32_t forward = flxi_kernel_find_buffer(x->m->k, b->name);
        uint32_t in = flxi_kernel_call_input(x->m, forward);
        flx_dim count = (flx_dim)x->d->num_counters;
        if (!flxi_kbuffer_is_bound(b))
            continue;
        flxi_kneed n = {.name = b->name, .element = b->element};
        flx_type flat = flx_type_make(FLX_U32, 1, &count);
        bool is_count = !forward;
        if (is_count)
            counts = c.num_results;
        if (!is_count && in != UINT32_MAX)
            add_operand(&c, &n, x->s->x[in]);
        else
            add_result(&c, &n, is_count ? &flat : shape_of(x, forward));
    }
    bool is_done = out && call(&c, k, out);
    for (size_t i = 0; i < 4; i++)
        flxi_strbuf_free(lists[i]);
    x->counts = is_done ? out[counts] : FLX_NONE;
    return is_done;
}

static void reverse_call(derivation *x, const flx_val *dy, flx_val *dx)
{
    flxi_site *s = x->s;
    size_t *gradient_of = flxi_rule_new(s, size_t, s->nin + 1);
    flx_val *out = flxi_rule_new(s, flx_val, x->d->needs.n + 1);
    if (!gradient_of || !out || !has_lone_axes(x) || (x->d->counting && !count_trips(x)))
        return;
    bind_reverse(x, dy, gradient_of);
    if (!call(x, x->d->kernels.at[0], out))
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        if (gradient_of[i])
            dx[i] = in_dtype(s, out[gradient_of[i] - 1], flxi_typeof(s, s->x[i])->dtype);
}

/* The user's reverse kernel: its buffers have the names of those of an automatic one. */
typedef struct {
    flxi_site *s;
    const flxi_kernel_binding *m; /* of the forward kernel */
    flx_kernel *k;
    flxi_strbuf inputs, outputs;
    flx_val *operands, *out;
    flx_type *types;
    uint32_t *target; /* the operand that a result is the gradient of */
    size_t nin, nout;
} own_reverse;

static void add_own_operand(own_reverse *x, const char *name, flx_val v)
{
    flxi_kernel_call_add_name(&x->inputs, name);
    x->operands[x->nin++] = v;
}

/* A gradient is an output, or, where the forward buffer is both operand and result, read_write: it starts as the
   cotangent. */
static void bind_own(own_reverse *x, const flxi_kbuffer *b, const flx_val *dy)
{
    flxi_site *s = x->s;
    bool is_gradient = strncmp(b->name, "grad_", 5) == 0, is_output = (b->flags & FLX_KERNEL_OUTPUT) != 0;
    uint32_t forward = flxi_kernel_find_buffer(x->m->k, is_gradient ? b->name + 5 : b->name);
    uint32_t i = flxi_kernel_call_input(x->m, forward), o = flxi_kernel_call_output(x->m, forward);
    bool has_input = i != UINT32_MAX, has_output = o != UINT32_MAX;
    bool gives = is_gradient && has_input && (is_output || (has_output && b->access == FLX_KERNEL_READ_WRITE));
    bool takes = is_gradient && has_output && !is_output;
    if (gives) {
        flxi_kernel_call_add_name(&x->outputs, b->name);
        x->target[x->nout] = i;
        x->types[x->nout++] = *flxi_typeof(s, s->x[i]);
    }
    if (takes)
        add_own_operand(x, b->name, flxi_or_zeros(s, dy[o], s->y[o]));
    else if (!is_gradient && (has_input || has_output))
        add_own_operand(x, b->name, has_input ? s->x[i] : s->y[o]);
    else if (!gives)
        flxi_site_fail(s, FLX_E_NAME, "its buffers are the kernel's own, grad_<output> and output grad_<input>",
                       "backward: buffer '%.60s' matches no buffer of the kernel", b->name);
}

static void call_own(own_reverse *x, const flxi_kernel_call *a, flx_val *dx)
{
    flxi_site *s = x->s;
    if (x->inputs.failed || x->outputs.failed) {
        flxi_site_fail(s, FLX_E_OOM, NULL, "out of memory");
        return;
    }
    const flx_attr attrs[] = {
        {.key = "kernel", .kind = FLX_ATTR_STRING, .as.s = a->backward},
        {.key = "inputs", .kind = FLX_ATTR_STRING, .as.s = x->inputs.at ? x->inputs.at : ""},
        {.key = "results", .kind = FLX_ATTR_STRING, .as.s = x->outputs.at ? x->outputs.at : ""},
        {.key = "outputs", .kind = FLX_ATTR_TYPES, .as.types = {x->types, x->nout}},
        {.key = "grid", .kind = FLX_ATTR_INTS, .as.ints = a->grid},
        {.key = "max_trips", .kind = FLX_ATTR_INT, .as.i = a->max_trips},
    };
    flx_op(s->g, "kernel_call", x->operands, x->nin, attrs, sizeof attrs / sizeof attrs[0], x->out, x->nout);
    for (size_t i = 0; i < x->nout; i++)
        if (s->wanted[x->target[i]])
            dx[x->target[i]] = x->out[i];
}

static void own_backward(flxi_site *s, const flxi_kernel_call *a, const flxi_kernel_binding *m, const flx_val *dy,
                         flx_val *dx)
{
    flx_error err = {0};
    own_reverse x = {.s = s, .m = m};
    x.k = flx_kernel_parse(s->ctx, a->backward, strlen(a->backward), "backward", &err);
    if (!x.k) {
        flxi_site_fail(s, (flx_code)err.code, err.hint, "backward: %.160s", err.message);
        return;
    }
    flxi_strbuf_init(&x.inputs, flxi_kernel_mem(x.k));
    flxi_strbuf_init(&x.outputs, flxi_kernel_mem(x.k));
    x.operands = flxi_rule_new(s, flx_val, x.k->num_buffers + 1);
    x.out = flxi_rule_new(s, flx_val, x.k->num_buffers + 1);
    x.types = flxi_rule_new(s, flx_type, x.k->num_buffers + 1);
    x.target = flxi_rule_new(s, uint32_t, x.k->num_buffers + 1);
    bool has_room = x.operands && x.out && x.types && x.target;
    for (uint32_t b = 1; has_room && b <= x.k->num_buffers; b++)
        if (flxi_kbuffer_is_bound(&x.k->buffers[b]))
            bind_own(&x, &x.k->buffers[b], dy);
    if (has_room)
        call_own(&x, a, dx);
    flxi_strbuf_free(&x.inputs);
    flxi_strbuf_free(&x.outputs);
    flx_kernel_release(x.k);
}

/* The kernel with the element counts of the operands' types: a loop over a buffer of known length needs a tape of known
   length. */
static flx_kernel *with_counts(flxi_site *s, const flxi_kernel_binding *m, flx_error *err)
{
    flxi_kbuffer *buffers = flxi_rule_new(s, flxi_kbuffer, m->k->num_buffers + 1);
    flx_kernel view;
    if (!buffers) {
        flxi_oom(err, "the derivative of a kernel");
        return NULL;
    }
    memcpy(buffers, m->k->buffers, (m->k->num_buffers + 1) * sizeof *buffers);
    for (uint32_t i = 1; i <= m->k->num_buffers; i++) {
        uint32_t in = flxi_kernel_call_input(m, i), out = flxi_kernel_call_output(m, i);
        if (buffers[i].count || (in == UINT32_MAX && out == UINT32_MAX))
            continue;
        const flx_type *t = flxi_typeof(s, in != UINT32_MAX ? s->x[in] : s->y[out]);
        flx_dim count = 1;
        for (int32_t k = 0; k < t->rank; k++)
            count = flx_dim_mul(s->ctx, count, t->dims[k]);
        if (flx_dim_is_static(count) && count > 0 && count < UINT32_MAX)
            buffers[i].count = (uint64_t)count;
    }
    memcpy(&view, m->k, sizeof view);
    view.buffers = buffers;
    flxi_krewrite copy = {.from = &view};
    flx_kernel *k = flxi_krewrite_run(&copy, err);
    if (k && flxi_kernel_check(k, err) == FLX_OK)
        return k;
    flx_kernel_release(k);
    return NULL;
}

static void vjp_bound(flxi_site *s, const flxi_kernel_call *a, const flxi_kernel_binding *m, const flx_val *dy,
                      flx_val *dx)
{
    const char *outputs[FLXI_KERNEL_CALL_BUFFERS], *inputs[FLXI_KERNEL_CALL_BUFFERS];
    size_t num_outputs = list_names(m, m->outputs, m->num_outputs, has_cotangent, dy, outputs);
    size_t num_inputs = list_names(m, m->inputs, m->num_inputs, is_wanted, s, inputs);
    flx_kernel_grad_options options = {.struct_size = sizeof options, .max_trips = (uint32_t)a->max_trips};
    flx_error err = {0};
    derivation x = {.s = s, .a = a, .m = m};
    flx_kernel *sized = a->scratch[0] ? NULL : with_counts(s, m, &err);
    flx_kernel_derived *d =
        sized ? flx_kernel_grad(sized, outputs, num_outputs, inputs, num_inputs, &options, &err) : NULL;
    if (a->scratch[0])
        flxi_kernel_fail(&err, "not differentiable", "set max_trips of the call, the largest number of trips of a loop",
                         "tapes whose length is counted have no derivative of their own");
    if (begin(&x, d, &err))
        reverse_call(&x, dy, dx);
    end(&x);
    flx_kernel_release(sized);
}

void flxi_kernel_call_vjp(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const flxi_kernel_call *a = s->attrs;
    flxi_kernel_binding m;
    if (!flxi_kernel_call_bind_site(s, a, &m))
        return;
    if (a->backward[0])
        own_backward(s, a, &m, dy, dx);
    else
        vjp_bound(s, a, &m, dy, dx);
    flx_kernel_release(m.k);
}

/* ---- Forward mode ---- */

static void bind_forward(derivation *x, const flx_val *tx, size_t *tangent_of, size_t *result_of)
{
    flxi_site *s = x->s;
    for (size_t i = 0; i < x->d->needs.n; i++) {
        const flxi_kneed *n = &x->d->needs.at[i];
        uint32_t buffer = buffer_of(x, n), in = flxi_kernel_call_input(x->m, buffer),
                 out = flxi_kernel_call_output(x->m, buffer);
        bool is_tangent = n->role == FLX_KERNEL_TANGENT;
        const char *length = flxi_kernel_call_scratch(x->m, x->a, buffer);
        if (length) {
            flxi_kernel_call_add_name(&x->scratch, n->name);
            flxi_addf(&x->lengths, "%s%.*s", x->lengths.n ? ", " : "", (int)strcspn(length, ","), length);
            continue;
        }
        bool has_tangent = in != UINT32_MAX && !flxi_is_none(tx[in]);
        if (is_tangent && in != UINT32_MAX)
            add_operand(x, n, has_tangent ? tx[in] : flxi_zeros_like(s, s->x[in]));
        else if (!is_tangent && in != UINT32_MAX)
            add_operand(x, n, s->x[in]);
        if (out == UINT32_MAX)
            continue;
        (is_tangent ? tangent_of : result_of)[out] = x->num_results + 1;
        add_result(x, n, flxi_typeof(s, s->y[out]));
    }
}

static void forward_call(derivation *x, const flx_val *tx, flx_val *ty)
{
    flxi_site *s = x->s;
    size_t *tangent_of = flxi_rule_new(s, size_t, s->nout + 1);
    size_t *result_of = flxi_rule_new(s, size_t, s->nout + 1);
    flx_val *out = flxi_rule_new(s, flx_val, x->d->needs.n + 1);
    if (!tangent_of || !result_of || !out)
        return;
    x->counts = x->a->scratch[0] ? s->x[x->m->num_inputs] : FLX_NONE;
    bind_forward(x, tx, tangent_of, result_of);
    if (!call(x, x->d->kernels.at[0], out))
        return;
    for (uint32_t k = 0; k < s->nout; k++)
        if (tangent_of[k])
            ty[k] = in_dtype(s, out[tangent_of[k] - 1], flxi_typeof(s, s->y[k])->dtype);
}

static bool is_float_result(const void *user, uint32_t k)
{
    const flxi_kernel_binding *m = user;
    return flxi_ktype_is_float(m->k->buffers[m->outputs[k]].element);
}

void flxi_kernel_call_jvp(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const flxi_kernel_call *a = s->attrs;
    flxi_kernel_binding m;
    flx_error err = {0};
    if (!flxi_kernel_call_bind_site(s, a, &m))
        return;
    const char *outputs[FLXI_KERNEL_CALL_BUFFERS], *inputs[FLXI_KERNEL_CALL_BUFFERS];
    size_t num_outputs = list_names(&m, m.outputs, m.num_outputs, is_float_result, &m, outputs);
    size_t num_inputs = list_names(&m, m.inputs, m.num_inputs, has_cotangent, tx, inputs);
    if (num_outputs == 0 || num_inputs == 0) { /* all results are integers: their tangents are zero */
        flx_kernel_release(m.k);
        return;
    }
    derivation x = {.s = s, .a = a, .m = &m};
    if (begin(&x, flx_kernel_jvp(m.k, outputs, num_outputs, inputs, num_inputs, NULL, &err), &err))
        forward_call(&x, tx, ty);
    end(&x);
    flx_kernel_release(m.k);
}
