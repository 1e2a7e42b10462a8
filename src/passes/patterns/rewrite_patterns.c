/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite_patterns.c: pattern rewrites: patterns of primitive ops become the ops with the same meaning. In a round,
   every node is tried with the patterns that end in its op, the last node first, so that the larger of two patterns
   that share an end comes first. What is proven is claimed and replaced, and rounds repeat until nothing is found. Ops
   that other patterns contain come in an earlier stage. Each node is examined a bounded number of times in a round, and
   a round that replaces nothing is the last. */
#include "autodiff/autodiff.h"
#include "base/options.h"
#include "base/text/count_words.h"
#include "ops/rule/decomposed.h"
#include "passes/body_map.h"
#include "passes/patterns/pattern.h"

#include <stdio.h>

/* ---- The patterns ---- */

typedef struct {
    flxi_opcode ends; /* the op of the root; OP_NONE: any activation */
    uint32_t pattern; /* a flx_pattern */
    int stage;
    flxi_pattern propose;
} pattern_row;

static const pattern_row patterns[] = {
    {OP_div, FLX_PATTERN_SOFTMAX, 0, flxi_pattern_softmax},
    {OP_sub, FLX_PATTERN_LOG_SOFTMAX, 0, flxi_pattern_log_softmax},
    {OP_add, FLX_PATTERN_NORM, 0, flxi_pattern_norm},
    {OP_mul, FLX_PATTERN_NORM, 0, flxi_pattern_norm},
    {OP_sub, FLX_PATTERN_CROSS_ENTROPY, 1, flxi_pattern_cross_entropy},
    {OP_neg, FLX_PATTERN_CROSS_ENTROPY, 1, flxi_pattern_cross_entropy},
    {OP_layer_norm, FLX_PATTERN_RESIDUAL_NORM, 1, flxi_pattern_residual_norm},
    {OP_rms_norm, FLX_PATTERN_RESIDUAL_NORM, 1, flxi_pattern_residual_norm},
    {OP_reshape, FLX_PATTERN_ATTENTION, 1, flxi_pattern_attention},
    {OP_matmul, FLX_PATTERN_ATTENTION, 1, flxi_pattern_attention},
    {OP_mul, FLX_PATTERN_SWIGLU, 1, flxi_pattern_swiglu},
    {OP_NONE, FLX_PATTERN_CONV_BIAS, 1, flxi_pattern_conv_bias},
    {OP_add, FLX_PATTERN_CONV_BIAS, 1, flxi_pattern_conv_bias},
    {OP_NONE, FLX_PATTERN_MATMUL_BIAS, 1, flxi_pattern_matmul_bias},
    {OP_add, FLX_PATTERN_MATMUL_BIAS, 1, flxi_pattern_matmul_bias},
    {OP_add, FLX_PATTERN_MATMUL_RESIDUAL, 1, flxi_pattern_matmul_residual},
};

enum { NUM_PATTERNS = sizeof patterns / sizeof *patterns, NUM_STAGES = 2 };

static const char *const pattern_names[] = {
#define NAME(name, value, text) [value] = text,
    FLX_PATTERN_MAP(NAME)
#undef NAME
};

const char *flx_pattern_name(uint32_t pattern)
{
    return pattern < sizeof pattern_names / sizeof *pattern_names ? pattern_names[pattern] : NULL;
}

/* ---- A round ---- */

struct flxi_rewriting {
    const flx_graph *g;
    uint32_t *uses;           /* by id */
    uint32_t *inner;          /* by id: uses inside the nodes that a proposal covers */
    bool *closed;             /* by node: depends on no leaf, so it may stay next to the new op */
    bool *claimed;            /* by node: inside a part that will be rewritten */
    bool *nearly;             /* by node: inside a part that could not be rewritten, reported once, at its end */
    bool *covered;            /* by node: covered by the current proposal */
    flxi_proposal **proposed; /* by node: its replacement */
    flxi_arena arena;         /* all of these except `uses`, and proposals */
    bool exact;
    bool is_found; /* for the current root */
    uint32_t root, pattern;
    uint32_t count;
    flx_near_miss miss;         /* of the current root and pattern */
    flx_rewrite_report *report; /* of this round */
    flx_code code;
    flx_error *err;
};

