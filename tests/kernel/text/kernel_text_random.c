/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_text_random.c: random programs, well-typed and not, survive printing and reading, byte for byte in the wire
   form; and printing the kernel that was read gives the same text. */
#include "kernel/flk.h"

#include "kernel/program/kernel.h"
#include "kernel/text/kernel_parse.h"

#include <stdio.h>

static const uint32_t types[] = {FLX_F64, FLX_F32, FLX_F16, FLX_BF16, FLX_I64, FLX_I32, FLX_I16,
                                 FLX_I8,  FLX_U64, FLX_U32, FLX_U16,  FLX_U8,  FLX_BOOL};
enum { TYPE_COUNT = sizeof types / sizeof types[0] };

typedef struct {
    flxi_kb *b;
    uint64_t state;
    bool sloppy; /* now and then an operand of any type */
    uint32_t buffers[TYPE_COUNT], fns[TYPE_COUNT];
    int next_name;
    int left; /* statements */
} maker;

static uint32_t dice(maker *m, uint32_t n)
{
    return (uint32_t)(test_random(&m->state) % n);
}

static uint32_t any_type(maker *m)
{
    return types[dice(m, TYPE_COUNT)];
}

static uint32_t index_of(uint32_t type)
{
    for (uint32_t i = 0; i < TYPE_COUNT; i++)
        if (types[i] == type)
            return i;
    return 0;
}

static uint32_t make_expr(maker *m, uint32_t type, int depth);

static uint32_t make_literal(maker *m, uint32_t type)
{
    static const double handy[] = {0, 1, -1, 2, 0.5, -2.5, 3, 10, 100, 1e-3};
    uint64_t r = test_random(&m->state);
    if (dice(m, 3))
        return flxi_kb_number(m->b, type,
                              handy[r % (flxi_ktype_of(type)->kind & (TAKES_UNSIGNED | TAKES_BOOL) ? 2 : 10)]);
    return flxi_kb_literal(m->b, type, r);
}

static uint32_t make_leaf(maker *m, uint32_t type)
{
    flxi_kb *b = m->b;
    for (int tries = 0; tries < 4 && dice(m, 2) && b->visible.n; tries++) {
        uint32_t var = b->visible.at[dice(m, (uint32_t)b->visible.n)];
        if (b->vars.at[var].type == type)
            return flxi_kb_var(b, var);
    }
    if (type == FLX_U32 && dice(m, 3) == 0)
        switch (dice(m, 4)) {
        case 0: return flxi_kb_length(b, m->buffers[dice(m, TYPE_COUNT)]);
        case 1: return flxi_kb_id(b, (flx_kernel_id)dice(m, FLX_KERNEL_ID_COUNT), dice(m, 4));
        case 2: return flxi_kb_lane(b);
        default: return flxi_kb_lanes(b);
        }
    return make_literal(m, type);
}

static uint32_t operand(maker *m, uint32_t type, int depth)
{
    return make_expr(m, m->sloppy && dice(m, 12) == 0 ? any_type(m) : type, depth - 1);
}

/* A unary op whose result has the type, or a leaf when the one drawn does not fit. */
static uint32_t make_unary(maker *m, uint32_t type, int depth)
{
    uint8_t op = (uint8_t)(1 + dice(m, KUN_COUNT - 1));
    uint32_t from = flxi_kunaries[op].result == KRESULT_BOOL ? any_type(m) : type;
    if (!m->sloppy && flxi_kop_type(&flxi_kunaries[op], from) != type)
        return make_leaf(m, type);
    return flxi_kb_unary(m->b, (flxi_kunary)op, operand(m, from, depth));
}

static uint32_t make_binary(maker *m, uint32_t type, int depth)
{
    uint8_t op = (uint8_t)(1 + dice(m, KBIN_COUNT - 1));
    uint32_t from = flxi_kbinaries[op].result == KRESULT_SAME ? type : any_type(m);
    if (!m->sloppy && flxi_kop_type(&flxi_kbinaries[op], from) != type)
        return make_leaf(m, type);
    uint32_t x = operand(m, from, depth);
    return flxi_kb_binary(m->b, (flxi_kbinary)op, x, operand(m, from, depth));
}

static uint32_t make_atomic(maker *m, uint32_t type, int depth)
{
    flx_kernel_atomic op = (flx_kernel_atomic)dice(m, FLX_KERNEL_ATOMIC_COUNT);
    uint32_t index = operand(m, FLX_U32, depth);
    uint32_t expected = op == FLX_KERNEL_ATOMIC_COMPARE_EXCHANGE ? operand(m, type, depth) : 0;
    return flxi_kb_atomic(m->b, op, m->buffers[index_of(type)], index, operand(m, type, depth), expected,
                          (flx_kernel_order)dice(m, FLX_KERNEL_ORDER_COUNT));
}

