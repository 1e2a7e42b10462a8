/* custom_kernel.c: kernel_call: a kernel as an op of a graph.

   The program is kernel text in an attribute. `inputs` and `outputs` name the buffers that operands and results are, in
   order; without them operands are the bound buffers that are no outputs and results the outputs, as declared. A buffer in
   both lists starts with its operand's elements and is returned. Derivatives come from the kernel's own transforms: the
   derived kernel is again a kernel_call, its tapes and scratch buffers being results that nobody uses. */
#include "kernel/kernel_derived.h"

#include "ir/eval.h"
#include "ir/infer.h"
#include "ir/site.h"

#include <stdio.h>

typedef struct {
    const char *program;
    const char *inputs, *outputs; /* names separated by commas; "": as declared */
    flx_types types;              /* of the results; absent: flat, by the counts of the buffers */
    flx_ints grid;
    const char *backward; /* the user's own reverse kernel, or "" */
    int64_t max_trips;
} kernel_call_attrs;

static const flxi_attr kernel_call_schema[] = {
    {.name = "program",
     .kind = ATTR_STRING,
     .offset = offsetof(kernel_call_attrs, program),
     .flags = ATTR_REQUIRED | ATTR_KERNEL},
    A_STRING(kernel_call_attrs, inputs),
    A_STRING(kernel_call_attrs, outputs),
    A_LIST(kernel_call_attrs, types, ATTR_TYPES, "by the counts of the outputs"),
    A_DIMS(kernel_call_attrs, grid, "[1, 1, 1]"),
    {.name = "backward", .kind = ATTR_STRING, .offset = offsetof(kernel_call_attrs, backward), .flags = ATTR_KERNEL},
    A_INT(kernel_call_attrs, max_trips, 0),
    A_END,
};

/* ---- Which buffer is what ---- */

enum { MAX_BUFFERS = 256 };

typedef struct {
    flx_kernel *k;
    uint32_t inputs[MAX_BUFFERS], outputs[MAX_BUFFERS]; /* numbers of buffers */
    size_t num_inputs, num_outputs;
} binding;

static bool is_bound(const flxi_kbuffer *b)
{
    return b->access != FLX_KERNEL_WORKGROUP && b->access != FLX_KERNEL_PRIVATE;
}

/* The bound buffer of that name, or 0. */
static uint32_t find_bound(const flx_kernel *k, const char *name, size_t length)
{
    for (uint32_t b = 1; b <= k->num_buffers; b++)
        if (is_bound(&k->buffers[b]) && strlen(k->buffers[b].name) == length &&
            memcmp(k->buffers[b].name, name, length) == 0)
            return b;
    return 0;
}

/* Reads "a, b". */
static flx_code read_names(const flx_kernel *k, const char *text, uint32_t *list, size_t *n, flx_error *err)
{
    *n = 0;
    for (const char *s = text; *s;) {
        s += strspn(s, ", ");
        size_t length = strcspn(s, ",");
        while (length && s[length - 1] == ' ')
            length--;
        if (length == 0)
            break;
        char shown[80];
        flxi_printable(shown, sizeof shown, s, length);
        uint32_t b = find_bound(k, s, length);
        if (!b)
            return flxi_fail_hint(err, FLX_E_NAME, "inputs and outputs name bound buffers of the kernel",
                                  "the kernel has no bound buffer '%s'", shown);
        for (size_t i = 0; i < *n; i++)
            if (list[i] == b)
                return flxi_fail(err, FLX_E_NAME, "buffer '%s' is named twice", shown);
        if (*n == MAX_BUFFERS)
            return flxi_fail(err, FLX_E_SIZE, "a kernel in a graph has at most %d inputs and as many outputs",
                             MAX_BUFFERS);
        list[(*n)++] = b;
        s += length;
    }
    return FLX_OK;
}