const flx_graph *flxi_fused_graph(const flxi_rewriting *f)
{
    return f->g;
}

static bool find_closed(const flx_graph *g, const flxi_node *n, const bool *closed)
{
    const flxi_op *op = &flxi_ops[n->op];
    if ((op->traits & (TRAIT_DECLARED | TRAIT_EFFECT | TRAIT_OPAQUE)) || op->op_class == CLASS_RANDOM)
        return false;
    for (uint32_t k = 0; k < n->nin; k++)
        if (!closed[flxi_value_at(g, n->in[k])->node])
            return false;
    return true;
}

static flx_code open_round(flxi_rewriting *f)
{
    const flx_graph *g = f->g;
    size_t nodes = g->node_count, ids = (size_t)g->value_count + 1;
    flxi_arena_init(&f->arena, &g->ctx->mem);
    f->uses = flxi_count_uses(g);
    f->inner = flxi_new(&f->arena, uint32_t, ids);
    f->closed = flxi_new(&f->arena, bool, nodes);
    f->claimed = flxi_new(&f->arena, bool, nodes);
    f->covered = flxi_new(&f->arena, bool, nodes);
    f->nearly = flxi_new(&f->arena, bool, nodes);
    f->proposed = flxi_new(&f->arena, flxi_proposal *, nodes);
    if (!f->uses || !f->inner || !f->closed || !f->claimed || !f->covered || !f->nearly || !f->proposed)
        return flxi_oom(f->err, "rewriting patterns");
    for (uint32_t i = 0; i < nodes; i++)
        f->closed[i] = find_closed(g, flxi_node_at(g, i), f->closed);
    return FLX_OK;
}

static void close_round(flxi_rewriting *f)
{
    if (f->uses)
        flxi_free(&f->g->ctx->mem, f->uses, (size_t)f->g->value_count + 1, sizeof *f->uses);
    flxi_arena_free(&f->arena);
}

/* ---- Proving a proposal ---- */

static bool refuse(flxi_rewriting *f, const char *fmt, ...) FLX_PRINTF(2, 3);
static bool refuse(flxi_rewriting *f, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    flxi_format_va(f->miss.reason, sizeof f->miss.reason, fmt, args);
    va_end(args);
    return false;
}

/* Appends the proposed op on these operands. */
static flx_val append_proposed(flx_graph *g, const flxi_proposal *p, const flx_val *in, bool plainly)
{
    flx_val x[FLXI_MOST_OPERANDS];
    for (uint32_t i = 0; i < p->nin; i++) {
        flx_ints dims = {p->in[i].dims, (size_t)p->in[i].rank};
        x[i] = p->in[i].view == VIEW_NONE      ? in[i]
               : p->in[i].view == VIEW_RESHAPE ? flx_reshape(g, in[i], dims)
                                               : flx_transpose(g, in[i], dims);
    }
    if (plainly)
        return p->plain(g, x, p);
    return flx_op1(g, flxi_ops[p->op].name, x, p->nin, p->attrs, p->nattrs);
}

static flxi_expansion choose_proposed(const flx_graph *g, uint32_t i, const void *user)
{
    flxi_opcode op = flxi_node_at(g, i)->op;
    return op == *(const flxi_opcode *)user ? flxi_ops[op].rules->decompose : NULL;
}

/* The op, or its plain form, on leaves of the operands' types. */
static flx_code write_pattern(flxi_rewriting *f, const flxi_proposal *p, bool plainly, flx_graph **out, flx_error *err)
{
    flx_val in[FLXI_MOST_OPERANDS];
    flx_graph *g = *out = flx_graph_new(f->g->ctx, "pattern");
    if (!g)
        return flxi_oom(err, "a pattern");
    for (uint32_t i = 0; i < p->nin; i++)
        in[i] = flx_input(g, (const char[]){'x', (char)('0' + i), 0}, flxi_type_at(f->g, p->in[i].id));
    flx_output(g, append_proposed(g, p, in, plainly), "y");
    return flxi_built(g, err);
}

