/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_build.c: the public functions that build a kernel give the same kernel as its text, and every misuse is an
   error that finish() reports. */
#include "fault.h"
#include "kernel/flk.h"

#include "kernel/program/kernel.h"

static flx_kernel_builder *begin(void)
{
    flx_kernel_builder *b = flx_kernel_begin(flk_context(), "k", 4, 1, 1);
    CHECK(b != NULL);
    return b;
}

static uint32_t buffer(flx_kernel_builder *b, const char *name, uint32_t access, uint32_t element, uint32_t binding)
{
    return flx_kernel_add_buffer(
        b, &(flx_kernel_buffer){.name = name, .access = access, .element = element, .count = 4, .binding = binding});
}

/* The same kernel as the text, built; frees it. */
static void check_same(flx_kernel_builder *b, const char *text)
{
    flx_error err = {0};
    flx_kernel *built = flx_kernel_finish(b, &err);
    CHECK_MSG(built != NULL, "%s: %s", err.where, err.message);
    flx_kernel *read = flk(text);
    flx_buffer x = {0};
    flx_buffer y = {0};
    CHECK_OK(flx_kernel_encode(built, &x, &err), &err);
    CHECK_OK(flx_kernel_encode(read, &y, &err), &err);
    if (x.size != y.size || memcmp(x.data, y.data, x.size) != 0) {
        flx_buffer shown = flk_text(built);
        FAIL("built is\n%s instead of\n%s", shown.data, text);
    }
    flx_buffer_free(&x);
    flx_buffer_free(&y);
    flx_kernel_release(built);
    flx_kernel_release(read);
}

TEST(kernel_build_gives_what_text_gives)
{
    flx_kernel_builder *b = begin();
    flx_kernel_set_flags(b, FLX_KERNEL_CONTRACT);
    flx_kernel_set_meta(b, "key", "value");
    uint32_t x = buffer(b, "x", FLX_KERNEL_READ, FLX_F32, 0);
    uint32_t c = buffer(b, "c", FLX_KERNEL_READ_WRITE, FLX_U32, 1);
    uint32_t s = buffer(b, "s", FLX_KERNEL_WORKGROUP, FLX_F32, 0);
    uint32_t f = flx_kernel_function(b, "f", FLX_F32);
    flx_kx v = flx_kernel_param(b, "v", FLX_F32);
    flx_kernel_result(b, flx_kx_binary(b, "mul", v, v));
    uint32_t df = flx_kernel_function(b, "", FLX_F32);
    CHECK(df == f + 1);
    flx_kernel_adjoint(b, f, 0);
    v = flx_kernel_param(b, "v", FLX_F32);
    flx_kernel_param(b, "z", FLX_F32);
    flx_kx g = flx_kernel_param(b, "g", FLX_F32);
    flx_kernel_result(b, flx_kx_binary(b, "mul", flx_kx_binary(b, "add", v, v), g));
    flx_kx i = flx_kernel_let(b, "i", flx_kx_id(b, FLX_KERNEL_LOCAL_ID, 0));
    flx_kx a = flx_kernel_let(b, "a", flx_kx_load(b, x, i));
    flx_kernel_assign(b, a, flx_kx_call(b, f, &a, 1));
    flx_kernel_if(b, flx_kx_binary(b, "lt", i, flx_kx_length(b, x)));
    flx_kernel_store(b, s, i, flx_kx_fma(b, a, a, flx_kx_f32(b, 0.5f)));
    flx_kernel_else(b);
    flx_kx t =
        flx_kx_select(b, flx_kx_literal(b, FLX_BOOL, 1), flx_kx_unary(b, "exp", a), flx_kx_number(b, FLX_F32, -2));
    flx_kernel_store(b, s, i, t);
    flx_kernel_end(b);
    flx_kernel_barrier(b, FLX_KERNEL_ACQ_REL);
    flx_kx k = flx_kernel_loop(b, "k", flx_kx_u32(b, 0), flx_kx_u32(b, 4));
    flx_kernel_effect(
        b, flx_kx_atomic(b, FLX_KERNEL_ATOMIC_ADD, c, k, flx_kx_bitcast(b, FLX_U32, a), 0, FLX_KERNEL_RELAXED));
    flx_kernel_end(b);
    flx_kernel_block(b);
    flx_kernel_let(b, "n", flx_kx_cast(b, FLX_F64, flx_kx_subgroup_add(b, a)));
    flx_kernel_end(b);
    flx_kernel_region(b, "r", NULL, FLX_KERNEL_REGION_ONCE);
    flx_kx lane = flx_kx_binary(b, "sub", flx_kx_subgroup_size(b), flx_kx_subgroup_lane(b));
    flx_kernel_let(b, "m", flx_kx_subgroup_shuffle(b, flx_kx_subgroup_ballot(b, flx_kx_unary(b, "is_nan", a)), lane));
    flx_kernel_end(b);
    flx_kernel_let(b, "old", flx_kx_atomic(b, FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE, c, i, i, lane, FLX_KERNEL_SEQ_CST));
    flx_kernel_trap(b, i, "tag");
    flx_kernel_return(b);
    check_same(b, "kernel k(workgroup = [4, 1, 1], flags = [contract]) {\n"
                  "  meta \"key\" = \"value\";\n"
                  "  buffer x: f32[4] read @0;\n"
                  "  buffer c: u32[4] read_write @1;\n"
                  "  buffer s: f32[4] workgroup;\n"
                  "  fn f(v: f32) -> f32 { return v * v; }\n"
                  "  adjoint f.v(v: f32, z: f32, g: f32) -> f32 { return (v + v) * g; }\n"
                  "  let i = local_id(0);\n"
                  "  let a = x[i];\n"
                  "  a = f(a);\n"
                  "  if (i < buf_len(x)) { s[i] = fma(a, a, 0.5); } else { s[i] = select(true, exp(a), -2.0); }\n"
                  "  barrier();\n"
                  "  for (k in 0..4) { atomic_add(c[k], bitcast<u32>(a)); }\n"
                  "  { let n = cast<f64>(subgroup_add(a)); }\n"
                  "  region r once {\n"
                  "    let m = subgroup_shuffle(subgroup_ballot(is_nan(a)), subgroup_size() - subgroup_lane());\n"
                  "  }\n"
                  "  let old = atomic_compare_exchange(c[i], subgroup_size() - subgroup_lane(), i, seq_cst);\n"
                  "  trap(i, tag);\n"
                  "  return;\n"
                  "}\n");
}

