/* SPDX-License-Identifier: Apache-2.0 */
/* emit_c.c: emits kernels as C17 with the extensions that gcc and clang share.

   A kernel is a function over a range of workgroups:

       void flxk_0(const k_dispatch *d, k_u64 begin, k_u64 end, k_u8 *scratch, k_u32 *status);

   Without barriers, subgroup ops and workgroup memory the invocations of a row of workgroups are one loop, which the
   compiler can vectorise; otherwise each workgroup is a sequence of such loops (kernel_interval.c). Several threads may
   call it with disjoint ranges and separate scratch.

   Functions of the mathematical library are called on doubles and rounded, as the interpreter does, so both agree to
   the last bit; the rest is arithmetic that IEEE 754 defines. Contraction must be off (-ffp-contract=off) unless the
   kernel permits it. No header is included: reading headers takes longer than compiling a kernel. */
#include "emit/kernel_writer.h"

#include <stdio.h>

/* ---- Spellings ---- */

#define LIBRARY(name)                              \
    {                                              \
        .of_float = "(($T)%1" #name "((k_f64)$a))" \
    }
#define BUILTIN(name)                           \
    {                                           \
        .of_float = "__builtin_" #name "$f($a)" \
    }

static const flxi_kspelling unaries[KUN_COUNT] = {
    [KUN_popcount] = {.of_unsigned = "(($T)__builtin_popcountll($a))",
                      .of_signed = "(($T)__builtin_popcountll(($U)$a))"},
    [KUN_clz] = {.of_unsigned = "{ return a ? ($T)(__builtin_clzll(a) - (64 - $w)) : ($T)$w; }",
                 .of_signed = "{ return a ? ($T)(__builtin_clzll(($U)a) - (64 - $w)) : ($T)$w; }"},
    [KUN_ctz] = {.of_unsigned = "{ return a ? ($T)__builtin_ctzll(a) : ($T)$w; }",
                 .of_signed = "{ return a ? ($T)__builtin_ctzll(($U)a) : ($T)$w; }"},
    [KUN_abs] = BUILTIN(fabs),
    [KUN_floor] = BUILTIN(floor),
    [KUN_ceil] = BUILTIN(ceil),
    [KUN_trunc] = BUILTIN(trunc),
    [KUN_round] = BUILTIN(round),
    [KUN_rint] = BUILTIN(rint),
    [KUN_sqrt] = BUILTIN(sqrt),
    [KUN_exp] = LIBRARY(exp),
    [KUN_exp2] = LIBRARY(exp2),
    [KUN_expm1] = LIBRARY(expm1),
    [KUN_log] = LIBRARY(log),
    [KUN_log2] = LIBRARY(log2),
    [KUN_log10] = LIBRARY(log10),
    [KUN_log1p] = LIBRARY(log1p),
    [KUN_sin] = LIBRARY(sin),
    [KUN_cos] = LIBRARY(cos),
    [KUN_tan] = LIBRARY(tan),
    [KUN_asin] = LIBRARY(asin),
    [KUN_acos] = LIBRARY(acos),
    [KUN_atan] = LIBRARY(atan),
    [KUN_sinh] = LIBRARY(sinh),
    [KUN_cosh] = LIBRARY(cosh),
    [KUN_tanh] = LIBRARY(tanh),
    [KUN_asinh] = LIBRARY(asinh),
    [KUN_acosh] = LIBRARY(acosh),
    [KUN_atanh] = LIBRARY(atanh),
    [KUN_erf] = LIBRARY(erf),
    [KUN_erfc] = LIBRARY(erfc),
    [KUN_sigmoid] = {.of_float = "{ const k_f64 x = a, e = %1exp(-__builtin_fabs(x)); "
                                 "return ($T)(x < 0 ? e / (1 + e) : 1 / (1 + e)); }"},
};