static uint32_t make_opaque(maker *m, uint32_t type, int depth)
{
    flxi_kopaque o = {.extension = "ext",
                      .payload = "pay\0load",
                      .payload_size = dice(m, 9),
                      .fingerprint = test_random(&m->state),
                      .type = (uint8_t)type,
                      .pure = (uint8_t)dice(m, 2)};
    uint32_t number = flxi_kb_add_opaque(m->b, &o);
    uint32_t args[3];
    size_t n = dice(m, 4);
    for (size_t i = 0; i < n; i++)
        args[i] = make_expr(m, any_type(m), depth - 1);
    return flxi_kb_opaque(m->b, number, args, n);
}

static uint32_t make_call(maker *m, uint32_t type, int depth)
{
    uint32_t fn = m->fns[index_of(type)];
    uint32_t args[2] = {operand(m, type, depth), operand(m, FLX_F32, depth)};
    return fn ? flxi_kb_call(m->b, fn, args, 2) : args[0];
}

static uint32_t make_expr(maker *m, uint32_t type, int depth)
{
    flxi_kb *b = m->b;
    uint32_t x;
    if (depth <= 0)
        return make_leaf(m, type);
    switch (dice(m, 18)) {
    case 0:
    case 1:
    case 2: return make_unary(m, type, depth);
    case 3:
    case 4:
    case 5:
    case 6:
    case 7: return make_binary(m, type, depth);
    case 8:
        x = make_expr(m, dice(m, 2) ? FLX_BOOL : FLX_U32, depth - 1);
        return flxi_kb_select(b, x, operand(m, type, depth), make_expr(m, type, depth - 1));
    case 9:
        x = operand(m, type, depth);
        return flxi_ktype_is_float(type) || m->sloppy
                   ? flxi_kb_fma(b, x, operand(m, type, depth), make_expr(m, type, depth - 1))
                   : x;
    case 10: return flxi_kb_cast(b, type, make_expr(m, any_type(m), depth - 1));
    case 11: return flxi_kb_bitcast(b, type, make_expr(m, any_type(m), depth - 1));
    case 12: return make_call(m, type, depth);
    case 13: return make_atomic(m, type, depth);
    case 14: return flxi_kb_subgroup_add(b, operand(m, type, depth));
    case 15: return flxi_kb_subgroup_shuffle(b, operand(m, type, depth), operand(m, FLX_U32, depth));
    case 16: return make_opaque(m, type, depth);
    default: return flxi_kb_load(b, m->buffers[index_of(type)], operand(m, FLX_U32, depth));
    }
}

/* ---- Statements ---- */

static const char *fresh_name(maker *m)
{
    static const char *const words[] = {"a",   "in",     "let",      "two words", "exp",
                                        "nan", "region", "\xc3\xa9", "q\"\\",     "x1"};
    static char name[40];
    snprintf(name, sizeof name, "%s%d", words[dice(m, 10)], m->next_name++);
    return name;
}

static void make_list(maker *m, int depth);

static void make_assign(maker *m)
{
    flxi_kb *b = m->b;
    uint32_t var = b->visible.n ? b->visible.at[dice(m, (uint32_t)b->visible.n)] : 0;
    if (var && b->vars.at[var].type)
        flxi_kb_assign(b, var, make_expr(m, b->vars.at[var].type, 3));
    else
        flxi_kb_let(b, fresh_name(m), make_expr(m, any_type(m), 4));
}

static void make_nested(maker *m, int depth)
{
    flxi_kb *b = m->b;
    uint32_t from;
    switch (dice(m, 4)) {
    case 0:
        flxi_kb_if(b, make_expr(m, FLX_BOOL, 3));
        make_list(m, depth - 1);
        if (dice(m, 2)) {
            flxi_kb_else(b);
            make_list(m, depth - 1);
        }
        break;
    case 1:
        from = make_expr(m, FLX_U32, 2);
        flxi_kb_loop(b, fresh_name(m), from, make_expr(m, FLX_U32, 2));
        make_list(m, depth - 1);
        break;
    case 2:
        flxi_kb_block(b);
        make_list(m, depth - 1);
        break;
    default:
        flxi_kb_region(b, fresh_name(m), dice(m, 2) ? "src \n\x01" : NULL, dice(m, 16));
        make_list(m, depth - 1);
        break;
    }
    flxi_kb_end(b);
}