static void declared_names(const flx_kernel *k, bool outputs, uint32_t *list, size_t *n)
{
    *n = 0;
    for (uint32_t b = 1; b <= k->num_buffers && *n < MAX_BUFFERS; b++) {
        bool is_output = (k->buffers[b].flags & FLX_KERNEL_OUTPUT) != 0;
        if (is_bound(&k->buffers[b]) && is_output == outputs)
            list[(*n)++] = b;
    }
}

static flx_code bind(flx_context *ctx, const kernel_call_attrs *a, binding *m, flx_error *err)
{
    *m = (binding){.k = flx_kernel_parse(ctx, a->program, strlen(a->program), "program", err)};
    if (!m->k)
        return err ? (flx_code)err->code : FLX_E_KERNEL;
    declared_names(m->k, false, m->inputs, &m->num_inputs);
    declared_names(m->k, true, m->outputs, &m->num_outputs);
    flx_code code = FLX_OK;
    if (a->inputs[0])
        code = read_names(m->k, a->inputs, m->inputs, &m->num_inputs, err);
    if (code == FLX_OK && a->outputs[0])
        code = read_names(m->k, a->outputs, m->outputs, &m->num_outputs, err);
    if (code == FLX_OK)
        return FLX_OK;
    flx_kernel_free(m->k);
    m->k = NULL;
    return code;
}

/* ---- Types ---- */

static bool element_fits(const flxi_kbuffer *b, int32_t dtype)
{
    return (int32_t)b->element == dtype;
}

static flx_code check_count(flxi_infer *f, const flxi_kbuffer *b, const flx_type *t)
{
    flx_dim count = 1;
    for (int32_t i = 0; i < t->rank; i++)
        count = flx_dim_mul(f->ctx, count, t->dims[i]);
    flxi_type_text text;
    if (!element_fits(b, t->dtype))
        return flxi_infer_fail(f, FLX_E_DTYPE, "cast it, or change the kernel", "buffer '%.60s' holds %s, not %s",
                               b->name, flxi_ktype_of(b->element)->name, flx_dtype_name(t->dtype));
    if (b->count && flx_dim_is_static(count) && (uint64_t)count != b->count)
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "buffer '%.60s' has %llu elements, %s has %lld", b->name,
                               (unsigned long long)b->count, flxi_type_str(f->ctx, t, &text), (long long)count);
    return FLX_OK;
}

static flx_code infer_results(flxi_infer *f, const binding *m, const kernel_call_attrs *a)
{
    FLXI_TRY(flxi_results(f, m->num_outputs));
    if (a->types.n && a->types.n != m->num_outputs)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "the kernel has %zu output%s, types lists %zu", m->num_outputs,
                               m->num_outputs == 1 ? "" : "s", a->types.n);
    for (size_t i = 0; i < m->num_outputs; i++) {
        const flxi_kbuffer *b = &m->k->buffers[m->outputs[i]];
        if (a->types.n) {
            f->out[i] = a->types.v[i];
        } else if (b->count && flx_dtype_size((int32_t)b->element)) {
            flx_dim count = (flx_dim)b->count;
            f->out[i] = flx_type_make((flx_dtype)b->element, 1, &count);
        } else {
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "as in types=[f32[N, 3]]",
                                   "types must say how large output '%.60s' is", b->name);
        }
        FLXI_TRY(check_count(f, b, &f->out[i]));
    }
    return FLX_OK;
}

static flx_code infer_bound(flxi_infer *f, const binding *m, kernel_call_attrs *a)
{
    if (f->nin != m->num_inputs)
        return flxi_infer_fail(f, FLX_E_ARITY, "operands are the kernel's inputs, in order",
                               "the kernel has %zu input%s, given %u", m->num_inputs, m->num_inputs == 1 ? "" : "s",
                               f->nin);
    for (uint32_t i = 0; i < f->nin; i++)
        FLXI_TRY(check_count(f, &m->k->buffers[m->inputs[i]], f->in[i]));
    size_t covered = m->num_outputs;
    for (uint32_t b = 1; b <= m->k->num_buffers; b++) {
        bool is_named = !is_bound(&m->k->buffers[b]);
        for (size_t i = 0; i < m->num_inputs; i++)
            is_named |= m->inputs[i] == b;
        for (size_t i = 0; i < covered; i++)
            is_named |= m->outputs[i] == b;
        if (!is_named)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "name it in inputs or outputs",
                                   "buffer '%.60s' is neither an input nor an output", m->k->buffers[b].name);
    }
    if (a->grid.n > 3)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "grid has %zu extents, at most 3 are possible", a->grid.n);
    if (a->max_trips < 0 || a->max_trips > UINT32_MAX)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "max_trips=%lld is out of range", (long long)a->max_trips);
    return infer_results(f, m, a);
}

