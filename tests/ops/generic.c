/* SPDX-License-Identifier: Apache-2.0 */
/* generic.c: properties of every op, tested on every sample of the table in every dtype. A new op is tested here
   without any new code. */
#include "fault.h"
#include "graph/graph.h"
#include "ops/opcode.h"
#include "passes/pass.h"
#include "sample.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RESULTS = 64 };

/* ---- The table itself ---- */

static bool has_sample(const flxi_rules *r, bool valid)
{
    for (const flxi_sample *s = r->samples; s && (s->operands || s->attrs); s++)
        if ((s->error == FLX_OK) == valid)
            return true;
    return false;
}

static void check_schema(const flxi_op *op)
{
    int n = 0;
    bool positional = true;
    for (const flxi_attr *a = op->rules->schema; a && a->name; a++, n++) {
        bool is_kernel = strcmp(a->name, "kernel") == 0; /* reserved, but kernel=@saxpy is how kernels are called */
        EXPECT_MSG(is_kernel || flxi_is_name(a->name, strlen(a->name)), "%s: attribute name '%s'", op->name, a->name);
        EXPECT_MSG(positional || !(a->flags & ATTR_POSITIONAL), "%s: positional attributes come first", op->name);
        positional = (a->flags & ATTR_POSITIONAL) != 0;
        EXPECT_MSG(a->offset < op->rules->attrs_size, "%s: attribute '%s' is outside its struct", op->name, a->name);
        bool is_list = a->kind == ATTR_INTS || a->kind == ATTR_DIMS || a->kind == ATTR_BOOLS || a->kind == ATTR_PAIRS;
        EXPECT_MSG(!is_list || a->note || (a->flags & ATTR_REQUIRED), "%s: the default of '%s' is not stated", op->name,
                   a->name);
    }
    EXPECT_MSG(n < 64, "%s has more attributes than a bit set holds", op->name);
    EXPECT_MSG((n == 0) == (op->rules->attrs_size == 0), "%s: size of attributes", op->name);
}

TEST(generic_table_is_complete)
{
    for (int i = 1; i < OP_COUNT; i++) {
        const flxi_op *op = &flxi_ops[i];
        const flxi_rules *r = op->rules;
        bool declared = (op->traits & TRAIT_DECLARED) != 0;
        bool registered = flxi_has_own_attrs(op); /* exists only where a program registers it: host_op.c */
        EXPECT_MSG(declared || flxi_is_name(op->name, strlen(op->name)), "'%s' is not a name", op->name);
        EXPECT_MSG(op->doc && *op->doc, "%s has no documentation", op->name);
        EXPECT_MSG(r->infer && r->eval, "%s lacks infer or eval", op->name);
        EXPECT_MSG(op->dtypes != 0, "%s takes no dtype", op->name);
        EXPECT_MSG(declared || registered || has_sample(r, true), "%s has no valid sample", op->name);
        EXPECT_MSG(declared || has_sample(r, false), "%s has no sample that must fail", op->name);
        EXPECT_MSG(!r->undefined || *r->undefined, "%s: an empty reason", op->name);
        EXPECT_MSG(flxi_op_lookup(op->name, strlen(op->name)) == (flxi_opcode)i, "%s is found under its name",
                   op->name);
        check_schema(op);
        test_count_case();
    }
}

/* ---- Every sample ---- */

static void build_sample(const sample_case *c)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    flx_code code = m ? FLX_OK : (flx_code)err.code;
    if (EXPECT_MSG(code == c->sample->error, "got %s, expected %s: %s", flx_code_name(code),
                   flx_code_name(c->sample->error), err.message) &&
        !m)
        EXPECT_MSG(err.message[0] && strncmp(err.where, "sample:", 7) == 0, "message '%s' at '%s'", err.message,
                   err.where);
    if (m)
        EXPECT_MSG(flx_graph_verify(flx_module_main(m), &err) == FLX_OK, "%s", err.message);
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
}

TEST(generic_samples_build_or_fail_as_stated)
{
    sample_each(build_sample);
}