static const flxi_kspelling binaries[KBIN_COUNT] = {
    [KBIN_mod] = {.of_float = "(($T)%2fmod((k_f64)$a, (k_f64)$b))"},
    [KBIN_pow] = {.of_float = "{ return b == 0 || a == 1 ? ($T)1 : ($T)%2pow((k_f64)a, (k_f64)b); }"},
    [KBIN_atan2] = {.of_float = "(($T)%2atan2((k_f64)$a, (k_f64)$b))"},
    [KBIN_hypot] = {.of_float = "{ return __builtin_isinf(a) || __builtin_isinf(b) ? __builtin_inf$f() "
                                ": ($T)%2hypot((k_f64)a, (k_f64)b); }"},
    [KBIN_copysign] = {.of_float = "__builtin_copysign$f($a, $b)"},
};

static const flxi_khelper helpers[] = {
    {"fetch_*", KBY_TYPE,
     "$F $T $n($E *b, k_u32 n, k_u32 i, $T v, $T x, int order)\n"
     "{ return i < n ? __atomic_fetch_$o(b + i, v, order) : 0; }\n"},
    {"atomic_*", KBY_TYPE,
     "$F $T $n($E *b, k_u32 n, k_u32 i, $T v, $T x, int order)\n"
     "{\n"
     "    if (i >= n)\n"
     "        return 0;\n"
     "    $U *p = ($U *)(b + i), was = __atomic_load_n(p, __ATOMIC_RELAXED), now;\n"
     "    $T old;\n"
     "    do {\n"
     "        old = @value(was);\n"
     "        now = @bits($N);\n"
     "    } while (!__atomic_compare_exchange_n(p, &was, now, 0, order, order));\n"
     "    return old;\n"
     "}\n"},
    /* Another thread may be writing the other half of the byte. */
    {"put_half", KBY_TYPE | KBY_SPACE,
     "$F void $n(k_u8 *b, k_u32 i, $T v)\n"
     "{\n"
     "    k_u8 was = __atomic_load_n(b + i / 2, __ATOMIC_RELAXED);\n"
     "    const k_u32 shift = i % 2 * 4, code = $C;\n"
     "    while (!__atomic_compare_exchange_n(b + i / 2, &was, (k_u8)((was & 0xf0u >> shift) | code << shift), 0, 0, "
     "0))\n"
     "        continue;\n"
     "}\n"},
    {"trap", 0,
     "static void $n(k_u32 *status, k_u32 site, k_u32 address, k_u32 i0, k_u32 i1, k_u32 i2)\n"
     "{\n"
     "    const k_u32 words[6] = {1, site, address, i0, i1, i2};\n"
     "    for (int i = 0; i < 6; i++)\n"
     "        status[i] = words[i];\n"
     "}\n"},
    /* The code that loads the object may set the question. */
    {"is_stopped", 0,
     "static int (*k_ask)(void);\n"
     "void flxk_ask_by(int (*ask)(void));\n"
     "void flxk_ask_by(int (*ask)(void))\n"
     "{\n"
     "    k_ask = ask;\n"
     "}\n"
     "static k_bool $n(k_u32 *ticks)\n"
     "{\n"
     "    *ticks = *ticks >> 31 || (k_ask && k_ask()) ? 1u << 31 : 0;\n"
     "    return *ticks != 0;\n"
     "}\n"},
    {0},
};

static const char heading[] =
    "/* Kernels by Fluxion, for gcc or clang with -O2 -ffp-contract=off -fno-math-errno and -lm.\n"
    "   A call runs workgroups begin to end - 1; x is the fastest axis. */\n" KTYPE_NAMES "typedef _Bool k_bool;\n"
    "typedef struct {\n"
    "    void *const *data;    /* of buffer i at i - 1, aligned as its elements */\n"
    "    const k_u32 *count;   /* its elements */\n"
    "    k_u32 grid[3], lanes; /* workgroups; width of subgroups */\n"
    "    const void *sizes;    /* of code for all extents: numbers that depend on them, 64 bits each */\n"
    "} k_dispatch;\n";

/* ---- Memory of a call ---- */

/* Private arrays up to this size are variables of the loop, which the compiler may keep in registers. */
static const size_t max_local_bytes = 16384;

static size_t private_bytes(const flxi_kwriter *w)
{
    size_t sum = 0;
    for (uint32_t i = 1; i <= w->k->num_buffers; i++)
        if (flxi_kw_address(w, i) == KADDRESS_PRIVATE && w->is_accessed[i])
            sum += flxi_ktype_bytes(w->k->buffers[i].element, w->k->buffers[i].count);
    return sum;
}