/* The op's meaning, simplified like the graph. The op itself is appended first, to check that it accepts the
   operands. */
static flx_code build_pattern(flxi_rewriting *f, const flxi_proposal *p, flx_graph **out, flx_error *err)
{
    flx_graph *g = NULL, *expanded = NULL;
    flx_code code = write_pattern(f, p, false, &g, err);
    if (code == FLX_OK && !flxi_type_equal(flxi_type_at(g, g->outputs.at[0].val), flxi_type_at(f->g, f->root)))
        code = flxi_fail(err, FLX_E_SHAPE, "%s would have a different type", flxi_ops[p->op].name);
    if (code == FLX_OK && p->plain) {
        flx_graph_release(g);
        code = write_pattern(f, p, true, &g, err);
    }
    if (code == FLX_OK)
        code = flxi_expand(g, choose_proposed, &p->op, &expanded, NULL, err);
    flx_graph_release(g);
    if (code == FLX_OK)
        code = flxi_simplify(expanded, out, NULL, err);
    flx_graph_release(expanded);
    return code;
}

static flx_code match_pattern(flxi_rewriting *f, const flxi_proposal *p, const flx_graph *pattern, flxi_agreement *a)
{
    uint32_t in[FLXI_MOST_OPERANDS] = {0};
    for (size_t i = 0; i < pattern->leaves.n; i++) /* by name: simplifying may have moved them */
        in[i] = p->in[flxi_value_at(pattern, pattern->leaves.at[i])->name[1] - '0'].id;
    return flxi_agree(pattern, in, f->g, f->root, p->stops_cancel, a, f->err);
}

/* Counts each covered node once, with the uses that its operands have inside. */
static void cover_nodes(flxi_rewriting *f, flxi_agreement *a, bool on)
{
    size_t distinct = 0;
    for (size_t i = 0; i < a->n; i++) {
        if (f->covered[a->nodes[i]] == on)
            continue;
        f->covered[a->nodes[i]] = on;
        a->nodes[distinct++] = a->nodes[i];
    }
    a->n = on ? distinct : a->n;
    for (size_t i = 0; i < a->n; i++) {
        const flxi_node *n = flxi_node_at(f->g, a->nodes[i]);
        for (uint32_t k = 0; k < n->nin; k++)
            f->inner[n->in[k]] = on ? f->inner[n->in[k]] + 1 : 0;
    }
}

static bool is_output(const flx_graph *g, uint32_t id)
{
    for (size_t k = 0; k < g->outputs.n; k++)
        if (g->outputs.at[k].val == id)
            return true;
    return false;
}

/* Nothing outside reads what is removed. */
static bool is_private(flxi_rewriting *f, const flxi_proposal *p, const flxi_agreement *a)
{
    flxi_value_text text;
    for (size_t i = 0; i < a->n; i++) {
        const flxi_node *n = flxi_node_at(f->g, a->nodes[i]);
        if (n->first == f->root || f->closed[a->nodes[i]])
            continue;
        for (uint32_t id = n->first; id < n->first + n->nout; id++) {
            const char *why = flxi_value_at(f->g, id)->pinned ? "is pinned"
                              : f->uses[id] == f->inner[id]   ? NULL
                              : is_output(f->g, id)           ? "is an output"
                                                              : "is used elsewhere";
            if (why)
                return refuse(f, "%s %s", flxi_value_str(f->g, id, NULL, &text), why);
        }
    }
    for (uint32_t i = 0; i < p->nin; i++) {
        uint32_t node = flxi_value_at(f->g, p->in[i].id)->node;
        if (f->covered[node] && !f->closed[node])
            return refuse(f, "%s is both inside the pattern and an operand",
                          flxi_value_str(f->g, p->in[i].id, NULL, &text));
    }
    return true;
}