static void round_trip(const sample_case *c)
{
    flx_error err = {0};
    flx_buffer text = {0};
    flx_buffer again = {0};
    flx_buffer bytes = {0};
    if (c->sample->error)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    flx_module *from_text = NULL;
    flx_module *from_bytes = NULL;
    if (m && EXPECT_MSG(flx_graph_print(flx_module_main(m), &text, &err) == FLX_OK, "%s", err.message)) {
        uint64_t hash = flx_graph_hash(flx_module_main(m));
        from_text = flx_parse(ctx, text.data, text.size, "printed", &err);
        if (EXPECT_MSG(from_text != NULL, "%s: %s in\n%s", err.where, err.message, text.data)) {
            EXPECT_MSG(flx_graph_hash(flx_module_main(from_text)) == hash, "text changes the graph:\n%s", text.data);
            flx_graph_print(flx_module_main(from_text), &again, &err);
            EXPECT_MSG(again.data && strcmp(text.data, again.data) == 0, "text is not stable:\n%s\n%s", text.data,
                       again.data ? again.data : err.message);
        }
        flx_buffer_free(&again);
        if (EXPECT_MSG(flx_graph_encode(flx_module_main(m), &bytes, &err) == FLX_OK, "%s", err.message))
            from_bytes = flx_decode(ctx, bytes.data, bytes.size, "bytes", &err);
        if (EXPECT_MSG(from_bytes != NULL, "%s", err.message)) {
            EXPECT_MSG(flx_graph_hash(flx_module_main(from_bytes)) == hash, "the binary form changes the graph");
            flx_graph_encode(flx_module_main(from_bytes), &again, &err);
            EXPECT_MSG(again.size == bytes.size && memcmp(again.data, bytes.data, bytes.size) == 0,
                       "the binary form is not stable");
        }
    }
    flx_buffer_free(&text);
    flx_buffer_free(&again);
    flx_buffer_free(&bytes);
    flx_module_free(m);
    flx_module_free(from_text);
    flx_module_free(from_bytes);
    flx_context_free(ctx);
    test_count_case();
}

TEST(generic_text_and_binary_round_trip)
{
    sample_each(round_trip);
}

static void release_all(flx_tensor **t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(t[i]);
}

/* Runs, gives the inferred types, and gives the same bits again. */
static void run_sample(const sample_case *c)
{
    flx_error err = {0};
    flx_tensor *a[MAX_RESULTS] = {0};
    flx_tensor *b[MAX_RESULTS] = {0};
    if (c->sample->error)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    const flx_graph *g = flx_module_main(m);
    size_t n = flx_graph_output_count(g);
    if (m && n <= MAX_RESULTS) {
        flx_code first = sample_run(g, c, FILL_RANDOM, a, &err);
        flx_code second = sample_run(g, c, FILL_RANDOM, b, &err);
        if (EXPECT_MSG(first == FLX_OK && second == FLX_OK, "%s %s", flx_code_name(first), err.message))
            for (size_t i = 0; i < n; i++)
                EXPECT_MSG(
                    flx_tensor_nbytes(a[i]) == flx_tensor_nbytes(b[i]) &&
                        memcmp(flx_tensor_const_data(a[i]), flx_tensor_const_data(b[i]), flx_tensor_nbytes(a[i])) == 0,
                    "result %zu differs between two runs", i);
    }
    release_all(a, MAX_RESULTS);
    release_all(b, MAX_RESULTS);
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
}

TEST(generic_samples_run_and_repeat)
{
    sample_each(run_sample);
}

/* NaN, infinities, extremes, indices far outside: any result or error is allowed, access outside the buffers is not. */
static void run_special(const sample_case *c)
{
    flx_error err = {0};
    flx_tensor *out[MAX_RESULTS] = {0};
    if (c->sample->error || strcmp(flxi_ops[c->op].name, "while") == 0)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    if (m && flx_graph_output_count(flx_module_main(m)) <= MAX_RESULTS) {
        flx_code code = sample_run(flx_module_main(m), c, FILL_SPECIAL, out, &err);
        EXPECT_MSG(code == FLX_OK || code == FLX_E_INDEX || code == FLX_E_NUMERIC || code == FLX_E_CHECK, "%s %s",
                   flx_code_name(code), err.message);
    }
    release_all(out, MAX_RESULTS);
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
}

TEST(generic_extreme_values_stay_inside)
{
    sample_each(run_special);
}

/* ---- Symbols: specialising equals building with numbers ---- */

