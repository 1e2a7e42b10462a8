/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_api.c: the public functions that build a kernel: they check arguments, then call the builder. */
#include "kernel/program/kernel.h"

#include "base/options.h"
#include "kernel/check/kernel_validate.h"
#include "kernel/program/kernel_extension.h"

#include <stdio.h>

static bool refuse(flx_kernel_builder *b, const char *what)
{
    if (b && flxi_kb_ok(b))
        flxi_fail(&b->err, FLX_E_USAGE, "%s", what);
    return false;
}

/* Refuses an expression of another builder, or none at all; accepts 0 after an earlier error. */
static bool is_expr(flx_kernel_builder *b, flx_kx x)
{
    if (!b || !flxi_kb_ok(b))
        return false;
    return (x > 0 && x < b->exprs.n) || refuse(b, "an operand is not an expression of this kernel");
}

static bool is_buffer(flx_kernel_builder *b, uint32_t buffer)
{
    if (!b || !flxi_kb_ok(b))
        return false;
    return (buffer > 0 && buffer < b->buffers.n) || refuse(b, "the kernel has no buffer with this number");
}

static bool is_type(flx_kernel_builder *b, uint32_t type)
{
    const flxi_ktype *t = flxi_ktype_of(type);
    if (!b || !flxi_kb_ok(b))
        return false;
    return (t->name && !t->storage) || refuse(b, "this is not a type that kernels compute with");
}

static bool is_text(flx_kernel_builder *b, const char *text)
{
    if (!b || !flxi_kb_ok(b))
        return false;
    return text || refuse(b, "a name is NULL");
}

/* ---- Beginning and ending ---- */

flx_kernel_builder *flx_kernel_begin(flx_context *ctx, const char *name, uint32_t sx, uint32_t sy, uint32_t sz)
{
    const uint32_t size[3] = {sx, sy, sz};
    return ctx && name ? flxi_kb_new(ctx, name, size, NULL) : NULL;
}

flx_kernel *flx_kernel_finish(flx_kernel_builder *b, flx_error *err)
{
    if (!b) {
        flxi_fail(err, FLX_E_USAGE, "flx_kernel_finish: the builder is NULL");
        return NULL;
    }
    flx_kernel *k = flxi_kb_finish(b, err);
    if (k && flxi_kernel_check(k, err) != FLX_OK) {
        flx_kernel_release(k);
        return NULL;
    }
    return k;
}

void flx_kernel_abandon(flx_kernel_builder *b)
{
    flxi_kb_free(b);
}

void flx_kernel_set_flags(flx_kernel_builder *b, uint32_t flags)
{
    if (!b)
        return;
    if (flags & ~(uint32_t)FLXI_KERNEL_FLAGS)
        refuse(b, "unknown kernel flags");
    else
        flxi_kb_set_flags(b, flags);
}

void flx_kernel_set_meta(flx_kernel_builder *b, const char *key, const char *value)
{
    if (is_text(b, key) && is_text(b, value))
        flxi_kb_meta(b, key, value);
}

uint32_t flx_kernel_add_buffer(flx_kernel_builder *b, const flx_kernel_buffer *given)
{
    flx_kernel_buffer read;
    const flx_kernel_buffer *buffer = &read;
    flx_error err = {0};
    if (!b || !given)
        return refuse(b, "flx_kernel_add_buffer: an argument is NULL");
    if (FLXI_READ_OPTIONS(flx_kernel_buffer, &read, given, &err) != FLX_OK)
        return refuse(b, err.message);
    if (!is_text(b, buffer->name))
        return refuse(b, "flx_kernel_add_buffer: the name is NULL");
    if (buffer->access == 0 || buffer->access >= FLX_KERNEL_ACCESS_COUNT || !flxi_ktype_of(buffer->element)->name)
        return refuse(b, "flx_kernel_add_buffer: unknown access or element type");
    if (buffer->usage > FLX_KERNEL_EXACTLY_ONCE || (buffer->flags & ~(uint32_t)FLXI_KERNEL_BUFFER_FLAGS))
        return refuse(b, "flx_kernel_add_buffer: unknown usage or flag");
    if ((buffer->num_predicates && !buffer->predicates) || (buffer->descriptor_size && !buffer->descriptor))
        return refuse(b, "flx_kernel_add_buffer: a list is NULL");
    flxi_kbuffer kept = {
        .name = buffer->name,
        .binding = buffer->binding,
        .access = (uint8_t)buffer->access,
        .element = (uint8_t)buffer->element,
        .usage = (uint8_t)buffer->usage,
        .flags = buffer->flags,
        .count = buffer->count,
        .range_begin = buffer->range_begin,
        .range_end = buffer->range_end,
        .alignment = buffer->alignment,
        .locality = buffer->locality,
        .coalescing = buffer->coalescing,
        .predicates = buffer->predicates,
        .num_predicates = buffer->num_predicates,
        .descriptor = buffer->descriptor,
        .descriptor_size = buffer->descriptor_size,
    };
    return flxi_kb_buffer(b, &kept);
}

