/* SPDX-License-Identifier: Apache-2.0 */
/* custom_kernel.c: kernel_call: a kernel as an op of a graph.

   The kernel is text in an attribute, `kernel`. `inputs` and `results` name the buffers of the operands and results, in
   order; without them operands are the buffers to read, read_write and uniform, and results the outputs, as declared. A
   buffer in both lists starts with its operand's elements and is returned. Its transforms: custom_kernel_rules.c and
   custom_kernel_batch.c. */
#include "ops/custom/custom_kernel.h"

#include "base/host/stop.h"
#include "base/number.h"
#include "graph/op/eval.h"
#include "graph/op/infer.h"
#include "graph/op/work.h"
#include "ops/rule/link.h"

#include <stdio.h>

static const flxi_attr kernel_call_schema[] = {
    {.name = "kernel",
     .kind = ATTR_STRING,
     .offset = offsetof(flxi_kernel_call, kernel),
     .flags = ATTR_REQUIRED | ATTR_KERNEL},
    A_STRING(flxi_kernel_call, inputs),
    A_STRING(flxi_kernel_call, results),
    A_LIST(flxi_kernel_call, outputs, ATTR_TYPES, "from the counts of the results"),
    {.name = "grid",
     .kind = ATTR_DIMS,
     .offset = offsetof(flxi_kernel_call, grid),
     .flags = ATTR_REQUIRED,
     .note = "the number of workgroups along each axis; grid=[16] runs 1024 invocations in workgroups of 64"},
    {.name = "backward", .kind = ATTR_STRING, .offset = offsetof(flxi_kernel_call, backward), .flags = ATTR_KERNEL},
    A_INT(flxi_kernel_call, max_trips, 0),
    A_STRING(flxi_kernel_call, scratch),
    A_STRING(flxi_kernel_call, lengths),
    A_END,
};

/* ---- Which buffer is what ---- */

/* The bound buffer of that name, or 0. */
static uint32_t find_bound(const flx_kernel *k, const char *name, size_t length)
{
    for (uint32_t b = 1; b <= k->num_buffers; b++)
        if (flxi_kbuffer_is_bound(&k->buffers[b]) && strlen(k->buffers[b].name) == length &&
            memcmp(k->buffers[b].name, name, length) == 0)
            return b;
    return 0;
}

/* One name of a list: the text up to the comma, or a string in quotes, where \ escapes the next character. Returns what
   follows. */
static const char *read_name(const char *s, char *name, size_t room, size_t *n)
{
    *n = 0;
    bool is_quoted = *s == '"';
    for (s += is_quoted; *s && *s != (is_quoted ? '"' : ','); s++) {
        s += is_quoted && *s == '\\' && s[1];
        if (*n < room)
            name[*n] = *s;
        ++*n;
    }
    s += is_quoted && *s == '"';
    while (!is_quoted && *n && *n <= room && name[*n - 1] == ' ')
        --*n;
    return s;
}

void flxi_kernel_call_add_name(flxi_strbuf *names, const char *name)
{
    if (names->n)
        flxi_add_text(names, ",");
    size_t n = strlen(name);
    if (n && !strpbrk(name, ",\"\\") && name[0] != ' ' && name[n - 1] != ' ') {
        flxi_add_text(names, name);
        return;
    }
    flxi_add_char(names, '"');
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            flxi_add_char(names, '\\');
        flxi_add_char(names, *name);
    }
    flxi_add_char(names, '"');
}

/* Reads "a, b". */
static flx_code read_names(const flx_kernel *k, const char *text, uint32_t *list, size_t *n, flx_error *err)
{
    char name[1024], shown[80];
    *n = 0;
    for (const char *s = text; *s;) {
        size_t length;
        s += strspn(s, ", ");
        s = read_name(s, name, sizeof name, &length);
        if (length == 0)
            continue;
        flxi_printable(shown, sizeof shown, name, length < sizeof name ? length : sizeof name);
        uint32_t b = length <= sizeof name ? find_bound(k, name, length) : 0;
        if (!b)
            return flxi_fail_hint(err, FLX_E_NAME, "inputs and results name bound buffers of the kernel",
                                  "the kernel has no bound buffer '%s'", shown);
        for (size_t i = 0; i < *n; i++)
            if (list[i] == b)
                return flxi_fail(err, FLX_E_NAME, "buffer '%s' is named twice", shown);
        if (*n == FLXI_KERNEL_CALL_BUFFERS)
            return flxi_fail(err, FLX_E_SIZE, "a kernel in a graph has at most %d inputs and as many outputs",
                             FLXI_KERNEL_CALL_BUFFERS);
        list[(*n)++] = b;
    }
    return FLX_OK;
}