static char *replace_symbol(const char *text, const char *number)
{
    char *out = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&out, &size);
    for (const char *p = text; *p; p++) {
        bool word_before =
            p > text && (p[-1] == '_' || (p[-1] | 32) >= 'a' ? (p[-1] | 32) <= 'z' || p[-1] == '_' : false);
        bool word_after = p[1] == '_' || ((p[1] | 32) >= 'a' && (p[1] | 32) <= 'z') || (p[1] >= '0' && p[1] <= '9');
        if (*p == 'N' && !word_before && !word_after)
            fputs(number, f);
        else
            fputc(*p, f);
    }
    fclose(f);
    return out;
}

static void specialise_sample(const sample_case *c)
{
    flx_error err = {0};
    flx_dim_binding binding = {"N", SAMPLE_EXTENT};
    if (c->sample->error || !c->sample->operands)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    const flx_graph *g = flx_module_main(m);
    if (m && flx_graph_symbol(g, 0) && strcmp(flx_graph_symbol(g, 0), "N") == 0 && !flx_graph_symbol(g, 1)) {
        char number[16];
        snprintf(number, sizeof number, "%d", SAMPLE_EXTENT);
        flxi_sample concrete = *c->sample;
        char *operands = replace_symbol(c->sample->operands, number);
        char *attrs = c->sample->attrs ? replace_symbol(c->sample->attrs, number) : NULL;
        char *graphs = c->sample->graphs ? replace_symbol(c->sample->graphs, number) : NULL;
        concrete.operands = operands;
        concrete.attrs = attrs;
        concrete.graphs = graphs;
        sample_case direct = {.op = c->op, .sample = &concrete, .dtype = c->dtype};
        flx_graph *bound = flx_specialise(g, &binding, 1, &err);
        flx_module *built = bound ? sample_parse(ctx, &direct, &err) : NULL;
        EXPECT_MSG(bound != NULL, "%s", err.message);
        if (bound && EXPECT_MSG(built != NULL, "%s", err.message))
            EXPECT_MSG(flx_graph_hash(bound) == flx_graph_hash(flx_module_main(built)),
                       "specialising differs from building with numbers");
        flx_graph_release(bound);
        flx_module_free(built);
        free(operands);
        free(attrs);
        free(graphs);
        test_count_case();
    }
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(generic_specialising_equals_building)
{
    sample_each(specialise_sample);
}

/* ---- Errors that every op must report ---- */

static flx_code parse_code(const char *text, flx_error *err)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "sample", err);
    flx_code code = m ? FLX_OK : (flx_code)err->code;
    flx_module_free(m);
    flx_context_free(ctx);
    return code;
}

static void break_sample(const sample_case *c)
{
    const flxi_op *op = &flxi_ops[c->op];
    flx_error err = {0};
    if (c->sample->error || c->sample != op->rules->samples || c->dtype > FLX_F64)
        return; /* once per op is enough */
    char *unknown = sample_text(c, -1, "no_such_attribute=1");
    flx_code code = parse_code(unknown, &err);
    EXPECT_MSG(code == FLX_E_ATTRIBUTE && err.hint[0], "unknown attribute: %s %s", flx_code_name(code), err.message);
    free(unknown);
    const flxi_operands *o = flxi_operands_of(op);
    if (o->required > 0) {
        char *few = sample_text(c, o->required - 1, NULL);
        code = parse_code(few, &err);
        EXPECT_MSG(code == FLX_E_ARITY, "too few operands: %s %s", flx_code_name(code), err.message);
        free(few);
    }
    test_count_case();
}

TEST(generic_wrong_attributes_and_arity_are_errors)
{
    sample_each(break_sample);
}

TEST(generic_other_dtypes_are_errors)
{
    for (int i = 1; i < OP_COUNT; i++) {
        const flxi_sample *s = flxi_ops[i].rules->samples;
        if (!s || !s->operands || s->error || !sample_uses_t(s) || !strchr(s->operands, 'T'))
            continue;
        for (int32_t d = 1; d < FLX_DTYPE_COUNT; d++) {
            if (flxi_ops[i].dtypes >> d & 1)
                continue;
            sample_case c = {.op = (flxi_opcode)i, .sample = s, .dtype = d};
            flx_error err = {0};
            test_fail_context("%s", sample_describe(&c));
            flx_context *ctx = flx_context_new(NULL);
            flx_module *m = sample_parse(ctx, &c, &err);
            EXPECT_MSG(!m && err.code == FLX_E_DTYPE, "%s accepts %s, or says %s", flxi_ops[i].name, flx_dtype_name(d),
                       err.message);
            flx_module_free(m);
            flx_context_free(ctx);
            test_count_case();
        }
    }
}