static flx_code fail_as(flxi_infer *f, const flx_error *err)
{
    return flxi_infer_fail(f, (flx_code)err->code, err->hint[0] ? err->hint : NULL, "%.160s%s%.60s", err->message,
                           err->where[0] ? " at " : "", err->where);
}

static flx_code infer_kernel_call(flxi_infer *f)
{
    kernel_call_attrs *a = f->attrs;
    binding m;
    flx_error err = {0};
    if (bind(f->ctx, a, &m, &err) != FLX_OK)
        return fail_as(f, &err);
    flx_code code = infer_bound(f, &m, a);
    flx_kernel_free(m.k);
    if (code != FLX_OK || !a->backward[0])
        return code;
    flx_kernel *backward = flx_kernel_parse(f->ctx, a->backward, strlen(a->backward), "backward", &err);
    flx_kernel_free(backward);
    return backward ? FLX_OK : fail_as(f, &err);
}

/* ---- Running ---- */

/* In a kernel's buffer a bool takes a word. */
static size_t memory_size(const flx_tensor *t)
{
    return flx_tensor_type(t)->dtype == FLX_BOOL ? (size_t)flx_tensor_count(t) * 4 : flx_tensor_size(t);
}

static void to_memory(const flx_tensor *t, void *data)
{
    if (flx_tensor_type(t)->dtype != FLX_BOOL) {
        memcpy(data, flx_tensor_bytes(t), flx_tensor_size(t));
        return;
    }
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        ((uint32_t *)data)[i] = ((const uint8_t *)flx_tensor_bytes(t))[i];
}

static void from_memory(flx_tensor *t, const void *data)
{
    if (flx_tensor_type(t)->dtype != FLX_BOOL) {
        memcpy(flx_tensor_data(t), data, flx_tensor_size(t));
        return;
    }
    for (int64_t i = 0; i < flx_tensor_count(t); i++)
        ((uint8_t *)flx_tensor_data(t))[i] = ((const uint32_t *)data)[i] != 0;
}

static flx_code run_bound(flxi_eval *e, const binding *m, const kernel_call_attrs *a, flxi_arena *arena)
{
    flx_kernel_memory *memory = flxi_new(arena, flx_kernel_memory, m->num_inputs + m->num_outputs + 1);
    size_t n = 0;
    if (!memory)
        return flxi_oom(e->err, "the buffers of a kernel");
    for (size_t i = 0; i < m->num_inputs + m->num_outputs; i++) {
        bool is_input = i < m->num_inputs;
        const flx_tensor *t = is_input ? e->in[i] : e->out[i - m->num_inputs];
        const char *name = m->k->buffers[is_input ? m->inputs[i] : m->outputs[i - m->num_inputs]].name;
        bool is_known = false;
        for (size_t j = 0; j < n; j++)
            is_known |= strcmp(memory[j].buffer, name) == 0;
        if (is_known)
            continue;
        memory[n] = (flx_kernel_memory){name, flxi_arena_alloc(arena, memory_size(t) + 1, 1, 16), memory_size(t)};
        if (!memory[n].data)
            return flxi_oom(e->err, "the buffers of a kernel");
        if (is_input)
            to_memory(t, memory[n].data);
        n++;
    }
    uint32_t grid[3] = {1, 1, 1};
    for (size_t i = 0; i < a->grid.n; i++) {
        if (a->grid.v[i] < 0 || a->grid.v[i] > UINT32_MAX)
            return flxi_eval_fail(e, FLX_E_SIZE, NULL, "a grid of %lld workgroups is not possible",
                                  (long long)a->grid.v[i]);
        grid[i] = (uint32_t)a->grid.v[i];
    }
    flx_error err = {0};
    if (flx_kernel_run(m->k, grid, memory, n, NULL, &err) != FLX_OK)
        return flxi_eval_fail(e, (flx_code)err.code, err.hint[0] ? err.hint : NULL, "%.200s", err.message);
    for (size_t i = 0; i < m->num_outputs; i++)
        for (size_t j = 0; j < n; j++)
            if (strcmp(memory[j].buffer, m->k->buffers[m->outputs[i]].name) == 0)
                from_memory(e->out[i], memory[j].data);
    return FLX_OK;
}