static void declared_names(const flx_kernel *k, bool outputs, uint32_t *list, size_t *n)
{
    *n = 0;
    for (uint32_t b = 1; b <= k->num_buffers && *n < FLXI_KERNEL_CALL_BUFFERS; b++) {
        bool is_output = (k->buffers[b].flags & FLX_KERNEL_OUTPUT) != 0;
        bool is_unread = k->buffers[b].access == FLX_KERNEL_WRITE && !is_output;
        if (flxi_kbuffer_is_bound(&k->buffers[b]) && is_output == outputs && !is_unread)
            list[(*n)++] = b;
    }
}

flx_code flxi_kernel_call_bind(flx_context *ctx, const flxi_kernel_call *a, flxi_kernel_binding *m, flx_error *err)
{
    *m = (flxi_kernel_binding){.k = flx_kernel_parse(ctx, a->kernel, strlen(a->kernel), "kernel", err)};
    if (!m->k)
        return err ? (flx_code)err->code : FLX_E_KERNEL;
    declared_names(m->k, false, m->inputs, &m->num_inputs);
    declared_names(m->k, true, m->outputs, &m->num_outputs);
    flx_code code = FLX_OK;
    if (a->inputs[0])
        code = read_names(m->k, a->inputs, m->inputs, &m->num_inputs, err);
    if (code == FLX_OK && a->results[0])
        code = read_names(m->k, a->results, m->outputs, &m->num_outputs, err);
    if (code == FLX_OK)
        code = read_names(m->k, a->scratch, m->scratch, &m->num_scratch, err);
    if (code == FLX_OK)
        return FLX_OK;
    flx_kernel_release(m->k);
    m->k = NULL;
    return code;
}

bool flxi_kernel_call_bind_site(flxi_site *s, const flxi_kernel_call *a, flxi_kernel_binding *m)
{
    flx_error err = {0};
    if (flxi_kernel_call_bind(s->ctx, a, m, &err) == FLX_OK)
        return true;
    flxi_site_fail(s, (flx_code)err.code, err.hint, "%.160s", err.message);
    return false;
}

uint32_t flxi_kernel_call_input(const flxi_kernel_binding *m, uint32_t buffer)
{
    for (uint32_t i = 0; i < m->num_inputs; i++)
        if (m->inputs[i] == buffer)
            return i;
    return UINT32_MAX;
}

uint32_t flxi_kernel_call_output(const flxi_kernel_binding *m, uint32_t buffer)
{
    for (uint32_t i = 0; i < m->num_outputs; i++)
        if (m->outputs[i] == buffer)
            return i;
    return UINT32_MAX;
}

const char *flxi_kernel_call_scratch(const flxi_kernel_binding *m, const flxi_kernel_call *a, uint32_t buffer)
{
    const char *s = a->lengths;
    for (size_t i = 0; i < m->num_scratch; i++, s += strcspn(s, ","), s += strspn(s, ", "))
        if (m->scratch[i] == buffer)
            return s;
    return NULL;
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
        return flxi_infer_fail(f, FLX_E_SHAPE, NULL, "buffer '%.60s' has %llu elements, but %s has %lld", b->name,
                               (unsigned long long)b->count, flxi_type_str(f->ctx, t, &text), (long long)count);
    return FLX_OK;
}

flx_type flxi_kernel_call_type(const flxi_kernel_binding *m, const flxi_kernel_call *a, size_t i)
{
    const flxi_kbuffer *b = &m->k->buffers[m->outputs[i]];
    flx_dim count = (flx_dim)b->count;
    if (a->outputs.n)
        return a->outputs.v[i];
    if (!b->count || !flx_dtype_size((int32_t)b->element))
        return (flx_type){0};
    return flx_type_make((flx_dtype)b->element, 1, &count);
}

static flx_code infer_results(flxi_infer *f, const flxi_kernel_binding *m, const flxi_kernel_call *a)
{
    FLXI_TRY(flxi_results(f, m->num_outputs));
    if (a->outputs.n && a->outputs.n != m->num_outputs)
        return flxi_infer_fail(f, FLX_E_ARITY, NULL, "the kernel has %zu outputs, but outputs lists %zu",
                               m->num_outputs, a->outputs.n);
    for (size_t i = 0; i < m->num_outputs; i++) {
        const flxi_kbuffer *b = &m->k->buffers[m->outputs[i]];
        f->out[i] = flxi_kernel_call_type(m, a, i);
        if (!f->out[i].dtype)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "as in outputs=[f32[N, 3]]",
                                   "outputs must give the type of result '%.60s'", b->name);
        FLXI_TRY(check_count(f, b, &f->out[i]));
    }
    return FLX_OK;
}