/* Evaluated in one step, a softmax in f16 or bf16 is rounded less often than its parts. */
static bool rounds_alike(const flxi_rewriting *f, const flxi_proposal *p)
{
    return flxi_ops[p->op].rules->eval == flxi_eval_decomposed || flxi_type_at(f->g, f->root)->dtype == FLX_F64;
}

static bool is_structure(flxi_rewriting *f, const flxi_proposal *p, const flxi_agreement *a)
{
    flxi_value_text text;
    if (a->found)
        return true;
    bool same = flxi_maker(f->g, a->culprit)->op == a->wanted;
    bool leaf = (flxi_ops[a->wanted].traits & TRAIT_DECLARED) != 0;
    return refuse(f, "%s does not match what %s needs there%s%s", flxi_value_str(f->g, a->culprit, NULL, &text),
                  flxi_ops[p->op].name, same || leaf ? "" : ": ", same || leaf ? "" : flxi_ops[a->wanted].name);
}

static bool is_exact_enough(flxi_rewriting *f, const flxi_proposal *p, const flxi_agreement *a)
{
    if (f->exact && p->plain)
        return refuse(f, "%s", p->differs);
    if (f->exact && (a->differs || !rounds_alike(f, p)))
        return refuse(f, "%s would round differently", flxi_ops[p->op].name);
    return true;
}

static bool is_proven(flxi_rewriting *f, const flxi_proposal *p, flxi_agreement *a)
{
    if (!is_structure(f, p, a))
        return false;
    cover_nodes(f, a, true);
    bool proven = is_exact_enough(f, p, a) && is_private(f, p, a);
    for (size_t i = 0; i < a->n; i++) {
        bool is_inside = !f->closed[a->nodes[i]];
        f->claimed[a->nodes[i]] |= proven && is_inside;
        f->nearly[a->nodes[i]] |= !proven && is_inside && flxi_node_at(f->g, a->nodes[i])->first != f->root;
    }
    cover_nodes(f, a, false);
    return proven;
}

bool flxi_propose(flxi_rewriting *f, const flxi_proposal *p)
{
    flx_graph *pattern = NULL;
    flxi_agreement a = {0};
    flx_error err = {0};
    if (f->code != FLX_OK)
        return true;
    flx_code code = build_pattern(f, p, &pattern, &err);
    if (code == FLX_E_OOM) {
        f->code = flxi_oom(f->err, "rewriting patterns");
        return true;
    }
    if (code != FLX_OK)
        return refuse(f, "%s", err.message);
    f->code = match_pattern(f, p, pattern, &a);
    flx_graph_release(pattern);
    if (f->code == FLX_OK && is_proven(f, p, &a)) {
        uint32_t node = flxi_value_at(f->g, f->root)->node;
        f->proposed[node] = flxi_dup(&f->arena, flxi_proposal, p, 1);
        f->is_found = true;
        f->code = f->proposed[node] ? FLX_OK : flxi_oom(f->err, "rewriting patterns");
    }
    if (a.nodes)
        flxi_free(&f->g->ctx->mem, a.nodes, a.cap, sizeof *a.nodes);
    return f->code != FLX_OK || f->is_found;
}

/* ---- Trying all patterns ---- */

static bool ends_in(const pattern_row *r, flxi_opcode op)
{
    return r->ends == op || (r->ends == OP_NONE && flxi_activation_of(op) != 0);
}

static void note_miss(flxi_rewriting *f)
{
    flxi_value_text text;
    if (!f->miss.reason[0] || f->nearly[flxi_value_at(f->g, f->root)->node])
        return;
    f->miss.pattern = f->pattern;
    snprintf(f->miss.where, sizeof f->miss.where, "%.60s", flxi_value_str(f->g, f->root, NULL, &text));
    if (f->report->miss_count < FLX_NEAR_MISS_ROOM)
        f->report->misses[f->report->miss_count] = f->miss;
    f->report->miss_count++;
}