static flx_code eval_kernel_call(flxi_eval *e)
{
    const kernel_call_attrs *a = e->attrs;
    binding m;
    if (e->nin + e->nout == 0)
        return FLX_OK;
    FLXI_TRY(bind((e->nin ? e->in[0] : e->out[0])->ctx, a, &m, e->err));
    flxi_arena arena;
    flxi_arena_init(&arena, e->mem);
    flx_code code = run_bound(e, &m, a, &arena);
    flxi_arena_free(&arena);
    flx_kernel_free(m.k);
    return code;
}

/* ---- Derivatives ---- */

typedef struct {
    flxi_site *s;
    const kernel_call_attrs *a;
    const binding *m;
    flx_kernel_derived *d;
    flxi_strbuf inputs, outputs; /* names for the derived call */
    flx_val *operands;
    flx_type *types;
    size_t num_operands, num_results;
} derivation;

static void add_name(flxi_strbuf *names, const char *name)
{
    if (names->n)
        flxi_add_text(names, ",");
    flxi_add_text(names, name);
}

/* The operand or result that a forward buffer is; UINT32_MAX when it is none. */
static uint32_t input_of(const binding *m, uint32_t buffer)
{
    for (uint32_t i = 0; i < m->num_inputs; i++)
        if (m->inputs[i] == buffer)
            return i;
    return UINT32_MAX;
}

static uint32_t output_of(const binding *m, uint32_t buffer)
{
    for (uint32_t i = 0; i < m->num_outputs; i++)
        if (m->outputs[i] == buffer)
            return i;
    return UINT32_MAX;
}

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
    add_name(&x->inputs, n->name);
    x->operands[x->num_operands++] = in_dtype(x->s, v, n->element);
}

static void add_result(derivation *x, const flxi_kneed *n, const flx_type *like)
{
    add_name(&x->outputs, n->name);
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
    uint32_t i = input_of(x->m, buffer), k = output_of(x->m, buffer);
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
    x->d = d;
    if (!d) {
        flxi_site_fail(x->s, (flx_code)err->code, err->hint, "kernel '%.40s': %.120s%s%.40s", x->m->k->name,
                       err->message, err->where[0] ? " at " : "", err->where);
        return false;
    }
    if (d->counting) {
        flxi_site_fail(x->s, FLX_E_NO_RULE, "say max_trips=N, the most trips a loop makes",
                       "the tape of kernel '%.60s' depends on data", x->m->k->name);
        return false;
    }
    x->operands = flxi_rule_new(x->s, flx_val, d->needs.n + 1);
    x->types = flxi_rule_new(x->s, flx_type, d->needs.n + 1);
    return x->operands && x->types;
}