static flx_code infer_bound(flxi_infer *f, const flxi_kernel_binding *m, flxi_kernel_call *a)
{
    size_t extra = m->num_scratch > 0;
    if (f->nin != m->num_inputs + extra)
        return flxi_infer_fail(f, FLX_E_ARITY,
                               extra ? "the counts come after the kernel's inputs"
                                     : "operands are the kernel's inputs, in order",
                               "the kernel has %zu inputs, got %u operands", m->num_inputs, f->nin);
    if (extra && f->in[m->num_inputs]->dtype != FLX_U32)
        return flxi_infer_fail(f, FLX_E_DTYPE, NULL, "counts must be u32, not %s",
                               flx_dtype_name(f->in[m->num_inputs]->dtype));
    for (uint32_t i = 0; i < m->num_inputs; i++)
        FLXI_TRY(check_count(f, &m->k->buffers[m->inputs[i]], f->in[i]));
    size_t covered = m->num_outputs;
    for (uint32_t b = 1; b <= m->k->num_buffers; b++) {
        bool is_named = !flxi_kbuffer_is_bound(&m->k->buffers[b]);
        for (size_t i = 0; i < m->num_inputs; i++)
            is_named |= m->inputs[i] == b;
        for (size_t i = 0; i < covered; i++)
            is_named |= m->outputs[i] == b;
        is_named |= flxi_kernel_call_scratch(m, a, b) != NULL;
        if (!is_named)
            return flxi_infer_fail(f, FLX_E_ATTRIBUTE, "declare it as output, or name it in inputs or results",
                                   "buffer '%.60s' is neither an input nor an output", m->k->buffers[b].name);
    }
    if (a->grid.n < 1 || a->grid.n > 3)
        return flxi_infer_fail(f, FLX_E_ATTRIBUTE, NULL, "grid has %zu extents, but must have 1, 2 or 3", a->grid.n);
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
    flxi_kernel_call *a = f->attrs;
    flxi_kernel_binding m;
    flx_error err = {0};
    if (flxi_kernel_call_bind(f->ctx, a, &m, &err) != FLX_OK)
        return fail_as(f, &err);
    flx_code code = infer_bound(f, &m, a);
    flx_kernel_release(m.k);
    if (code != FLX_OK || !a->backward[0])
        return code;
    flx_kernel *backward = flx_kernel_parse(f->ctx, a->backward, strlen(a->backward), "backward", &err);
    flx_kernel_release(backward);
    return backward ? FLX_OK : fail_as(f, &err);
}

/* ---- Running ---- */

/* In a kernel's buffer a bool takes a word. */
static size_t memory_size(const flx_tensor *t)
{
    return flx_tensor_type(t)->dtype == FLX_BOOL ? (size_t)flx_tensor_count(t) * 4 : flx_tensor_nbytes(t);
}

static void to_memory(const flx_tensor *t, void *data)
{
    if (flx_tensor_type(t)->dtype != FLX_BOOL) {
        memcpy(data, flx_tensor_const_data(t), flx_tensor_nbytes(t));
        return;
    }
    for (int64_t i = 0; i < flx_tensor_count(t) && !flxi_stopped_by_now(); i++)
        ((uint32_t *)data)[i] = ((const uint8_t *)flx_tensor_const_data(t))[i];
}

static void from_memory(flx_tensor *t, const void *data)
{
    if (flx_tensor_type(t)->dtype != FLX_BOOL) {
        memcpy(flx_tensor_data(t), data, flx_tensor_nbytes(t));
        return;
    }
    for (int64_t i = 0; i < flx_tensor_count(t) && !flxi_stopped_by_now(); i++)
        ((uint8_t *)flx_tensor_data(t))[i] = ((const uint32_t *)data)[i] != 0;
}

/* The memory of one run. */
typedef struct {
    flxi_eval *e;
    const flxi_kernel_binding *m;
    const flxi_kernel_call *a;
    flxi_arena *arena;
    flx_kernel_memory *memory;
    size_t n;
    uint32_t grid[3];
} run;

static flx_kernel_memory *find_memory(const run *r, const char *name)
{
    for (size_t j = 0; j < r->n; j++)
        if (strcmp(r->memory[j].buffer, name) == 0)
            return &r->memory[j];
    return NULL;
}

static flx_code add_memory(run *r, const char *name, size_t size)
{
    void *data = size == SIZE_MAX ? NULL : flxi_arena_alloc(r->arena, size + 1, 1, 16);
    if (!data)
        return flxi_oom(r->e->err, "the buffers of a kernel");
    r->memory[r->n++] = (flx_kernel_memory){name, data, size};
    return FLX_OK;
}