TEST(kernel_build_tells_about_kernel_and_buffers)
{
    flx_kernel_builder *b = begin();
    static const flx_kernel_predicate p = {.test = FLX_KERNEL_COUNT_MULTIPLE, .a = 2};
    flx_kernel_buffer given = {.struct_size = sizeof given,
                               .flags = FLX_KERNEL_OUTPUT,
                               .name = "o",
                               .access = FLX_KERNEL_READ_WRITE,
                               .element = FLX_F16,
                               .count = 6,
                               .binding = 3,
                               .usage = FLX_KERNEL_AT_MOST_ONCE,
                               .range_begin = 2,
                               .range_end = 4,
                               .alignment = 8,
                               .locality = 1,
                               .coalescing = 2,
                               .predicates = &p,
                               .num_predicates = 1};
    CHECK_EQ_U64(flx_kernel_add_buffer(b, &given), 1);
    flx_error err = {0};
    flx_kernel *k = flx_kernel_finish(b, &err);
    CHECK_MSG(k != NULL, "%s", err.message);
    CHECK_EQ_STR(flx_kernel_name(k), "k");
    uint32_t size[3];
    flx_kernel_workgroup_size(k, size);
    CHECK(size[0] == 4 && size[1] == 1 && size[2] == 1);
    CHECK_EQ_U64(flx_kernel_buffer_count(k), 1);
    flx_kernel_buffer back = {.struct_size = sizeof back};
    CHECK_OK(flx_kernel_buffer_at(k, 0, &back), &err);
    CHECK_EQ_STR(back.name, "o");
    CHECK(back.predicates[0].test == p.test && back.predicates[0].a == 2);
    CHECK(back.flags == given.flags && back.access == given.access && back.element == given.element);
    CHECK(back.count == 6 && back.binding == 3 && back.usage == given.usage && back.num_predicates == 1);
    CHECK(back.range_begin == 2 && back.range_end == 4 && back.descriptor_size == 0);
    CHECK(back.alignment == 8 && back.locality == 1 && back.coalescing == 2);
    CHECK_CODE(flx_kernel_buffer_at(k, 1, &back), FLX_E_USAGE, &err);
    flx_kernel *held = flx_kernel_retain(k);
    flx_kernel_release(k);
    CHECK_EQ_STR(flx_kernel_name(held), "k");
    flx_kernel_release(held);
}

/* ---- Misuse ---- */

static void use_foreign_operand(flx_kernel_builder *b)
{
    flx_kernel_let(b, "a", flx_kx_unary(b, "exp", 99));
}

static void use_no_operand(flx_kernel_builder *b)
{
    flx_kernel_let(b, "a", 0);
}