/* ---- Expressions ---- */

flx_kx flx_kx_literal(flx_kernel_builder *b, uint32_t type, uint64_t bits)
{
    return is_type(b, type) ? flxi_kb_literal(b, type, bits) : 0;
}

flx_kx flx_kx_number(flx_kernel_builder *b, uint32_t type, double value)
{
    return is_type(b, type) ? flxi_kb_number(b, type, value) : 0;
}

flx_kx flx_kx_u32(flx_kernel_builder *b, uint32_t value)
{
    return b ? flxi_kb_u32(b, value) : 0;
}

flx_kx flx_kx_f32(flx_kernel_builder *b, float value)
{
    return b ? flxi_kb_number(b, FLX_F32, value) : 0;
}

flx_kx flx_kx_load(flx_kernel_builder *b, uint32_t buffer, flx_kx index)
{
    return is_buffer(b, buffer) && is_expr(b, index) ? flxi_kb_load(b, buffer, index) : 0;
}

flx_kx flx_kx_length(flx_kernel_builder *b, uint32_t buffer)
{
    return is_buffer(b, buffer) ? flxi_kb_length(b, buffer) : 0;
}

flx_kx flx_kx_id(flx_kernel_builder *b, flx_kernel_id which, uint32_t axis)
{
    if (!b || (unsigned)which >= FLX_KERNEL_ID_COUNT)
        return refuse(b, "flx_kx_id: unknown id");
    return flxi_kb_id(b, which, axis);
}

flx_kx flx_kx_subgroup_lane(flx_kernel_builder *b)
{
    return b ? flxi_kb_lane(b) : 0;
}

flx_kx flx_kx_subgroup_size(flx_kernel_builder *b)
{
    return b ? flxi_kb_lanes(b) : 0;
}

static uint32_t refuse_op(flx_kernel_builder *b, const char *op)
{
    if (flxi_kb_ok(b))
        flxi_kernel_fail(&b->err, "K60", "kernel_ops.def and docs/kernels.md list the ops", "there is no op '%.60s'",
                         op);
    return 0;
}

flx_kx flx_kx_unary(flx_kernel_builder *b, const char *op, flx_kx x)
{
    if (!is_text(b, op) || !is_expr(b, x))
        return 0;
    uint8_t number = flxi_kunary_find(op, strlen(op));
    return number ? flxi_kb_unary(b, (flxi_kunary)number, x) : refuse_op(b, op);
}

flx_kx flx_kx_binary(flx_kernel_builder *b, const char *op, flx_kx x, flx_kx y)
{
    if (!is_text(b, op) || !is_expr(b, x) || !is_expr(b, y))
        return 0;
    uint8_t number = flxi_kbinary_find(op, strlen(op));
    return number ? flxi_kb_binary(b, (flxi_kbinary)number, x, y) : refuse_op(b, op);
}

flx_kx flx_kx_select(flx_kernel_builder *b, flx_kx condition, flx_kx x, flx_kx y)
{
    return is_expr(b, condition) && is_expr(b, x) && is_expr(b, y) ? flxi_kb_select(b, condition, x, y) : 0;
}

flx_kx flx_kx_fma(flx_kernel_builder *b, flx_kx x, flx_kx y, flx_kx z)
{
    return is_expr(b, x) && is_expr(b, y) && is_expr(b, z) ? flxi_kb_fma(b, x, y, z) : 0;
}

flx_kx flx_kx_cast(flx_kernel_builder *b, uint32_t type, flx_kx x)
{
    return is_type(b, type) && is_expr(b, x) ? flxi_kb_cast(b, type, x) : 0;
}

flx_kx flx_kx_bitcast(flx_kernel_builder *b, uint32_t type, flx_kx x)
{
    return is_type(b, type) && is_expr(b, x) ? flxi_kb_bitcast(b, type, x) : 0;
}