static bool has_local_arrays(const flxi_kwriter *w)
{
    return !w->has_sync && private_bytes(w) <= max_local_bytes;
}

static bool is_in_scratch(const flxi_kwriter *w, uint32_t buffer)
{
    flxi_kaddress at = flxi_kw_address(w, buffer);
    return w->is_accessed[buffer] && (at == KADDRESS_WORKGROUP || (at == KADDRESS_PRIVATE && !has_local_arrays(w)));
}

static size_t scratch_bytes(const flxi_kwriter *w, uint32_t buffer)
{
    size_t bytes = flxi_ktype_bytes(w->k->buffers[buffer].element, w->k->buffers[buffer].count);
    bool each = w->has_sync && flxi_kw_address(w, buffer) == KADDRESS_PRIVATE;
    return each ? bytes * flxi_kernel_workgroup(w->k) : bytes;
}

static void declare_in_scratch(flxi_kwriter *w, const char *type, const char *name, size_t bytes)
{
    flxi_kw_line(w, "%s *restrict %s = (%s *)(scratch + %zu);", type, name, type, w->entry->scratch);
    w->entry->scratch += (bytes + 63) / 64 * 64;
}

static void declare_arrays(flxi_kwriter *w)
{
    char name[24];
    size_t n = flxi_kernel_workgroup(w->k);
    for (uint32_t i = 1; i <= w->k->num_buffers; i++)
        if (is_in_scratch(w, i)) {
            snprintf(name, sizeof name, "b%u", i);
            declare_in_scratch(w, flxi_ktext_element(w->target, w->k->buffers[i].element), name, scratch_bytes(w, i));
        }
    for (size_t i = 0; i < w->arrays.n; i++) {
        const flxi_karray *a = &w->arrays.at[i];
        snprintf(name, sizeof name, "%c%u", a->prefix, a->number);
        declare_in_scratch(w, flxi_ktext_type(a->type), name, n * 8);
    }
    for (size_t i = 0; w->has_sync && i < w->copies.n * 3; i++) {
        snprintf(name, sizeof name, "c%zu", i);
        declare_in_scratch(w, "k_u32", name, n * 4);
    }
    if (w->needs_live)
        declare_in_scratch(w, "k_u8", "live", n);
}

/* A pointer to a buffer of the caller: a variable, or a parameter. */
static void add_pointer(flxi_kwriter *w, uint32_t buffer)
{
    flxi_kw_addf(w, "%s%s *%sb%u", w->is_written[buffer] ? "" : "const ",
                 flxi_ktext_element(w->target, w->k->buffers[buffer].element), w->file->may_alias ? "" : "restrict ",
                 buffer);
}

static void declare_bound(flxi_kwriter *w)
{
    const flxi_kplain *plain = w->file->plain;
    for (uint32_t i = 1; i <= w->k->num_buffers; i++) {
        if (!w->is_accessed[i] || !flxi_kw_is_bound(w, i))
            continue;
        if (!plain) {
            flxi_kw_begin(w);
            add_pointer(w, i);
            flxi_kw_addf(w, " = d->data[%u];\n", i - 1);
        }
        if (w->k->buffers[i].count == 0 && plain)
            flxi_kw_line(w, "const k_u32 n%u = %uu;", i, plain->count ? plain->count[i - 1] : 0);
        else if (w->k->buffers[i].count == 0)
            flxi_kw_line(w, "const k_u32 n%u = d->count[%u];", i, i - 1);
    }
    for (unsigned a = 0; a < 3; a++)
        if (w->ids[FLX_KERNEL_NUM_WORKGROUPS] >> a & 1)
            flxi_kw_line(w, "const k_u32 q%u = %s;", a, flxi_kw_grid(w, a));
    if (w->uses_lanes && w->vectors)
        flxi_kw_line(w, "const k_u32 lanes = %uu;", w->k->size[0]);
    else if (w->uses_lanes && plain)
        flxi_kw_line(w, "const k_u32 lanes = %uu;", plain->lanes);
    else if (w->uses_lanes)
        flxi_kw_line(w, "const k_u32 lanes = d->lanes;");
}