static void show_node(flxi_rewriting *f, uint32_t i, int stage)
{
    const flxi_node *n = flxi_node_at(f->g, i);
    f->is_found = false;
    for (size_t k = 0; k < NUM_PATTERNS && f->code == FLX_OK && !f->is_found; k++) {
        if (patterns[k].stage != stage || !ends_in(&patterns[k], n->op))
            continue;
        f->root = n->first;
        f->pattern = patterns[k].pattern;
        f->miss = (flx_near_miss){0};
        patterns[k].propose(f, f->root);
        if (f->is_found) {
            f->report->rewritten[f->pattern]++;
            f->count++;
        } else {
            note_miss(f);
        }
    }
}

static flx_code replace_fused(flxi_rewriting *f, flx_graph **out)
{
    flxi_copy c;
    flx_code code = flxi_copy_begin(&c, f->g, f->err);
    for (uint32_t i = 0; code == FLX_OK && i < f->g->node_count; i++) {
        const flxi_proposal *p = f->proposed[i];
        flx_val in[FLXI_MOST_OPERANDS];
        if (!p && f->claimed[i])
            continue;
        if (!p) {
            code = flxi_copy_node(&c, i);
            continue;
        }
        for (uint32_t k = 0; k < p->nin; k++)
            in[k] = (flx_val){c.remap.id[p->in[k].id], c.to->serial};
        flx_val y = append_proposed(c.to, p, in, false);
        code = flxi_built(c.to, f->err);
        if (code == FLX_OK)
            flxi_copy_replace(&c, flxi_node_at(f->g, i)->first, y.id);
    }
    return flxi_copy_end(&c, code, out, NULL);
}

/* *now is replaced when something is found. */
static flx_code rewrite_round(flx_graph **now, int stage, bool is_exact, flx_rewrite_report *report, uint32_t *count,
                              flx_error *err)
{
    flxi_rewriting f = {.g = *now, .exact = is_exact, .report = report, .err = err};
    flx_graph *made = NULL, *simple = NULL;
    flx_code code = open_round(&f);
    for (uint32_t i = (*now)->node_count; code == FLX_OK && i-- > 0;) {
        if (!f.claimed[i])
            show_node(&f, i, stage);
        code = f.code;
    }
    if (code == FLX_OK && f.count)
        code = replace_fused(&f, &made);
    if (code == FLX_OK && f.count)
        code = flxi_simplify(made, &simple, NULL, err);
    close_round(&f);
    flx_graph_release(made);
    *count = f.count;
    if (simple) {
        flx_graph_release(*now);
        *now = simple;
    }
    return code;
}

/* ---- Graphs and bodies ---- */

typedef struct {
    uint32_t flags;
    flx_rewrite_report *report;
    flxi_body_map bodies;
} rewriter;

/* Counts add up; near misses are those of the last round, which saw the graph as it stays. */
static void add_round(flx_rewrite_report *to, const flx_rewrite_report *round, bool is_last)
{
    for (size_t i = 0; i < FLX_PATTERN_ROOM; i++)
        to->rewritten[i] += round->rewritten[i];
    for (uint32_t i = 0; is_last && i < round->miss_count; i++) {
        if (to->miss_count < FLX_NEAR_MISS_ROOM && i < FLX_NEAR_MISS_ROOM)
            to->misses[to->miss_count] = round->misses[i];
        to->miss_count++;
    }
}

static flx_code rewrite_stage(rewriter *u, flx_graph **now, int stage, flx_rewrite_report *round, flx_error *err)
{
    for (uint32_t count = 1; count;) {
        memset(round, 0, sizeof *round);
        FLXI_TRY(rewrite_round(now, stage, u->flags & FLX_REWRITE_EXACT, round, &count, err));
        add_round(u->report, round, count == 0);
    }
    return FLX_OK;
}