/* ---- Passes ---- */

static void run_passes(const sample_case *c)
{
    static const flxi_pass passes[] = {flxi_pass_dce, flxi_pass_cse};
    flx_error err = {0};
    if (c->sample->error)
        return;
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = sample_parse(ctx, c, &err);
    for (size_t i = 0; m && i < sizeof passes / sizeof passes[0]; i++) {
        flx_graph *out = NULL;
        flxi_remap remap = {0};
        const flx_graph *g = flx_module_main(m);
        if (EXPECT_MSG(passes[i](g, &out, &remap, &err) == FLX_OK, "%s", err.message)) {
            EXPECT_MSG(flx_graph_verify(out, &err) == FLX_OK, "%s", err.message);
            EXPECT_MSG(flx_graph_hash(out) == flx_graph_hash(g), "a pass changes a graph it has nothing to do with");
        }
        flxi_remap_free(&remap);
        flx_graph_release(out);
    }
    flx_module_free(m);
    flx_context_free(ctx);
    test_count_case();
}

TEST(generic_passes_keep_single_ops)
{
    sample_each(run_passes);
}

/* ---- Memory running out ---- */

/* Builds, prints, encodes, decodes and runs in one context; true when all went well. */
static flx_code whole_life(const sample_case *c, fault *f)
{
    flx_error err = {0};
    flx_buffer text = {0};
    flx_buffer bytes = {0};
    flx_tensor *out[MAX_RESULTS] = {0};
    flx_context_options options = {.alloc = fault_alloc, .alloc_user = f};
    flx_context *ctx = flx_context_new(&options);
    if (!ctx)
        return FLX_E_OOM;
    flx_module *m = sample_parse(ctx, c, &err);
    flx_module *copy = NULL;
    const flx_graph *g = flx_module_main(m);
    flx_code code = m ? FLX_OK : (flx_code)err.code;
    if (code == FLX_OK)
        code = flx_graph_print(g, &text, &err);
    if (code == FLX_OK)
        code = flx_graph_encode(g, &bytes, &err);
    if (code == FLX_OK) {
        copy = flx_decode(ctx, bytes.data, bytes.size, "bytes", &err);
        code = copy ? FLX_OK : (flx_code)err.code;
    }
    if (code == FLX_OK)
        code = flx_graph_verify(g, &err);
    if (code == FLX_OK && flx_graph_output_count(g) <= MAX_RESULTS)
        code = sample_run(g, c, FILL_RANDOM, out, &err);
    release_all(out, MAX_RESULTS);
    flx_buffer_free(&text);
    flx_buffer_free(&bytes);
    flx_module_free(copy);
    flx_module_free(m);
    flx_context_free(ctx);
    return code;
}

static void starve(const sample_case *c)
{
    if (c->sample->error || c->sample != flxi_ops[c->op].rules->samples || c->dtype > FLX_F64)
        return; /* the first sample of each op, in one dtype */
    size_t stride = (size_t)effort(EFFORT_starved_stride), first = 1 + sample_seed(c) % stride;
    for (int forever = 0; forever < 2; forever++)
        for (size_t n = first;; n += stride) {
            fault f = {.fail_at = n, .forever = forever != 0};
            flx_code code = whole_life(c, &f);
            EXPECT_MSG(fault_is_clean(&f), "allocation %zu failed: %zu blocks leaked, %zu errors", n, f.live_blocks,
                       f.errors);
            if (f.failed == 0) {
                EXPECT_MSG(code == FLX_OK, "%s without any failure", flx_code_name(code));
                break;
            }
            if (!EXPECT_MSG(code == FLX_E_OOM, "allocation %zu failed: %s", n, flx_code_name(code)))
                break;
            test_count_case();
        }
}

TEST(generic_memory_may_run_out_anywhere)
{
    sample_each(starve);
}