/* Memory that starts at zero for each workgroup, or for each invocation. */
static void clear(flxi_kwriter *w, flxi_kaddress address)
{
    for (uint32_t i = 1; i <= w->k->num_buffers; i++)
        if (is_in_scratch(w, i) && flxi_kw_address(w, i) == address)
            flxi_kw_line(w, "__builtin_memset(b%u, 0, %zu);", i, scratch_bytes(w, i));
}

/* ---- Loops over workgroups ---- */

const char *flxi_kw_grid(flxi_kwriter *w, unsigned axis)
{
    static const char *const numbers[] = {"d->grid[0]", "d->grid[1]", "d->grid[2]"};
    return w->file->plain ? flxi_kw_text(w, "%uu", w->file->plain->grid[axis]) : numbers[axis];
}

/* Whether the loop along this axis, which is that many units long, runs from `begin` to `end`: it is the outermost. */
static bool is_cut(flxi_kwriter *w, unsigned axis, uint64_t units)
{
    const flxi_kplain *plain = w->file->plain;
    unsigned outermost = plain->grid[2] > 1 ? 2 : plain->grid[1] > 1 ? 1 : 0;
    if (!plain->is_cut || axis != outermost)
        return false;
    w->entry->units = units;
    return true;
}

/* The head of a loop over workgroups or invocations, without its brace. */
static void add_plain_loop(flxi_kwriter *w, char letter, unsigned axis, uint64_t count)
{
    if (is_cut(w, axis, count))
        flxi_kw_addf(w, "for (k_u32 %c%u = (k_u32)begin; %c%u < (k_u32)end; %c%u++)", letter, axis, letter, axis,
                     letter, axis);
    else
        flxi_kw_addf(w, "for (k_u32 %c%u = 0; %c%u < %lluu; %c%u++)", letter, axis, letter, axis,
                     (unsigned long long)count, letter, axis);
}

/* Loops over rows of workgroups, where there are several. */
static void open_plain_row(flxi_kwriter *w)
{
    for (unsigned a = 3; a-- > 1;)
        if (w->file->plain->grid[a] > 1) {
            flxi_kw_begin(w);
            add_plain_loop(w, 'w', a, w->file->plain->grid[a]);
            flxi_kw_add(w, " {\n");
            w->depth++;
        } else if ((w->ids[FLX_KERNEL_WORKGROUP_ID] | w->ids[FLX_KERNEL_INVOCATION_ID]) >> a & 1) {
            flxi_kw_line(w, "const k_u32 w%u = 0;", a);
        }
}

static void close_plain_row(flxi_kwriter *w)
{
    for (unsigned a = 1; a < 3; a++)
        if (w->file->plain->grid[a] > 1)
            flxi_kw_close(w);
}

/* A row of workgroups starting at w0 = g0, `run` of them. */
static void open_row(flxi_kwriter *w)
{
    flxi_kw_line(w, "for (k_u64 g = begin, run; g < end; g += run) {");
    w->depth++;
    flxi_kw_line(w, "const k_u32 g0 = (k_u32)(g %% d->grid[0]);");
    uint8_t used = w->ids[FLX_KERNEL_WORKGROUP_ID] | w->ids[FLX_KERNEL_INVOCATION_ID];
    if (used & 2)
        flxi_kw_line(w, "const k_u32 w1 = (k_u32)(g / d->grid[0] %% d->grid[1]);");
    if (used & 4)
        flxi_kw_line(w, "const k_u32 w2 = (k_u32)(g / d->grid[0] / d->grid[1]);");
    flxi_kw_line(w, "run = d->grid[0] - g0 < end - g ? d->grid[0] - g0 : end - g;");
}

static void write_invocation(flxi_kwriter *w)
{
    if (has_local_arrays(w))
        flxi_kw_declare_private(w);
    else
        clear(w, KADDRESS_PRIVATE);
    for (size_t i = 0; !has_local_arrays(w) && i < w->copies.n; i++)
        flxi_kw_line(w, "k_u32 c%zu = 0, c%zu = 0, c%zu = 0;", i * 3, i * 3 + 1, i * 3 + 2);
    flxi_kw_list(w, w->k->body);
}

