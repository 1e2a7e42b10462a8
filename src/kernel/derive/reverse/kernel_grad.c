/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_grad.c: flx_kernel_grad: from a kernel to its reverse, step by step: normalise, find what is active, emit with
   every tape, determine which tapes are needed, split loops that are too long, emit again with the needed tapes,
   simplify, validate. */
#include "kernel/check/kernel_validate.h"
#include "kernel/derive/kernel_affine.h"
#include "kernel/derive/kernel_bits.h"
#include "kernel/derive/kernel_derive.h"
#include "kernel/derive/kernel_normalise.h"
#include "kernel/derive/kernel_wrap.h"
#include "kernel/derive/reverse/kernel_checkpoint.h"
#include "kernel/derive/reverse/kernel_reverse.h"
#include "kernel/optimise/kernel_optimise.h"

#include <stdio.h>

enum { PRIVATE_WORDS = 64, MAX_CUTS = 12 };

typedef struct {
    flxi_kderive d;
    flx_kernel *k; /* normalised, perhaps with split loops */
    flxi_kflow w;
    flxi_kwraps wraps;
    flxi_kreverse_result emitted;
    uint8_t *kept, *is_private; /* by tape */
} gradient;

/* ---- Which tapes are needed ---- */

static flx_kernel *simplify(const flxi_kreverse_result *emitted, flx_error *err)
{
    flxi_ksimplify_options o = {.flags = FLXI_KERNEL_ZERO_SUMS, .only_if_loaded = emitted->is_scratch};
    return flxi_kernel_simplify(emitted->gradient, &o, err);
}

static flxi_kreverse_request make_request(const gradient *g)
{
    const flxi_kderive *d = &g->d;
    return (flxi_kreverse_request){
        .w = &g->w, .k = g->k, .options = &d->options, .inputs = d->inputs, .outputs = d->outputs, .d = d->result};
}

/* Emits with all tapes, and flags those that survive simplification. */
static flx_code find_kept(gradient *g, flx_error *err)
{
    flxi_kreverse_request q = make_request(g);
    FLXI_TRY(flxi_kernel_reverse(&q, &g->d.arena, &g->emitted, err));
    flx_kernel *raw = g->emitted.gradient, *lean = NULL;
    size_t n = g->emitted.num_tapes;
    g->kept = flxi_new(&g->d.arena, uint8_t, n + 1);
    g->is_private = flxi_new(&g->d.arena, uint8_t, n + 1);
    flx_code code = g->kept && g->is_private ? FLX_OK : flxi_oom(err, "the derivative of a kernel");
    if (code == FLX_OK && !(lean = simplify(&g->emitted, err)))
        code = (flx_code)err->code;
    for (size_t i = 0; lean && i < n; i++) {
        uint32_t buffer = g->emitted.tapes[i].buffer;
        g->kept[i] = buffer && flxi_kernel_find_buffer(lean, raw->buffers[buffer].name) != 0;
    }
    flx_kernel_release(lean);
    flx_kernel_release(raw);
    g->emitted.gradient = NULL;
    return code;
}

static uint64_t tape_words(const flxi_ktape *t)
{
    uint64_t words, per_slot = t->type == FLX_F64 || t->type == FLX_I64 || t->type == FLX_U64 ? 2 : 1;
    if (t->num_counters || __builtin_mul_overflow(t->slots, per_slot, &words))
        return UINT64_MAX;
    return words;
}

/* Small tapes become private arrays, smallest first. */
static void choose_private(gradient *g)
{
    uint64_t room = g->d.options.private_words ? g->d.options.private_words : PRIVATE_WORDS;
    for (size_t i = 0; i < g->emitted.num_tapes; i++) {
        uint64_t words = tape_words(&g->emitted.tapes[i]);
        if (!g->kept[i] || words > room)
            continue;
        g->is_private[i] = 1;
        room -= words;
    }
}

/* ---- The tape budget ---- */

/* Bytes per invocation; UINT64_MAX when they depend on data. */
static uint64_t tape_bytes(const gradient *g)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < g->emitted.num_tapes; i++) {
        uint64_t words = g->kept[i] ? tape_words(&g->emitted.tapes[i]) : 0;
        if (words > UINT64_MAX / 8 || __builtin_add_overflow(sum, words * 4, &sum))
            return UINT64_MAX;
    }
    return sum;
}

/* The loop whose carried variables take most; NULL when only loads are taped or pieces cannot get shorter. */
static const flxi_kstep *longest_loop(const gradient *g)
{
    const flxi_kstep *longest = NULL;
    uint64_t most = 4;
    for (size_t i = 0; i < g->emitted.num_tapes; i++) {
        const flxi_ktape *t = &g->emitted.tapes[i];
        if (g->kept[i] && t->loop && !t->num_counters && t->slots > most) {
            longest = t->loop;
            most = t->slots;
        }
    }
    return longest;
}