flx_kx flx_kx_call(flx_kernel_builder *b, uint32_t function, const flx_kx *args, size_t num_args)
{
    if (!b || (num_args && !args) || function == 0 || function >= b->fns.n)
        return refuse(b, "flx_kx_call: the kernel has no function with this number");
    for (size_t i = 0; i < num_args; i++)
        if (!is_expr(b, args[i]))
            return 0;
    return flxi_kb_call(b, function, args, num_args);
}

flx_kx flx_kx_atomic(flx_kernel_builder *b, flx_kernel_atomic op, uint32_t buffer, flx_kx index, flx_kx value,
                     flx_kx expected, flx_kernel_order order)
{
    if (!is_buffer(b, buffer) || !is_expr(b, index) || !is_expr(b, value) || (expected && !is_expr(b, expected)))
        return 0;
    if ((unsigned)op >= FLX_KERNEL_ATOMIC_COUNT || (unsigned)order >= FLX_KERNEL_ORDER_COUNT)
        return refuse(b, "flx_kx_atomic: unknown operation or ordering");
    return flxi_kb_atomic(b, op, buffer, index, value, expected, order);
}

flx_kx flx_kx_subgroup_add(flx_kernel_builder *b, flx_kx x)
{
    return is_expr(b, x) ? flxi_kb_subgroup_add(b, x) : 0;
}

flx_kx flx_kx_subgroup_shuffle(flx_kernel_builder *b, flx_kx x, flx_kx lane)
{
    return is_expr(b, x) && is_expr(b, lane) ? flxi_kb_subgroup_shuffle(b, x, lane) : 0;
}

flx_kx flx_kx_subgroup_ballot(flx_kernel_builder *b, flx_kx x)
{
    return is_expr(b, x) ? flxi_kb_subgroup_ballot(b, x) : 0;
}

/* The type that its rule gives for the operands; 0, which validation reports, if it does not accept them. */
static uint32_t extension_type(flx_kernel_builder *b, uint32_t id, const flx_kx *args, size_t num_args)
{
    const flxi_kextension *x = flxi_kextension_find(b->k->ctx, NULL, id);
    uint32_t types[FLXI_KEXTENSION_MAX_ARGS] = {0};
    if (!x || !x->is.type || num_args != x->is.num_args)
        return 0;
    for (size_t i = 0; i < num_args; i++)
        types[i] = flxi_kb_type(b, args[i]);
    uint32_t type = x->is.type(x->is.user, types, num_args);
    return flxi_ktype_fits(type, TAKES_ANY) ? type : 0;
}

static bool is_extension(flx_kernel_builder *b, uint32_t id, const void *payload, size_t payload_size)
{
    if (!b || !flxi_kb_ok(b))
        return false;
    return (id && (payload || !payload_size)) || refuse(b, "an extension's number is 0 or its payload is NULL");
}

flx_kx flx_kx_extension(flx_kernel_builder *b, uint32_t id, const void *payload, size_t payload_size,
                        const flx_kx *args, size_t num_args)
{
    if (!is_extension(b, id, payload, payload_size))
        return 0;
    if (!args && num_args)
        return refuse(b, "the operands of an extension are NULL");
    for (size_t i = 0; i < num_args; i++)
        if (!is_expr(b, args[i]))
            return 0;
    flxi_kopaque o = {.id = id, .payload = payload, .payload_size = payload_size};
    o.type = (uint8_t)extension_type(b, id, args, num_args);
    return flxi_kb_opaque(b, flxi_kb_add_opaque(b, &o), args, num_args);
}

/* ---- Statements ---- */

flx_kx flx_kernel_let(flx_kernel_builder *b, const char *name, flx_kx value)
{
    return is_text(b, name) && is_expr(b, value) ? flxi_kb_var(b, flxi_kb_let(b, name, value)) : 0;
}

void flx_kernel_assign(flx_kernel_builder *b, flx_kx variable, flx_kx value)
{
    if (!is_expr(b, variable) || !is_expr(b, value))
        return;
    const flxi_kx *e = flxi_kb_expr(b, variable);
    if (e->kind == KX_VAR)
        flxi_kb_assign(b, e->ref, value);
    else
        refuse(b, "flx_kernel_assign: the target is not a variable");
}

void flx_kernel_store(flx_kernel_builder *b, uint32_t buffer, flx_kx index, flx_kx value)
{
    if (is_buffer(b, buffer) && is_expr(b, index) && is_expr(b, value))
        flxi_kb_store(b, buffer, index, value);
}