const flxi_kx *flxi_kw_meaning(const flxi_kwriter *w, uint32_t expr)
{
    const flxi_kx *e = &w->k->exprs[expr];
    bool is_name = e->kind == KX_VAR && !flxi_kfacts_is_assigned(&w->known, e->ref) && w->known.vars[e->ref].value;
    return is_name ? &w->k->exprs[w->known.vars[e->ref].value] : e;
}

/* Whether e is i < n (or, negated, i >= n) for the first id of the invocation and a literal or a length; `end` then
   receives n. */
static bool bounds_id(const flxi_kwriter *w, const flxi_kx *e, bool negated, uint32_t *end)
{
    if (e->kind != KX_BINARY || (e->op != (negated ? KBIN_ge : KBIN_lt) && e->op != (negated ? KBIN_le : KBIN_gt)))
        return false;
    bool is_turned = e->op == KBIN_gt || e->op == KBIN_le;
    const flxi_kx *i = flxi_kw_meaning(w, e->x[is_turned]), *n = flxi_kw_meaning(w, e->x[!is_turned]);
    *end = (uint32_t)(n - w->k->exprs);
    return i->kind == KX_ID && i->op == FLX_KERNEL_INVOCATION_ID && i->ref == 0 &&
           (n->kind == KX_LENGTH || n->kind == KX_LITERAL);
}

/* A kernel often is, after some lets, `if (i < n) { everything }`, or begins with `if (i >= n) return;`. Then
   invocations from n on do nothing, and the loop ends there: conditional stores vectorise worst. */
void flxi_kw_find_end(flxi_kwriter *w, uint32_t *end)
{
    flxi_klist list = w->k->body;
    size_t i = 0;
    while (i < list.n && list.at[i].kind == KS_LET && !(w->k->exprs[list.at[i].a].does & KX_ATOMICS))
        i++;
    const flxi_ks *s = i < list.n ? &list.at[i] : NULL;
    if (!s || s->kind != KS_IF || s->other.n > 0)
        return;
    bool returns = s->body.n == 1 && s->body.at[0].kind == KS_RETURN;
    if ((returns || i + 1 == list.n) && bounds_id(w, flxi_kw_meaning(w, s->a), returns, end))
        w->decided = s;
}

/* The head of the loop over all invocations of a row; those from `end` on do nothing. */
static void open_line(flxi_kwriter *w, uint32_t end)
{
    uint32_t n = w->k->size[0];
    flxi_kw_line(w, "k_u32 e0 = (g0 + (k_u32)run) * %uu;", n);
    if (w->decided) {
        const char *limit = flxi_kw_value(w, end);
        flxi_kw_line(w, "if (e0 > %s) e0 = %s;", limit, limit);
    }
    flxi_kw_begin(w);
    flxi_kw_addf(w, "for (k_u32 i0 = g0 * %uu; i0 < e0; i0++)", n);
    flxi_kw_open(w);
}

static void open_plain_line(flxi_kwriter *w, uint32_t end)
{
    uint64_t count = (uint64_t)w->file->plain->grid[0] * w->k->size[0];
    const flxi_kx *limit = &w->k->exprs[end];
    if (w->decided && limit->kind == KX_LITERAL)
        count = limit->bits < count ? limit->bits : count;
    else
        w->decided = NULL; /* the condition stays in the text */
    flxi_kw_begin(w);
    add_plain_loop(w, 'i', 0, count);
    flxi_kw_open(w);
}

/* All invocations of a row are one loop: nothing depends on where a workgroup ends. */
static void write_line(flxi_kwriter *w)
{
    uint32_t n = w->k->size[0], end = 0;
    const uint8_t *ids = w->ids;
    flxi_kw_find_end(w, &end);
    if (w->file->plain)
        open_plain_line(w, end);
    else
        open_line(w, end);
    if (ids[FLX_KERNEL_WORKGROUP_ID] & 1)
        flxi_kw_line(w, "const k_u32 w0 = i0 / %uu;", n);
    if ((ids[FLX_KERNEL_LOCAL_ID] & 1) || w->uses_lane)
        flxi_kw_line(w, "const k_u32 l0 = i0 %% %uu;", n);
    for (unsigned a = 1; a < 3; a++) {
        if (ids[FLX_KERNEL_INVOCATION_ID] >> a & 1)
            flxi_kw_line(w, "const k_u32 i%u = w%u;", a, a);
        if (ids[FLX_KERNEL_LOCAL_ID] >> a & 1)
            flxi_kw_line(w, "const k_u32 l%u = 0;", a);
    }
    if (w->uses_lane)
        flxi_kw_line(w, "const k_u32 lane = l0 %% lanes;");
    w->next_label = 1;
    write_invocation(w);
    if (w->label_used)
        flxi_kw_line(w, "done1:;");
    flxi_kw_close(w);
}

