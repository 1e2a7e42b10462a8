/* SPDX-License-Identifier: Apache-2.0 */
/* caller_memory.c: see caller_memory.h. */
#include "runtime/caller_memory.h"

static flxi_span span_of(const flx_type *t)
{
    flxi_span s = {0};
    size_t element = flx_dtype_size(t->dtype);
    flxi_static_bytes(t, &s.nbytes);
    if (s.nbytes) /* memory of no bytes may be anywhere */
        s.low_bits = (flxi_is_complex(t->dtype) ? element / 2 : element) - 1;
    return s;
}

flxi_span *flxi_spans_of(const flx_graph *g, const flxi_allocator *mem)
{
    flxi_span *spans = flxi_alloc(mem, g->leaves.n + g->outputs.n, sizeof *spans);
    for (size_t i = 0; spans && i < g->leaves.n; i++)
        spans[i] = span_of(flxi_type_at(g, g->leaves.at[i]));
    for (size_t k = 0; spans && k < g->outputs.n; k++)
        spans[g->leaves.n + k] = span_of(flxi_type_at(g, g->outputs.at[k].val));
    return spans;
}

static const char *input_name(const flxi_variant *v, size_t i)
{
    return flxi_value_at(v->g, v->g->leaves.at[i])->name;
}

/* ---- Alignment ---- */

static flx_code misaligned(const flxi_variant *v, const void *const *inputs, void *const *outputs, flx_error *err)
{
    size_t n = v->g->leaves.n;
    for (size_t i = 0; i < n + v->g->outputs.n; i++) {
        const void *at = i < n ? inputs[i] : outputs[i - n];
        uint32_t id = i < n ? v->g->leaves.at[i] : v->g->outputs.at[i - n].val;
        if ((uintptr_t)at & v->spans[i].low_bits)
            return flxi_fail_hint(err, FLX_E_USAGE, "elements are aligned as in an array of their C type",
                                  "flx_exec_run_at: the memory of the %s '%.80s' (%s) is not aligned to %zu bytes",
                                  i < n ? "input" : "output", i < n ? input_name(v, i) : v->g->outputs.at[i - n].name,
                                  flx_dtype_name(flxi_type_at(v->g, id)->dtype), (size_t)v->spans[i].low_bits + 1);
    }
    return FLX_OK;
}

static bool is_aligned(const flxi_variant *v, const void *const *inputs, void *const *outputs)
{
    uintptr_t low = 0;
    const flxi_span *of_outputs = v->spans + v->g->leaves.n;
    for (size_t i = 0; i < v->g->leaves.n; i++)
        low |= (uintptr_t)inputs[i] & v->spans[i].low_bits;
    for (size_t k = 0; k < v->g->outputs.n; k++)
        low |= (uintptr_t)outputs[k] & of_outputs[k].low_bits;
    return low == 0;
}

/* ---- Overlap ---- */

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    uintptr_t distance = (uintptr_t)b - (uintptr_t)a;
    return (distance < a_bytes || -distance < b_bytes) && a_bytes && b_bytes;
}

/* The usual case, in one pass: each output is after the one before it, and every input is before the first or after the
   last of them. False: it may be so nevertheless. */
static bool is_in_order(const flxi_variant *v, const void *const *inputs, void *const *outputs)
{
    size_t n = v->g->leaves.n, m = v->g->outputs.n;
    const flxi_span *of_outputs = v->spans + n;
    uintptr_t first = m ? (uintptr_t)outputs[0] : 0, end = first;
    for (size_t k = 0; k < m; k++) {
        if ((uintptr_t)outputs[k] < end)
            return false;
        end = (uintptr_t)outputs[k] + of_outputs[k].nbytes;
    }
    for (size_t i = 0; i < n; i++)
        if ((uintptr_t)inputs[i] < end && (uintptr_t)inputs[i] + v->spans[i].nbytes > first)
            return false;
    return true;
}

static flx_code overlapping(const flxi_variant *v, size_t output, const char *what, const char *name, flx_error *err)
{
    return flxi_fail_hint(err, FLX_E_USAGE,
                          "flx_exec_may_share() says which input and output may have the same address",
                          "flx_exec_run_at: the memory of the output '%.80s' overlaps that of the %s '%.80s'",
                          v->g->outputs.at[output].name, what, name);
}

static flx_code check_output(const flxi_variant *v, size_t k, const void *const *inputs, void *const *outputs,
                             flx_error *err)
{
    size_t n = v->g->leaves.n;
    const flxi_span *own = &v->spans[n + k];
    for (size_t i = 0; i < n; i++)
        if (inputs[i] && overlap(outputs[k], own->nbytes, inputs[i], v->spans[i].nbytes) &&
            !(inputs[i] == outputs[k] && flxi_variant_may_share(v, i, k)))
            return overlapping(v, k, "input", input_name(v, i), err);
    for (size_t j = 0; j < k; j++)
        if (overlap(outputs[k], own->nbytes, outputs[j], v->spans[n + j].nbytes))
            return overlapping(v, k, "output", v->g->outputs.at[j].name, err);
    return FLX_OK;
}

flx_code flxi_check_caller_memory(const flxi_variant *v, const void *const *inputs, void *const *outputs,
                                  flx_error *err)
{
    size_t n = v->g->leaves.n, m = v->g->outputs.n;
    if (!is_aligned(v, inputs, outputs))
        return misaligned(v, inputs, outputs, err);
    if (is_in_order(v, inputs, outputs) || m * (n + m) > FLXI_COMPARED_PAIRS)
        return FLX_OK;
    for (size_t k = 0; k < m; k++)
        FLXI_TRY(check_output(v, k, inputs, outputs, err));
    return FLX_OK;
}