static void make_rare(maker *m)
{
    flxi_ks s = {.text = "tag 1", .buffer = m->buffers[0], .target = m->buffers[1]};
    static const uint8_t kinds[] = {KS_INDIRECT, KS_ASYNC_LOAD, KS_ASYNC_STORE, KS_ASYNC_WAIT,
                                    KS_TRAP,     KS_RESUME,     KS_COLLECTIVE,  KS_OPAQUE};
    s.kind = kinds[dice(m, 8)];
    if (s.kind == KS_ASYNC_LOAD || s.kind == KS_ASYNC_STORE || s.kind == KS_TRAP)
        s.a = make_expr(m, FLX_U32, 2);
    if (s.kind == KS_ASYNC_LOAD || s.kind == KS_ASYNC_STORE)
        s.b = make_expr(m, FLX_U32, 2);
    if (s.kind == KS_COLLECTIVE)
        s.order = (uint8_t)dice(m, FLX_KERNEL_COLLECTIVE_COUNT);
    if (s.kind == KS_INDIRECT || (s.kind == KS_COLLECTIVE && s.order == FLX_KERNEL_BROADCAST))
        s.offset = test_random(&m->state);
    if (s.kind == KS_OPAQUE) {
        flxi_kopaque o = {.extension = "e",
                          .payload = "\x7f\x00",
                          .payload_size = dice(m, 3),
                          .fingerprint = dice(m, 2) * test_random(&m->state),
                          .pure = (uint8_t)dice(m, 2)};
        s.opaque = flxi_kb_add_opaque(m->b, &o);
    }
    if (s.kind == KS_INDIRECT || s.kind == KS_COLLECTIVE || s.kind == KS_OPAQUE)
        s.text = NULL;
    if (s.kind != KS_ASYNC_LOAD && s.kind != KS_ASYNC_STORE && s.kind != KS_COLLECTIVE)
        s.target = 0;
    if (s.kind == KS_ASYNC_WAIT || s.kind == KS_TRAP || s.kind == KS_RESUME || s.kind == KS_OPAQUE)
        s.buffer = 0;
    flxi_kb_simple(m->b, &s);
}

static void make_statement(maker *m, int depth)
{
    flxi_kb *b = m->b;
    uint32_t type = any_type(m), index;
    switch (dice(m, 10)) {
    case 0:
    case 1: flxi_kb_let(b, fresh_name(m), make_expr(m, type, 5)); break;
    case 2: make_assign(m); break;
    case 3:
    case 4:
        index = operand(m, FLX_U32, 4);
        flxi_kb_store(b, m->buffers[index_of(type)], index, operand(m, type, 5));
        break;
    case 5: flxi_kb_effect(b, m->sloppy ? make_expr(m, type, 3) : make_atomic(m, type, 3)); break;
    case 6: flxi_kb_barrier(b, (flx_kernel_order)dice(m, FLX_KERNEL_ORDER_COUNT)); break;
    case 7: make_rare(m); break;
    default:
        if (depth > 0)
            make_nested(m, depth);
        else
            flxi_kb_return(b);
        break;
    }
}

static void make_list(maker *m, int depth)
{
    for (uint32_t n = dice(m, 4); n-- > 0 && m->left-- > 0;)
        make_statement(m, depth);
}

/* ---- Programs ---- */

static void make_predicates(maker *m, flx_kernel_predicate *list, size_t *n, int depth)
{
    uint32_t test = depth > 0 ? 1 + dice(m, 9) : 1 + dice(m, 6);
    flx_kernel_predicate p = {.test = test};
    if (test <= FLX_KERNEL_COUNT_AFFINE)
        p.a = (test_random(&m->state) >> dice(m, 64)) | 1;
    if (test == FLX_KERNEL_COUNT_MOD || test == FLX_KERNEL_COUNT_AFFINE)
        p.b = dice(m, 3);
    if (test == FLX_KERNEL_COUNT_AFFINE)
        p.c = test_random(&m->state);
    list[(*n)++] = p;
    for (int i = test == FLX_KERNEL_COUNT_NOT ? 1 : test >= FLX_KERNEL_COUNT_AND ? 2 : 0; i > 0; i--)
        make_predicates(m, list, n, depth - 1);
}