static flx_code bind_tensors(run *r)
{
    for (size_t i = 0; i < r->m->num_inputs + r->m->num_outputs; i++) {
        bool is_input = i < r->m->num_inputs;
        const flx_tensor *t = is_input ? r->e->in[i] : r->e->out[i - r->m->num_inputs];
        uint32_t buffer = is_input ? r->m->inputs[i] : r->m->outputs[i - r->m->num_inputs];
        if (find_memory(r, r->m->k->buffers[buffer].name))
            continue;
        FLXI_TRY(add_memory(r, r->m->k->buffers[buffer].name, memory_size(t)));
        if (is_input)
            to_memory(t, r->memory[r->n - 1].data);
    }
    return FLX_OK;
}

static flx_code read_grid(run *r)
{
    for (size_t i = 0; i < 3; i++) {
        int64_t n = i < r->a->grid.n ? r->a->grid.v[i] : 1;
        if (n < 0 || n > UINT32_MAX)
            return flxi_eval_fail(r->e, FLX_E_SIZE, NULL, "a grid of %lld workgroups is out of range", (long long)n);
        r->grid[i] = (uint32_t)n;
    }
    return FLX_OK;
}

/* One factor of a length: a number, "invocations", or an element of the counts, at least 1. */
static bool read_factor(const char *s, size_t n, uint64_t invocations, const uint32_t *counts, size_t num_counts,
                        uint64_t *x)
{
    static const char counted[] = "counts[";
    size_t begin = sizeof counted - 1;
    uint64_t index;
    if (n == 11 && memcmp(s, "invocations", n) == 0) {
        *x = invocations;
        return invocations != UINT64_MAX;
    }
    if (n <= begin + 1 || memcmp(s, counted, begin) != 0)
        return flxi_read_u64(s, n, x);
    if (s[n - 1] != ']' || !flxi_read_u64(s + begin, n - begin - 1, &index) || index >= num_counts)
        return false;
    *x = counts[index];
    *x += *x == 0;
    return true;
}

bool flxi_kernel_call_length(const char *s, uint64_t invocations, const uint32_t *counts, size_t num_counts,
                             uint64_t *length)
{
    size_t left = strcspn(s, ",");
    *length = 1;
    while (left) {
        size_t skip = 0, n = 0;
        while (skip < left && (s[skip] == ' ' || s[skip] == '*'))
            skip++;
        s += skip;
        left -= skip;
        while (n < left && s[n] != ' ' && s[n] != '*')
            n++;
        uint64_t x;
        if (n &&
            (!read_factor(s, n, invocations, counts, num_counts, &x) || __builtin_mul_overflow(*length, x, length)))
            return false;
        s += n;
        left -= n;
    }
    return *length <= UINT32_MAX;
}

bool flxi_kernel_call_needs_counts(const char *length)
{
    size_t n = strcspn(length, ",");
    for (size_t i = 0; i + 6 <= n; i++)
        if (memcmp(length + i, "counts", 6) == 0)
            return true;
    return false;
}

/* UINT64_MAX: more than a number can say. */
static uint64_t count_invocations(const run *r)
{
    uint64_t n = 1;
    for (int a = 0; a < 3; a++)
        if (__builtin_mul_overflow(n, (uint64_t)r->grid[a] * r->m->k->size[a], &n))
            return UINT64_MAX;
    return n;
}

static bool read_length(const run *r, const char *s, uint64_t *length)
{
    const flx_tensor *t = r->e->in[r->m->num_inputs];
    return flxi_kernel_call_length(s, count_invocations(r), flx_tensor_const_data(t), (size_t)flx_tensor_count(t),
                                   length);
}

static flx_code bind_scratch(run *r)
{
    for (size_t i = 0; i < r->m->num_scratch; i++) {
        const flxi_kbuffer *b = &r->m->k->buffers[r->m->scratch[i]];
        uint64_t length;
        if (!read_length(r, flxi_kernel_call_scratch(r->m, r->a, r->m->scratch[i]), &length))
            return flxi_eval_fail(r->e, FLX_E_KERNEL, "give the kernel max_trips, or run it on smaller pieces",
                                  "the length of scratch buffer '%.60s' is out of range", b->name);
        FLXI_TRY(add_memory(r, b->name, flxi_ktype_bytes(b->element, length)));
    }
    return FLX_OK;
}