/* One workgroup after the other. */
static void write_groups(flxi_kwriter *w)
{
    flxi_kw_begin(w);
    if (w->file->plain)
        add_plain_loop(w, 'w', 0, w->file->plain->grid[0]);
    else
        flxi_kw_add(w, "for (k_u32 w0 = g0, e0 = g0 + (k_u32)run; w0 < e0; w0++)");
    flxi_kw_add(w, " {\n");
    w->depth++;
    clear(w, KADDRESS_WORKGROUP);
    if (!w->has_sync) {
        flxi_kw_open_interval(w); /* the only one */
        write_invocation(w);
        flxi_kw_close_interval(w);
    } else {
        clear(w, KADDRESS_PRIVATE);
        for (size_t i = 0; i < w->copies.n; i++)
            flxi_kw_line(w, "__builtin_memset(c%zu, 0, %zu);", i * 3, 4 * (size_t)flxi_kernel_workgroup(w->k));
        if (w->needs_live)
            flxi_kw_line(w, "__builtin_memset(live, 1, %u);", flxi_kernel_workgroup(w->k));
        flxi_kw_list(w, w->k->body);
        flxi_kw_close_interval(w);
        if (w->end_used)
            flxi_kw_line(w, "end:;");
    }
    flxi_kw_close(w);
}

static void write_body(flxi_kwriter *w)
{
    bool has_groups = w->has_sync || w->k->size[1] > 1 || w->k->size[2] > 1;
    for (uint32_t i = 1; i <= w->k->num_buffers; i++)
        has_groups |= w->is_accessed[i] && flxi_kw_address(w, i) == KADDRESS_WORKGROUP;
    if (w->file->plain)
        open_plain_row(w);
    else
        open_row(w);
    if (has_groups)
        write_groups(w);
    else
        write_line(w);
    if (w->file->plain)
        close_plain_row(w);
    else
        flxi_kw_close(w);
}

/* ---- The function ---- */

static const char arguments[] = "const k_dispatch *d, k_u64 begin, k_u64 end, k_u8 *scratch, k_u32 *status";

/* Subnormals may be flushed: the processor's mode is set around the call. */
static void write_flushing(flxi_kwriter *w)
{
    flxi_kw_line(w, "void %s(%s)", w->entry->name, arguments);
    flxi_kw_line(w, "{");
    flxi_kw_line(w, "#if defined(__x86_64__)");
    flxi_kw_line(w, "    const k_u32 mode = __builtin_ia32_stmxcsr();");
    flxi_kw_line(w, "    __builtin_ia32_ldmxcsr(mode | 0x8040u);");
    flxi_kw_line(w, "    %s_flushed(d, begin, end, scratch, status);", w->entry->name);
    flxi_kw_line(w, "    __builtin_ia32_ldmxcsr(mode);");
    flxi_kw_line(w, "#else");
    flxi_kw_line(w, "    %s_flushed(d, begin, end, scratch, status);", w->entry->name);
    flxi_kw_line(w, "#endif");
    flxi_kw_line(w, "}");
}