/* Emits the call; results in `out`, one per entry of types. */
static bool call(derivation *x, flx_val *out)
{
    flxi_site *s = x->s;
    flx_buffer text = {0};
    flx_error err = {0};
    flx_code code = flx_kernel_print(x->d->kernels.at[0], &text, &err);
    if (code == FLX_OK && (x->inputs.failed || x->outputs.failed))
        code = flxi_oom(&err, "the derivative of a kernel");
    if (code != FLX_OK) {
        flxi_site_fail(s, code, NULL, "%.120s", err.message);
        flx_buffer_free(&text);
        return false;
    }
    const flx_attr attrs[] = {
        {.key = "program", .kind = FLX_ATTR_STRING, .as.s = text.data},
        {.key = "inputs", .kind = FLX_ATTR_STRING, .as.s = x->inputs.at ? x->inputs.at : ""},
        {.key = "outputs", .kind = FLX_ATTR_STRING, .as.s = x->outputs.at ? x->outputs.at : ""},
        {.key = "types", .kind = FLX_ATTR_TYPES, .as.types = {x->types, x->num_results}},
        {.key = "grid", .kind = FLX_ATTR_INTS, .as.ints = x->a->grid},
        {.key = "max_trips", .kind = FLX_ATTR_INT, .as.i = x->a->max_trips},
    };
    size_t n = sizeof attrs / sizeof attrs[0];
    flx_op(s->g, "kernel_call", x->operands, x->num_operands, attrs, n, out, x->num_results);
    flx_buffer_free(&text);
    return flx_graph_error(s->g, NULL) == FLX_OK;
}

static void end(derivation *x)
{
    flxi_strbuf_free(&x->inputs);
    flxi_strbuf_free(&x->outputs);
    flx_kernel_derived_free(x->d);
}

static size_t list_names(const binding *m, const uint32_t *buffers, size_t n, bool (*is_asked)(const void *, uint32_t),
                         const void *user, const char **names)
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

/* What each buffer of the reverse is: an operand, a result to keep, or a result that is thrown away. */
static void bind_reverse(derivation *x, const flx_val *dy, size_t *gradient_of)
{
    flxi_site *s = x->s;
    for (size_t i = 0; i < x->d->needs.n; i++) {
        const flxi_kneed *n = &x->d->needs.at[i];
        uint32_t buffer = buffer_of(x, n), in = input_of(x->m, buffer), out = output_of(x->m, buffer);
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
        default: {
            flx_type own = own_type(x, n);
            add_result(x, n, &own);
        }
        }
    }
}

static void reverse_call(derivation *x, const flx_val *dy, flx_val *dx)
{
    flxi_site *s = x->s;
    size_t *gradient_of = flxi_rule_new(s, size_t, s->nin + 1);
    flx_val *out = flxi_rule_new(s, flx_val, x->d->needs.n + 1);
    if (!gradient_of || !out)
        return;
    bind_reverse(x, dy, gradient_of);
    if (!call(x, out))
        return;
    for (uint32_t i = 0; i < s->nin; i++)
        if (gradient_of[i])
            dx[i] = in_dtype(s, out[gradient_of[i] - 1], flxi_typeof(s, s->x[i])->dtype);
}

/* The user's reverse kernel: its buffers are called like those of an automatic one. */
typedef struct {
    flxi_site *s;
    const binding *m; /* of the forward kernel */
    flx_kernel *k;
    flxi_strbuf inputs, outputs;
    flx_val *operands, *out;
    flx_type *types;
    uint32_t *target; /* the operand that a result is the gradient of */
    size_t nin, nout;
} own_reverse;

static void add_own_operand(own_reverse *x, const char *name, flx_val v)
{
    add_name(&x->inputs, name);
    x->operands[x->nin++] = v;
}

/* A gradient is an output, or where the forward buffer is operand and result in one, read_write: it starts as the
   cotangent. */