static flx_code rewrite_in(void *user, const flx_graph *in, flx_graph **out, flx_error *err)
{
    rewriter *u = user;
    flx_graph *mapped = NULL, *now = NULL;
    flx_rewrite_report *round = flxi_alloc(&in->ctx->mem, 1, sizeof *round);
    flx_code code = round ? flxi_map_bodies(&u->bodies, in, &mapped, NULL, err) : flxi_oom(err, "rewriting patterns");
    if (code == FLX_OK)
        code = flxi_simplify(mapped, &now, NULL, err);
    flx_graph_release(mapped);
    for (int stage = 0; code == FLX_OK && stage < NUM_STAGES; stage++)
        code = rewrite_stage(u, &now, stage, round, err);
    if (round)
        flxi_free(&in->ctx->mem, round, 1, sizeof *round);
    if (code == FLX_OK)
        *out = now;
    else
        flx_graph_release(now);
    return code;
}

static flx_code rewrite_all(rewriter *u, const flx_graph *g, flx_graph **out, flx_error *err)
{
    flx_graph *now = NULL;
    FLXI_TRY(rewrite_in(u, g, &now, err));
    if (!(u->flags & FLX_REWRITE_REGIONS)) {
        *out = now;
        return FLX_OK;
    }
    flx_graph *regions = NULL;
    flx_code code = flxi_rewrite_regions(now, &regions, &u->report->rewritten[FLX_PATTERN_REGION], err);
    flx_graph_release(now);
    if (code == FLX_OK)
        code = flxi_batch_regions(regions, out, &u->report->rewritten[FLX_PATTERN_BATCH_REGION], err);
    flx_graph_release(regions);
    return code;
}

static flx_code check_clean(const flx_rewrite_report *r, uint32_t flags, flx_error *err)
{
    if (!(flags & FLX_REWRITE_CLEAN) || r->miss_count == 0)
        return FLX_OK;
    return flxi_fail(err, FLX_E_CHECK, "%u near misses, the first at %s: %s: %s", r->miss_count, r->misses[0].where,
                     flx_pattern_name(r->misses[0].pattern), r->misses[0].reason);
}

static flx_code rewrite_into(const flx_graph *g, uint32_t flags, flx_rewrite_report *report, flx_graph **out,
                             flx_error *err)
{
    rewriter u = {.flags = flags, .report = report, .bodies = {.mem = &g->ctx->mem, .map = rewrite_in}};
    u.bodies.user = &u;
    memset(report, 0, sizeof *report);
    flx_code code = rewrite_all(&u, g, out, err);
    flxi_body_map_free(&u.bodies);
    if (code == FLX_OK)
        code = flxi_verify(*out, err);
    return code == FLX_OK ? check_clean(report, flags, err) : code;
}

flx_graph *flx_rewrite_patterns(const flx_graph *g, const flx_rewrite_options *options, flx_rewrite_report *report,
                                flx_error *err)
{
    static const uint32_t known = FLX_REWRITE_EXACT | FLX_REWRITE_REGIONS | FLX_REWRITE_CLEAN;
    flx_error local = {0};
    flx_graph *out = NULL;
    flx_rewrite_options o;
    flx_code code = flx_graph_error(g, &local);
    if (code == FLX_OK)
        code = FLXI_READ_OPTIONS(flx_rewrite_options, &o, options, &local);
    uint32_t flags = code == FLX_OK ? o.flags : 0;
    if (code == FLX_OK && flags & ~known)
        code = flxi_fail(&local, FLX_E_USAGE, "flx_rewrite_patterns: unknown flags 0x%x", (unsigned)(flags & ~known));
    flx_rewrite_report *own = code == FLX_OK && !report ? flxi_alloc(&g->ctx->mem, 1, sizeof *own) : NULL;
    if (code == FLX_OK && !report && !own)
        code = flxi_oom(&local, "rewriting patterns");
    if (code == FLX_OK)
        code = rewrite_into(g, flags, report ? report : own, &out, &local);
    if (own)
        flxi_free(&g->ctx->mem, own, 1, sizeof *own);
    if (code == FLX_OK)
        return out;
    flx_graph_release(out);
    if (err)
        *err = local;
    return NULL;
}