static void use_foreign_buffer(flx_kernel_builder *b)
{
    flx_kx_load(b, 7, flx_kx_u32(b, 0));
}

static void use_unknown_op(flx_kernel_builder *b)
{
    flx_kx_unary(b, "exq", flx_kx_f32(b, 1));
}

static void use_unknown_type(flx_kernel_builder *b)
{
    flx_kx_literal(b, FLX_KERNEL_I4, 1);
}

static void use_unknown_function(flx_kernel_builder *b)
{
    flx_kx_call(b, 1, NULL, 0);
}

static void use_unknown_access(flx_kernel_builder *b)
{
    buffer(b, "x", 9, FLX_F32, 0);
}

static void use_unknown_flags(flx_kernel_builder *b)
{
    flx_kernel_set_flags(b, 64);
}

static void use_unknown_buffer_flag(flx_kernel_builder *b)
{
    flx_kernel_add_buffer(
        b, &(flx_kernel_buffer){.name = "x", .access = FLX_KERNEL_READ, .element = FLX_F32, .flags = 256});
}

static void use_unknown_usage(flx_kernel_builder *b)
{
    flx_kernel_add_buffer(
        b, &(flx_kernel_buffer){.name = "x", .access = FLX_KERNEL_READ, .element = FLX_F32, .usage = 256});
}

static void use_unknown_region_flag(flx_kernel_builder *b)
{
    flx_kernel_region(b, "r", NULL, 1u << 16);
}

static void use_null_name(flx_kernel_builder *b)
{
    flx_kernel_let(b, NULL, flx_kx_u32(b, 1));
}

static void assign_to_a_literal(flx_kernel_builder *b)
{
    flx_kernel_assign(b, flx_kx_u32(b, 1), flx_kx_u32(b, 2));
}

static void end_nothing(flx_kernel_builder *b)
{
    flx_kernel_end(b);
}

static void else_without_if(flx_kernel_builder *b)
{
    flx_kernel_block(b);
    flx_kernel_else(b);
}

static void leave_a_body_open(flx_kernel_builder *b)
{
    flx_kernel_block(b);
}

static void end_a_function(flx_kernel_builder *b)
{
    flx_kernel_function(b, "f", FLX_F32);
    flx_kernel_end(b);
}

static void give_a_result_of_nothing(flx_kernel_builder *b)
{
    flx_kernel_result(b, flx_kx_u32(b, 1));
}

static void nest_functions(flx_kernel_builder *b)
{
    flx_kernel_function(b, "f", FLX_F32);
    flx_kernel_function(b, "g", FLX_F32);
}

static void use_unknown_order(flx_kernel_builder *b)
{
    flx_kernel_barrier(b, (flx_kernel_order)44);
}

static void break_a_rule(flx_kernel_builder *b)
{
    flx_kernel_let(b, "a", flx_kx_binary(b, "add", flx_kx_u32(b, 1), flx_kx_f32(b, 1)));
}

static const struct {
    void (*misuse)(flx_kernel_builder *b);
    flx_code code;
    const char *message;
} misuses[] = {
    {use_foreign_operand, FLX_E_USAGE, "an operand is not an expression of this kernel"},
    {use_no_operand, FLX_E_USAGE, "an operand is not an expression of this kernel"},
    {use_foreign_buffer, FLX_E_USAGE, "the kernel has no buffer with this number"},
    {use_unknown_op, FLX_E_KERNEL, "K60 there is no op 'exq'"},
    {use_unknown_type, FLX_E_USAGE, "this is not a type that kernels compute with"},
    {use_unknown_function, FLX_E_USAGE, "flx_kx_call: the kernel has no function with this number"},
    {use_unknown_access, FLX_E_USAGE, "flx_kernel_add_buffer: unknown access or element type"},
    {use_unknown_flags, FLX_E_USAGE, "unknown kernel flags"},
    {use_unknown_buffer_flag, FLX_E_USAGE, "flx_kernel_add_buffer: unknown usage or flag"},
    {use_unknown_usage, FLX_E_USAGE, "flx_kernel_add_buffer: unknown usage or flag"},
    {use_unknown_region_flag, FLX_E_USAGE, "unknown region flags"},
    {use_null_name, FLX_E_USAGE, "a name is NULL"},
    {assign_to_a_literal, FLX_E_USAGE, "flx_kernel_assign: the target is not a variable"},
    {end_nothing, FLX_E_USAGE, "no body is open"},
    {else_without_if, FLX_E_USAGE, "else without an open if"},
    {leave_a_body_open, FLX_E_USAGE, "a body of the kernel was not closed"},
    {end_a_function, FLX_E_USAGE, "a function ends with its result"},
    {give_a_result_of_nothing, FLX_E_USAGE, "no function is open here"},
    {nest_functions, FLX_E_USAGE, "a function must be declared outside of other bodies"},
    {use_unknown_order, FLX_E_USAGE, "flx_kernel_barrier: unknown ordering"},
    {break_a_rule, FLX_E_KERNEL, "K23 the operands of add are u32 and f32"},
};