static flx_code cut(gradient *g, const flxi_kstep *only, flx_error *err)
{
    uint8_t *is_cut = flxi_new(&g->d.arena, uint8_t, g->k->num_vars + 1);
    if (!is_cut)
        return flxi_oom(err, "the derivative of a kernel");
    if (only)
        is_cut[only->s->var] = 1;
    for (size_t i = 0; !only && i < g->emitted.num_tapes; i++) {
        const flxi_ktape *t = &g->emitted.tapes[i];
        if (g->kept[i] && t->loop && t->num_counters)
            is_cut[t->loop->s->var] = 1;
    }
    flx_kernel *shorter = flxi_kernel_cut_loops(g->k, is_cut, err);
    if (!shorter)
        return (flx_code)err->code;
    flx_kernel_release(g->k);
    g->k = shorter;
    return FLX_OK;
}

static flx_code over_budget(const gradient *g, uint64_t bytes, flx_error *err)
{
    return flxi_kernel_fail(err, "resource limit", "raise the tape budget, or store less in loops",
                            "the reverse of '%.60s' needs %llu bytes of tape per invocation; the budget is %llu",
                            g->d.k->name, (unsigned long long)bytes, (unsigned long long)g->d.options.tape_budget);
}

static flx_code find_flow(gradient *g, flx_error *err)
{
    flxi_vec_free(flxi_kernel_mem(g->k), &g->wraps.list);
    FLXI_TRY(flxi_kernel_flow(&g->w, &g->d.arena, g->k, g->d.inputs, g->d.outputs, err));
    g->w.source = g->d.source;
    g->w.wraps = &g->wraps;
    return FLX_OK;
}

/* Splits loops until the tapes fit. Loops whose trip counts depend on data are split once: their length is known only
   at run time, and the run checks the budget. */
static flx_code fit_budget(gradient *g, flx_error *err)
{
    for (int round = 0;; round++) {
        FLXI_TRY(find_flow(g, err));
        FLXI_TRY(flxi_kderive_check_races(&g->w, err));
        FLXI_TRY(flxi_kernel_check_bits(&g->w, err));
        FLXI_TRY(find_kept(g, err));
        uint64_t bytes = tape_bytes(g);
        if (g->d.options.tape_budget == 0 || bytes <= g->d.options.tape_budget)
            return FLX_OK;
        const flxi_kstep *loop = longest_loop(g);
        if (bytes == UINT64_MAX && round > 0 && !loop) {
            g->d.result->tape_budget = g->d.options.tape_budget;
            return FLX_OK;
        }
        if ((bytes != UINT64_MAX && !loop) || round == MAX_CUTS)
            return over_budget(g, bytes, err);
        FLXI_TRY(cut(g, loop, err));
    }
}

/* ---- The result ---- */

static flx_code add_words_need(gradient *g, const flx_kernel *k, const flxi_ktape *t, const char *name,
                               uint32_t element, flx_error *err)
{
    flxi_kneed need = {
        .name = name,
        .role = FLX_KERNEL_TAPE,
        .element = (uint8_t)element,
        .flags = t->target ? FLX_KERNEL_NEED_ZERO : 0,
        .length = {.slots = t->slots, .counters = t->counters, .num_counters = t->num_counters, .per_invocation = true},
    };
    if (flxi_kernel_find_buffer(k, name) && !flxi_kernel_derived_add_need(g->d.result, &need))
        return flxi_oom(err, "the derivative of a kernel");
    return FLX_OK;
}

static flx_code add_tape_needs(gradient *g, const flx_kernel *k, const flx_kernel *raw, flx_error *err)
{
    for (size_t i = 0; i < g->emitted.num_tapes; i++) {
        const flxi_ktape *t = &g->emitted.tapes[i];
        if (!t->buffer || t->is_private)
            continue;
        FLXI_TRY(add_words_need(g, k, t, raw->buffers[t->buffer].name, t->type, err));
        if (t->where)
            FLXI_TRY(add_words_need(g, k, t, raw->buffers[t->where].name, FLX_U32, err));
    }
    return FLX_OK;
}

/* Adds the kept contributions to the gradients, in the order of the program, of its iterations and of invocations. A
   single invocation does it, so the order is the requested one. */