/* What is inside of the function's braces. */
static void write_inside(flxi_kwriter *w, bool in_vectors)
{
    declare_bound(w);
    flxi_kw_declare_ticks(w, w->k->body);
    if (in_vectors && w->file->plain) {
        const uint32_t *grid = w->file->plain->grid;
        w->entry->units = (uint64_t)grid[0] * grid[1] * grid[2];
        if (w->file->plain->is_for_any && !w->file->plain->is_cut) /* a formula for each, none for their product */
            flxi_kw_line(w, "const k_u64 begin = 0, end = (k_u64)%uu * %uu * %uu;", grid[0], grid[1], grid[2]);
        else if (!w->file->plain->is_cut)
            flxi_kw_line(w, "const k_u64 begin = 0, end = %lluu;", (unsigned long long)w->entry->units);
    }
    if (in_vectors) {
        flxi_vw_write(w);
    } else {
        declare_arrays(w);
        write_body(w);
    }
    flxi_kw_close(w);
}

/* static void name(const float *b1, float *b2, k_u8 *scratch) */
static void write_plain_head(flxi_kwriter *w)
{
    const char *comma = "";
    flxi_kw_addf(w, "static void %s(", w->entry->name);
    for (uint32_t i = 1; i <= w->k->num_buffers; i++) {
        if (!flxi_kw_is_bound(w, i))
            continue;
        flxi_kw_add(w, comma);
        add_pointer(w, i);
        comma = ", ";
    }
    if (w->has_traps || w->has_indirect) {
        flxi_kw_addf(w, "%sk_u32 *status", comma);
        comma = ", ";
    }
    if (w->entry->scratch) {
        flxi_kw_addf(w, "%sk_u8 *scratch", comma);
        comma = ", ";
    }
    if (w->file->plain->is_cut) {
        flxi_kw_addf(w, "%sk_u64 begin, k_u64 end", comma);
        comma = ", ";
    }
    flxi_kw_add(w, *comma ? ")\n{\n" : "void)\n{\n");
}

/* Whether there is scratch is known after the body: it is written first. */
static void write_plain(flxi_kwriter *w, bool in_vectors)
{
    flxi_strbuf body = w->out;
    flxi_strbuf_init(&w->out, w->file->mem);
    w->depth++;
    write_inside(w, in_vectors);
    flxi_strbuf inside = w->out;
    w->out = body;
    write_plain_head(w);
    if (inside.at)
        flxi_add_bytes(&w->out, inside.at, inside.n);
    w->out.failed |= inside.failed;
    flxi_strbuf_free(&inside);
}

static void write_kernel(flxi_kwriter *w)
{
    bool flushes = w->k->flags & FLX_KERNEL_FLUSH, in_vectors = w->file->vector && flxi_vw_begin(w);
    if (w->has_sync) {
        w->is_rehearsal = true;
        flxi_kw_restart(w);
        write_body(w);
        w->is_rehearsal = false;
    }
    flxi_kw_restart(w);
    if (w->file->plain) {
        write_plain(w, in_vectors);
        return;
    }
    if (w->file->vector)
        flxi_vw_comment(w);
    if (flushes)
        flxi_kw_line(w, "__attribute__((noinline)) static void %s_flushed(%s)", w->entry->name, arguments);
    else
        flxi_kw_line(w, "void %s(%s)", w->entry->name, arguments);
    flxi_kw_line(w, "{");
    w->depth++;
    write_inside(w, in_vectors);
    if (flushes)
        write_flushing(w);
}

const flxi_ktarget flxi_target_c = {
    .name = "c",
    .spelling = offsetof(flx_kernel_extension, c),
    .abilities = FLX_KERNEL_HAS_SUBGROUPS | FLX_KERNEL_HAS_COLLECTIVES,
    .max_workgroup_bytes = (uint64_t)1 << 30,
    .max_private_bytes = (uint64_t)1 << 20,
    .is_serial = true,
    .heading = heading,
    .function = "static inline",
    .space = {"", "", ""},
    .suffix = {"", "", ""},
    .u64_suffix = "ull",
    .i64_suffix = "ll",
    .f32_suffix = "f",
    .unaries = unaries,
    .binaries = binaries,
    .fma = "__builtin_fma$f($a, $b, $c)",
    .native_atomics = 1u << FLX_KERNEL_ATOMIC_ADD | 1u << FLX_KERNEL_ATOMIC_SUB | 1u << FLX_KERNEL_ATOMIC_AND |
                      1u << FLX_KERNEL_ATOMIC_OR | 1u << FLX_KERNEL_ATOMIC_XOR,
    .write = write_kernel,
    .helpers = helpers,
};