static void make_buffer(maker *m, uint32_t type)
{
    flx_kernel_predicate predicates[64];
    char name[40];
    flxi_kbuffer b = {.element = (uint8_t)type, .access = (uint8_t)(1 + dice(m, FLX_KERNEL_ACCESS_COUNT - 1))};
    snprintf(name, sizeof name, dice(m, 3) ? "b%u" : "b %u", m->next_name++);
    b.name = name;
    b.flags = dice(m, 3) ? 0 : dice(m, 32);
    b.count = test_random(&m->state) >> dice(m, 64);
    if (b.access != FLX_KERNEL_WORKGROUP && b.access != FLX_KERNEL_PRIVATE)
        b.binding = (uint32_t)test_random(&m->state);
    b.usage = (uint8_t)dice(m, 4);
    b.alignment = dice(m, 3);
    b.locality = dice(m, 3);
    b.coalescing = dice(m, 3);
    b.range_begin = dice(m, 3);
    b.range_end = dice(m, 100);
    b.predicates = predicates;
    if (dice(m, 2))
        make_predicates(m, predicates, &b.num_predicates, 4);
    b.descriptor = "\x01\xff\x00";
    b.descriptor_size = dice(m, 3);
    m->buffers[index_of(type)] = flxi_kb_buffer(m->b, &b);
}

static void make_functions(maker *m)
{
    for (uint32_t n = 1 + dice(m, 4); n-- > 0;) {
        uint32_t type = any_type(m);
        bool adjoint = m->fns[index_of(type)] != 0;
        uint32_t fn = flxi_kb_function(m->b, adjoint && dice(m, 2) ? "" : fresh_name(m), type);
        if (adjoint)
            flxi_kb_adjoint_of(m->b, m->fns[index_of(type)], dice(m, 3));
        flxi_kb_param(m->b, fresh_name(m), type);
        flxi_kb_param(m->b, fresh_name(m), FLX_F32);
        make_list(m, 2);
        flxi_kb_result(m->b, make_expr(m, type, 4));
        if (!adjoint)
            m->fns[index_of(type)] = fn;
    }
}

static flx_kernel *make_program(uint64_t seed, bool sloppy)
{
    flx_error err = {0};
    maker m = {.state = seed, .sloppy = sloppy, .left = 30};
    uint32_t size[3] = {dice(&m, 9), dice(&m, 9), 1};
    m.b = flxi_kb_new(flk_context(), dice(&m, 2) ? "k" : "a kernel", size, &err);
    CHECK(m.b != NULL);
    flxi_kb_set_flags(m.b, dice(&m, 16));
    for (uint32_t n = dice(&m, 3); n-- > 0;)
        flxi_kb_meta(m.b, "key\t", "\"value\\");
    for (uint32_t i = 0; i < TYPE_COUNT; i++)
        make_buffer(&m, types[i]);
    make_functions(&m);
    for (uint32_t i = 0; i < TYPE_COUNT; i++)
        flxi_kb_let(m.b, fresh_name(&m), make_expr(&m, types[i], 2));
    for (int n = 0; n < 8; n++)
        make_list(&m, 4);
    flx_kernel *k = flxi_kb_finish(m.b, &err);
    CHECK_MSG(k != NULL, "%s", err.message);
    return k;
}

static void check_survives(const flx_kernel *k)
{
    flx_error err = {0};
    flx_buffer bytes = {0}, again = {0};
    flx_buffer text = flk_text(k);
    flx_kernel *back = flxi_kernel_parse_only(flk_context(), text.data, text.size, "t", &err);
    CHECK_MSG(back != NULL, "%s: %s in\n%s", err.where, err.message, text.data);
    CHECK_OK(flx_kernel_encode(k, &bytes, &err), &err);
    CHECK_OK(flx_kernel_encode(back, &again, &err), &err);
    flx_buffer second = flk_text(back);
    CHECK_EQ_STR(second.data, text.data);
    CHECK_MSG(bytes.size == again.size && memcmp(bytes.data, again.data, bytes.size) == 0, "another kernel from\n%s",
              text.data);
    flx_buffer_free(&second);
    flx_buffer_free(&bytes);
    flx_buffer_free(&again);
    flx_buffer_free(&text);
    flx_kernel_release(back);
}

TEST(kernel_text_random_programs_survive)
{
    uint64_t state = test_seed();
    for (int i = 0; i < 600; i++) {
        uint64_t seed = test_random(&state);
        test_fail_context("seed %llx, %s", (unsigned long long)seed, i % 2 ? "sloppy" : "well-typed");
        flx_kernel *k = make_program(seed, i % 2);
        check_survives(k);
        flx_kernel_release(k);
        test_count_case();
    }
    test_fail_context("%s", "");
}