static void bind_own(own_reverse *x, const flxi_kbuffer *b, const flx_val *dy)
{
    flxi_site *s = x->s;
    bool is_gradient = strncmp(b->name, "grad_", 5) == 0, is_output = (b->flags & FLX_KERNEL_OUTPUT) != 0;
    uint32_t forward = flxi_kernel_find_buffer(x->m->k, is_gradient ? b->name + 5 : b->name);
    uint32_t i = input_of(x->m, forward), o = output_of(x->m, forward);
    bool has_input = i != UINT32_MAX, has_output = o != UINT32_MAX;
    bool gives = is_gradient && has_input && (is_output || (has_output && b->access == FLX_KERNEL_READ_WRITE));
    bool takes = is_gradient && has_output && !is_output;
    if (gives) {
        add_name(&x->outputs, b->name);
        x->target[x->nout] = i;
        x->types[x->nout++] = *flxi_typeof(s, s->x[i]);
    }
    if (takes)
        add_own_operand(x, b->name, flxi_or_zeros(s, dy[o], s->y[o]));
    else if (!is_gradient && (has_input || has_output))
        add_own_operand(x, b->name, has_input ? s->x[i] : s->y[o]);
    else if (!gives)
        flxi_site_fail(s, FLX_E_NAME, "its buffers are the kernel's own, grad_<output> and output grad_<input>",
                       "backward: buffer '%.60s' belongs to nothing", b->name);
}

static void call_own(own_reverse *x, const kernel_call_attrs *a, flx_val *dx)
{
    flxi_site *s = x->s;
    if (x->inputs.failed || x->outputs.failed) {
        flxi_site_fail(s, FLX_E_OOM, NULL, "out of memory");
        return;
    }
    const flx_attr attrs[] = {
        {.key = "program", .kind = FLX_ATTR_STRING, .as.s = a->backward},
        {.key = "inputs", .kind = FLX_ATTR_STRING, .as.s = x->inputs.at ? x->inputs.at : ""},
        {.key = "outputs", .kind = FLX_ATTR_STRING, .as.s = x->outputs.at ? x->outputs.at : ""},
        {.key = "types", .kind = FLX_ATTR_TYPES, .as.types = {x->types, x->nout}},
        {.key = "grid", .kind = FLX_ATTR_INTS, .as.ints = a->grid},
        {.key = "max_trips", .kind = FLX_ATTR_INT, .as.i = a->max_trips},
    };
    flx_op(s->g, "kernel_call", x->operands, x->nin, attrs, sizeof attrs / sizeof attrs[0], x->out, x->nout);
    for (size_t i = 0; i < x->nout; i++)
        if (s->wanted[x->target[i]])
            dx[x->target[i]] = x->out[i];
}

static void own_backward(flxi_site *s, const kernel_call_attrs *a, const binding *m, const flx_val *dy, flx_val *dx)
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
        if (is_bound(&x.k->buffers[b]))
            bind_own(&x, &x.k->buffers[b], dy);
    if (has_room)
        call_own(&x, a, dx);
    flxi_strbuf_free(&x.inputs);
    flxi_strbuf_free(&x.outputs);
    flx_kernel_free(x.k);
}

static void vjp_bound(flxi_site *s, const kernel_call_attrs *a, const binding *m, const flx_val *dy, flx_val *dx)
{
    const char *outputs[MAX_BUFFERS], *inputs[MAX_BUFFERS];
    size_t num_outputs = list_names(m, m->outputs, m->num_outputs, has_cotangent, dy, outputs);
    size_t num_inputs = list_names(m, m->inputs, m->num_inputs, is_wanted, s, inputs);
    flx_kernel_grad_options options = {.struct_size = sizeof options, .max_trips = (uint32_t)a->max_trips};
    flx_error err = {0};
    derivation x = {.s = s, .a = a, .m = m};
    if (begin(&x, flx_kernel_grad(m->k, outputs, num_outputs, inputs, num_inputs, &options, &err), &err))
        reverse_call(&x, dy, dx);
    end(&x);
}

static void vjp_kernel_call(flxi_site *s, const flx_val *dy, flx_val *dx)
{
    const kernel_call_attrs *a = s->attrs;
    binding m;
    flx_error err = {0};
    if (bind(s->ctx, a, &m, &err) != FLX_OK) {
        flxi_site_fail(s, (flx_code)err.code, err.hint, "%.160s", err.message);
        return;
    }
    if (a->backward[0])
        own_backward(s, a, &m, dy, dx);
    else
        vjp_bound(s, a, &m, dy, dx);
    flx_kernel_free(m.k);
}