TEST(kernel_build_reports_the_first_misuse_at_the_end)
{
    for (size_t i = 0; i < sizeof misuses / sizeof misuses[0]; i++) {
        test_fail_context("%s", misuses[i].message);
        test_count_case();
        flx_kernel_builder *b = begin();
        misuses[i].misuse(b);
        if (misuses[i].misuse != break_a_rule && misuses[i].misuse != leave_a_body_open) {
            CHECK_EQ_U64(flx_kx_u32(b, 1), 0); /* later calls do nothing */
            flx_kernel_store(b, 1, 1, 1);
        }
        flx_error err = {0};
        CHECK(flx_kernel_finish(b, &err) == NULL);
        CHECK_EQ_I64(err.code, misuses[i].code);
        CHECK_EQ_STR(err.message, misuses[i].message);
    }
}

TEST(kernel_build_takes_null)
{
    flx_error err = {0};
    CHECK(flx_kernel_begin(NULL, "k", 1, 1, 1) == NULL);
    CHECK(flx_kernel_begin(flk_context(), NULL, 1, 1, 1) == NULL);
    CHECK(flx_kernel_finish(NULL, &err) == NULL && err.code == FLX_E_USAGE);
    flx_kernel_abandon(NULL);
    flx_kernel_release(NULL);
    CHECK(flx_kernel_retain(NULL) == NULL);
    CHECK_EQ_STR(flx_kernel_name(NULL), "");
    CHECK_EQ_U64(flx_kernel_buffer_count(NULL), 0);
    CHECK_EQ_U64(flx_kx_u32(NULL, 1), 0);
    CHECK_EQ_U64(flx_kx_id(NULL, FLX_KERNEL_LOCAL_ID, 0), 0);
    CHECK_EQ_U64(flx_kx_call(NULL, 1, NULL, 0), 0);
    CHECK_EQ_U64(flx_kernel_let(NULL, "a", 1), 0);
    CHECK_EQ_U64(flx_kernel_add_buffer(NULL, NULL), 0);
    flx_kernel_end(NULL);
    flx_kernel_barrier(NULL, FLX_KERNEL_ACQ_REL);
    flx_kernel_adjoint(NULL, 1, 0);
    flx_kernel_abandon(begin());
}

/* Builds every construct; true if the kernel was finished. */
static bool build_in(flx_context *ctx, flx_error *err)
{
    flx_kernel_builder *b = flx_kernel_begin(ctx, "k", 4, 1, 1);
    if (!b) {
        err->code = FLX_E_OOM;
        return false;
    }
    uint32_t x = buffer(b, "x", FLX_KERNEL_READ_WRITE, FLX_F32, 0);
    uint32_t f = flx_kernel_function(b, "f", FLX_F32);
    flx_kernel_result(b, flx_kernel_param(b, "v", FLX_F32));
    flx_kx i = flx_kernel_loop(b, "i", flx_kx_u32(b, 0), flx_kx_u32(b, 4));
    flx_kernel_if(b, flx_kx_binary(b, "lt", i, flx_kx_u32(b, 2)));
    flx_kx one = flx_kx_f32(b, 1);
    flx_kernel_store(b, x, i, flx_kx_call(b, f, &one, 1));
    flx_kernel_else(b);
    flx_kernel_region(b, "r", "s", 0);
    flx_kernel_end(b);
    flx_kernel_end(b);
    flx_kernel_end(b);
    flx_kernel *k = flx_kernel_finish(b, err);
    flx_kernel_release(k);
    return k != NULL;
}

TEST(kernel_build_survives_starving)
{
    for (int forever = 0; forever < 2; forever++) {
        for (size_t n = 1;; n++) {
            test_fail_context("request %zu fails%s", n, forever ? ", and all later ones" : "");
            fault f = {0};
            flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
            f.fail_at = f.calls + n;
            f.forever = forever;
            flx_error err = {0};
            bool built = build_in(ctx, &err);
            CHECK(built == (f.failed == 0) && (built || err.code == FLX_E_OOM));
            flx_context_free(ctx);
            CHECK(fault_is_clean(&f));
            if (built)
                break;
        }
    }
}