static flx_kernel *make_ordered_sum(const gradient *g, const flx_kernel *raw, flx_error *err)
{
    const uint32_t size[3] = {1, 1, 1};
    flxi_kb *b = flxi_kb_new(raw->ctx, "ordered_sum", size, err);
    if (!b)
        return NULL;
    uint32_t at[3];
    for (uint32_t a = 0; a < 3; a++)
        at[a] = flxi_kb_id(b, FLX_KERNEL_INVOCATION_ID, a);
    uint32_t any = flxi_kb_binary(b, KBIN_bit_or, flxi_kb_binary(b, KBIN_bit_or, at[0], at[1]), at[2]);
    flxi_kb_if(b, flxi_kb_binary(b, KBIN_eq, any, flxi_kb_u32(b, 0)));
    for (size_t i = 0; i < g->emitted.num_tapes && flxi_kb_ok(b); i++) {
        const flxi_ktape *t = &g->emitted.tapes[i];
        if (!t->target)
            continue;
        uint32_t numbers[3] = {t->buffer, t->where, t->target}, own[3];
        for (int j = 0; j < 3; j++) {
            flxi_kbuffer buffer = raw->buffers[numbers[j]];
            own[j] = flxi_kb_find_buffer(b, buffer.name);
            buffer.access = j == 2 ? FLX_KERNEL_READ_WRITE : FLX_KERNEL_READ;
            buffer.flags = 0;
            buffer.binding = (uint32_t)b->buffers.n - 1;
            if (!own[j])
                own[j] = flxi_kb_buffer(b, &buffer);
        }
        uint32_t n =
            flxi_kb_var(b, flxi_kb_loop(b, flxi_kb_fresh_name(b, "n"), flxi_kb_u32(b, 0), flxi_kb_length(b, own[0])));
        uint32_t to = flxi_kb_var(b, flxi_kb_let(b, flxi_kb_fresh_name(b, "to"), flxi_kb_load(b, own[1], n)));
        flxi_kb_store(b, own[2], to,
                      flxi_kb_binary(b, KBIN_add, flxi_kb_load(b, own[2], to), flxi_kb_load(b, own[0], n)));
        flxi_kb_end(b);
    }
    flxi_kb_end(b);
    return flxi_kb_finish(b, err);
}

static flx_code add_ordered_sum(gradient *g, const flx_kernel *raw, flx_error *err)
{
    bool any = false;
    for (size_t i = 0; i < g->emitted.num_tapes; i++)
        any |= g->emitted.tapes[i].target != 0;
    if (!any)
        return FLX_OK;
    flx_kernel *k = make_ordered_sum(g, raw, err);
    if (!k)
        return (flx_code)err->code;
    return flxi_kernel_derived_add_kernel(g->d.result, k) ? FLX_OK : flxi_oom(err, "the derivative of a kernel");
}

/* Emits with the tapes that are needed. */
static flx_code emit(gradient *g, flx_error *err)
{
    flxi_kreverse_request q = make_request(g);
    q.kept = g->kept;
    q.is_private = g->is_private;
    FLXI_TRY(flxi_kernel_reverse(&q, &g->d.arena, &g->emitted, err));
    flx_kernel *raw = g->emitted.gradient;
    g->d.result->counting = g->emitted.counting;
    g->d.result->num_counters = g->w.num_loops;
    flx_kernel *k = simplify(&g->emitted, err);
    flx_code code = k ? add_tape_needs(g, k, raw, err) : (flx_code)err->code;
    if (code == FLX_OK)
        code = flxi_kderive_finish(&g->d, k, err);
    else
        flx_kernel_release(k);
    if (code == FLX_OK)
        code = add_ordered_sum(g, raw, err);
    flx_kernel_release(raw);
    return code;
}

/* The forward part checks the conditions of the proofs about indices, so they must be known before it is emitted. */
static flx_code guard_wraps(gradient *g, flx_error *err)
{
    if (g->wraps.failed)
        return flxi_oom(err, "the derivative of a kernel");
    if (g->wraps.list.n == 0)
        return FLX_OK;
    flx_kernel *guarded = flxi_kernel_guard_wraps(&g->w, &g->wraps, err);
    if (!guarded)
        return (flx_code)err->code;
    flx_kernel_release(g->k);
    g->k = guarded;
    FLXI_TRY(find_flow(g, err));
    return find_kept(g, err);
}

static flx_code differentiate(gradient *g, flx_error *err)
{
    FLXI_TRY(flxi_kderive_check_types(&g->d, g->k, err));
    FLXI_TRY(fit_budget(g, err));
    FLXI_TRY(guard_wraps(g, err));
    FLXI_TRY(flxi_kderive_warn(&g->d, &g->w, err));
    choose_private(g);
    return emit(g, err);
}

/* Loads that every iteration of a loop repeats move before it: their adjoints are then added once. */
static flx_code normalise(gradient *g, flx_error *err)
{
    flx_kernel *plain = flxi_kernel_normalise(g->d.k, err);
    g->k = plain ? flxi_kernel_hoist_loads(plain, err) : NULL;
    flx_kernel_release(plain);
    return g->k ? FLX_OK : (flx_code)err->code;
}

flx_kernel_derived *flx_kernel_grad(const flx_kernel *k, const char *const *outputs, size_t num_outputs,
                                    const char *const *inputs, size_t num_inputs,
                                    const flx_kernel_grad_options *options, flx_error *err)
{
    flx_error local = {0};
    gradient g = {0};
    const flxi_kderive_request q = {k, outputs, inputs, num_outputs, num_inputs, options};
    flx_code code = flxi_kderive_start(&g.d, "flx_kernel_grad", &q, &local);
    if (code == FLX_OK)
        code = normalise(&g, &local);
    if (code == FLX_OK)
        code = differentiate(&g, &local);
    if (g.k)
        flxi_vec_free(flxi_kernel_mem(g.k), &g.wraps.list);
    flx_kernel_release(g.k);
    if (err)
        *err = local;
    return flxi_kderive_end(&g.d, code);
}