/* ---- Forward mode ---- */

static void bind_forward(derivation *x, const flx_val *tx, size_t *tangent_of, size_t *result_of)
{
    flxi_site *s = x->s;
    for (size_t i = 0; i < x->d->needs.n; i++) {
        const flxi_kneed *n = &x->d->needs.at[i];
        uint32_t buffer = buffer_of(x, n), in = input_of(x->m, buffer), out = output_of(x->m, buffer);
        bool is_tangent = n->role == FLX_KERNEL_TANGENT;
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
    bind_forward(x, tx, tangent_of, result_of);
    if (!call(x, out))
        return;
    for (uint32_t k = 0; k < s->nout; k++)
        if (tangent_of[k])
            ty[k] = in_dtype(s, out[tangent_of[k] - 1], flxi_typeof(s, s->y[k])->dtype);
}

static bool is_float_result(const void *user, uint32_t k)
{
    const binding *m = user;
    return flxi_ktype_is_float(m->k->buffers[m->outputs[k]].element);
}

static void jvp_kernel_call(flxi_site *s, const flx_val *tx, flx_val *ty)
{
    const kernel_call_attrs *a = s->attrs;
    binding m;
    flx_error err = {0};
    if (bind(s->ctx, a, &m, &err) != FLX_OK) {
        flxi_site_fail(s, (flx_code)err.code, err.hint, "%.160s", err.message);
        return;
    }
    const char *outputs[MAX_BUFFERS], *inputs[MAX_BUFFERS];
    size_t num_outputs = list_names(&m, m.outputs, m.num_outputs, is_float_result, &m, outputs);
    size_t num_inputs = list_names(&m, m.inputs, m.num_inputs, has_cotangent, tx, inputs);
    derivation x = {.s = s, .a = a, .m = &m};
    if (begin(&x, flx_kernel_jvp(m.k, outputs, num_outputs, inputs, num_inputs, NULL, &err), &err))
        forward_call(&x, tx, ty);
    end(&x);
    flx_kernel_free(m.k);
}

#define SQUARES                                                                                  \
    "program=\"kernel k(workgroup = [2, 1, 1]) { buffer x: f64[4] read; buffer w: f64[4] read; " \
    "buffer out: f64[4] output; let i = invocation_id(0); out[i] = x[i] * x[i] * sin(w[3 - i]); }\", grid=[2]"
#define PRODUCT                                                                                \
    "program=\"kernel k() { buffer x: f64[] read; buffer out: f64[1] output; let p = 1.0f64; " \
    "for (j in 0..buf_len(x)) { p = p * x[j]; } out[0] = p; }\", types=[f64[1]], max_trips=8"

#define PRODUCTS                                                                                       \
    "program=\"kernel k() { buffer x: f32[3] read; buffer w: f32[3] read; buffer out: f32[3] output; " \
    "let i = invocation_id(0); out[i] = x[i] * w[i]; }\", grid=[3]"

static const flxi_sample kernel_call_samples[] = {
    {"f32[3], f32[3]", PRODUCTS, NULL, FLX_OK},           {"f64[4], f64[2, 2]", SQUARES, NULL, FLX_OK},
    {"f64[5]{0.5..1.5}", PRODUCT, NULL, FLX_OK},          {"f64[4]", SQUARES, NULL, FLX_E_ARITY},
    {"f64[4], f64[3]", SQUARES, NULL, FLX_E_SHAPE},       {"f64[4], f32[4]", SQUARES, NULL, FLX_E_DTYPE},
    {"f64[4]", "program=\"kernel\"", NULL, FLX_E_SYNTAX}, {0},
};

const flxi_rules flxi_rules_kernel_call = {
    .infer = infer_kernel_call,
    .eval = eval_kernel_call,
    .schema = kernel_call_schema,
    .attrs_size = sizeof(kernel_call_attrs),
    .vjp = vjp_kernel_call,
    .jvp = jvp_kernel_call,
    .samples = kernel_call_samples,
};