void flx_kernel_effect(flx_kernel_builder *b, flx_kx atomic)
{
    if (is_expr(b, atomic))
        flxi_kb_effect(b, atomic);
}

void flx_kernel_if(flx_kernel_builder *b, flx_kx condition)
{
    if (is_expr(b, condition))
        flxi_kb_if(b, condition);
}

void flx_kernel_else(flx_kernel_builder *b)
{
    if (b)
        flxi_kb_else(b);
}

flx_kx flx_kernel_loop(flx_kernel_builder *b, const char *name, flx_kx from, flx_kx to)
{
    if (!is_text(b, name) || !is_expr(b, from) || !is_expr(b, to))
        return 0;
    return flxi_kb_var(b, flxi_kb_loop(b, name, from, to));
}

void flx_kernel_block(flx_kernel_builder *b)
{
    if (b)
        flxi_kb_block(b);
}

void flx_kernel_region(flx_kernel_builder *b, const char *generator, const char *source, uint32_t flags)
{
    if (b && (flags & ~(uint32_t)FLXI_KERNEL_REGION_FLAGS))
        refuse(b, "unknown region flags");
    else if (is_text(b, generator))
        flxi_kb_region(b, generator, source, flags);
}

void flx_kernel_end(flx_kernel_builder *b)
{
    if (b)
        flxi_kb_end(b);
}

void flx_kernel_barrier(flx_kernel_builder *b, flx_kernel_order order)
{
    if (b && (unsigned)order >= FLX_KERNEL_ORDER_COUNT)
        refuse(b, "flx_kernel_barrier: unknown ordering");
    else if (b)
        flxi_kb_barrier(b, order);
}

void flx_kernel_return(flx_kernel_builder *b)
{
    if (b)
        flxi_kb_return(b);
}

void flx_kernel_trap(flx_kernel_builder *b, flx_kx address, const char *tag)
{
    if (is_expr(b, address) && is_text(b, tag))
        flxi_kb_simple(b, &(flxi_ks){.kind = KS_TRAP, .a = address, .text = tag});
}

void flx_kernel_extend(flx_kernel_builder *b, uint32_t id, const void *payload, size_t payload_size)
{
    if (!is_extension(b, id, payload, payload_size))
        return;
    flxi_kopaque o = {.id = id, .payload = payload, .payload_size = payload_size};
    flxi_kb_simple(b, &(flxi_ks){.kind = KS_OPAQUE, .opaque = flxi_kb_add_opaque(b, &o)});
}

/* ---- Derivatives of regions ---- */

void flx_kernel_region_adjoint(flx_kernel_builder *b)
{
    if (b)
        flxi_kb_rule(b);
}

/* The number of a variable; 0, with an error, if the expression is not a variable. */
static uint32_t variable_of(flx_kernel_builder *b, flx_kx variable)
{
    if (!is_expr(b, variable))
        return 0;
    const flxi_kx *e = flxi_kb_expr(b, variable);
    if (e->kind != KX_VAR)
        refuse(b, "only variables have adjoints");
    return e->kind == KX_VAR ? e->ref : 0;
}

flx_kx flx_kx_adjoint(flx_kernel_builder *b, flx_kx variable)
{
    uint32_t var = variable_of(b, variable);
    return var ? flxi_kb_var(b, flxi_kb_rule_bar(b, var)) : 0;
}

void flx_kernel_contribute(flx_kernel_builder *b, flx_kx variable, flx_kx value)
{
    uint32_t var = variable_of(b, variable);
    if (var && is_expr(b, value))
        flxi_kb_rule_term(b, var, value);
}

/* ---- Functions ---- */

uint32_t flx_kernel_function(flx_kernel_builder *b, const char *name, uint32_t type)
{
    return is_text(b, name) && is_type(b, type) ? flxi_kb_function(b, name, type) : 0;
}

void flx_kernel_adjoint(flx_kernel_builder *b, uint32_t function, uint32_t param)
{
    if (b && (function == 0 || function >= b->fns.n))
        refuse(b, "flx_kernel_adjoint: the kernel has no function with this number");
    else if (b)
        flxi_kb_adjoint_of(b, function, param);
}

flx_kx flx_kernel_param(flx_kernel_builder *b, const char *name, uint32_t type)
{
    return is_text(b, name) && is_type(b, type) ? flxi_kb_var(b, flxi_kb_param(b, name, type)) : 0;
}

void flx_kernel_result(flx_kernel_builder *b, flx_kx value)
{
    if (is_expr(b, value))
        flxi_kb_result(b, value);
}