/* A derived kernel flags loops that ran more trips than its tapes have room for: it did not compute the derivative. */
static flx_code check_overflow(const run *r)
{
    const flx_kernel *k = r->m->k;
    for (size_t i = 0; i < k->num_meta; i++) {
        bool is_flag = strncmp(k->meta[i].key, "length overflow", 15) == 0;
        const flx_kernel_memory *m = is_flag ? find_memory(r, k->meta[i].key + 7) : NULL;
        for (size_t j = 0; m && j < m->size / 4; j++)
            if (((const uint32_t *)m->data)[j])
                return flxi_eval_fail(r->e, FLX_E_KERNEL, "raise max_trips",
                                      "a loop made %u trips, more than max_trips",
                                      (unsigned)((const uint32_t *)m->data)[j]);
    }
    return FLX_OK;
}

static flx_code run_bound(run *r)
{
    r->memory = flxi_new(r->arena, flx_kernel_memory, r->m->num_inputs + r->m->num_outputs + r->m->num_scratch + 1);
    if (!r->memory)
        return flxi_oom(r->e->err, "the buffers of a kernel");
    FLXI_TRY(read_grid(r));
    FLXI_TRY(bind_tensors(r));
    FLXI_TRY(bind_scratch(r));
    flx_error err = {0};
    const flx_kernel_run_options by_definition = {.struct_size = sizeof by_definition, .device = "ref"};
    if (flx_kernel_run(r->m->k, r->grid, r->memory, r->n, &by_definition, &err) != FLX_OK)
        return flxi_eval_fail(r->e, (flx_code)err.code, err.hint[0] ? err.hint : NULL, "%.200s", err.message);
    FLXI_TRY(check_overflow(r));
    for (size_t i = 0; i < r->m->num_outputs; i++)
        from_memory(r->e->out[i], find_memory(r, r->m->k->buffers[r->m->outputs[i]].name)->data);
    return FLX_OK;
}

static flx_code eval_kernel_call(flxi_eval *e)
{
    const flxi_kernel_call *a = e->attrs;
    flxi_kernel_binding m;
    if (e->nin + e->nout == 0)
        return FLX_OK;
    FLXI_TRY(flxi_kernel_call_bind((e->nin ? e->in[0] : e->out[0])->ctx, a, &m, e->err));
    flxi_arena arena;
    flxi_arena_init(&arena, e->mem);
    flx_code code = run_bound(&(run){.e = e, .m = &m, .a = a, .arena = &arena});
    flxi_arena_free(&arena);
    flx_kernel_release(m.k);
    return code;
}

#define SQUARES                                                                                 \
    "kernel=\"kernel k(workgroup = [2, 1, 1]) { buffer x: f64[4] read; buffer w: f64[4] read; " \
    "buffer out: f64[4] output; let i = invocation_id(0); out[i] = x[i] * x[i] * sin(w[3 - i]); }\", grid=[2]"
#define PRODUCT                                                                               \
    "kernel=\"kernel k() { buffer x: f64[] read; buffer out: f64[1] output; let p = 1.0f64; " \
    "for (j in 0..buf_len(x)) { p = p * x[j]; } out[0] = p; }\", outputs=[f64[1]], grid=[1], max_trips=8"

#define PRODUCTS                                                                                      \
    "kernel=\"kernel k() { buffer x: f32[3] read; buffer w: f32[3] read; buffer out: f32[3] output; " \
    "let i = invocation_id(0); out[i] = x[i] * w[i]; }\", grid=[3]"

static const flxi_sample kernel_call_samples[] = {
    {"f32[3], f32[3]", PRODUCTS, NULL, FLX_OK},
    {"f64[4], f64[2, 2]", SQUARES, NULL, FLX_OK},
    {"f64[5]{0.5..1.5}", PRODUCT, NULL, FLX_OK},
    {"f64[4]", SQUARES, NULL, FLX_E_ARITY},
    {"f64[4], f64[3]", SQUARES, NULL, FLX_E_SHAPE},
    {"f64[4], f32[4]", SQUARES, NULL, FLX_E_DTYPE},
    {"f64[4]", "kernel=\"kernel\", grid=[1]", NULL, FLX_E_SYNTAX},
    {0},
};

const flxi_rules flxi_rules_kernel_call = {
    .infer = infer_kernel_call,
    .eval = eval_kernel_call,
    .schema = kernel_call_schema,
    .attrs_size = sizeof(flxi_kernel_call),
    .vjp = flxi_kernel_call_vjp,
    .jvp = flxi_kernel_call_jvp,
    .batch = flxi_kernel_call_batch,
    .samples = kernel_call_samples,
    .work = flxi_work_results,
    .link = flxi_link_dense,
};
