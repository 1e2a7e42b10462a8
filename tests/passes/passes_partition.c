/* SPDX-License-Identifier: Apache-2.0 */
/* passes_partition.c: which exchanges a graph gets when it is cut, and what is refused. */
#include "../test.h"

#include <fluxion/mesh.h>
#include <fluxion/tensor.h>
#include <fluxion/text.h>
#include <string.h>

static const struct {
    const char *text, *x, *w, *y; /* cuts of the input x, the parameter w and the output y */
    int64_t cut, gathered, exchanges;
    const char *ops; /* that the new graph has, in this order */
} cases[] = {
    /* Rows of a batch: no exchange until the mean. */
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = reduce_mean(tanh(matmul(x, w))) return y }", "data,-", NULL, NULL,
     3, 0, 1, "matmul tanh reduce_mean all_reduce"},
    /* Columns of a matrix, then rows of the next: one sum. */
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { h = matmul(x, w) y = matmul(h, transpose(w)) return y }", NULL,
     "-,model", NULL, 3, 0, 1, "matmul transpose matmul all_reduce"},
    /* The output keeps its cut. */
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = exp(x) return y }", "data,-", NULL, "data,-", 1, 0, 0, "exp"},
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = exp(x) return y }", "data,-", NULL, NULL, 1, 0, 1,
     "exp all_gather"},
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = exp(x) return y }", "data,-", NULL, "-,data", 1, 0, 1,
     "exp all_to_all"},
    /* Softmax along the cut axis must be whole. */
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = softmax(x) return y }", "data,-", NULL, "data,-", 1, 0, 0,
     "softmax"},
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = softmax(x) return y }", "-,data", NULL, NULL, 0, 1, 1,
     "all_gather softmax"},
    /* An op without a rule; the whole value is gathered once. */
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = add(reverse(x, axes=[0]), roll(x, shift=1, axis=0)) return y }",
     "data,-", NULL, NULL, 0, 2, 1, "all_gather reverse roll add"},
    /* A sum whose result is wanted in parts; what it passes on the way keeps the cut. */
    {"graph f(x: f32[8, 4], param w: f32[8, 6]) { y = tanh(transpose(matmul(transpose(x), w))) return y }", "data,-",
     "data,-", "-,data", 4, 0, 1, "transpose matmul reduce_scatter transpose tanh"},
    {"graph f(x: f32[8, 4], param w: f32[8, 6]) { s = matmul(transpose(x), w) y = add(reduce_sum(square(s)), s) "
     "return y }",
     "data,-", "data,-", "data,-", 5, 0, 2, "transpose matmul reduce_scatter square reduce_sum all_reduce add"},
    /* Merged and divided axes keep the blocks of a cut. */
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = reshape(reshape(x, shape=[32]), shape=[4, 8]) return y }",
     "data,-", NULL, "data,-", 2, 0, 0, "reshape reshape"},
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = reshape(x, shape=[1, 8, 2, 2]) return y }", "-,model", NULL,
     "-,-,model,-", 1, 0, 0, "reshape"},
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = reshape(x, shape=[32]) return y }", "-,model", NULL, NULL, 0, 1,
     1, "all_gather reshape"},
    /* A composite is taken apart where a part of it arrives; rows of a table are added up by those that have them. */
    {"graph f(x: f32[8, 4], param w: f32[4]) { y = rms_norm(x, w, axis=1) return y }", "data,-", NULL, "data,-", 6, 0,
     0, "reduce_mean rsqrt"},
    {"graph f(x: f32[8, 4], param w: f32[8]) { y = scatter_add(x, cast(w, to=i32), R=5) return y }", "data,-", "data",
     NULL, 2, 0, 1, "cast scatter_add all_reduce"},
    /* Examples of convolutions and windows, and matrices of a batch, are independent; features of a convolution are
       summed. */
    {"graph f(x: f32[8, 4, 6, 6], param w: f32[2, 4, 3, 3]) { y = pool(conv(x, w), kind=max, kernel_size=[2, 2]) "
     "return y }",
     "data,-,-,-", NULL, "data,-,-,-", 2, 0, 0, "conv pool"},
    {"graph f(x: f32[8, 4, 6, 6], param w: f32[2, 4, 3, 3]) { y = conv(x, w) return y }", "-,model,-,-", "-,model,-,-",
     NULL, 1, 0, 1, "conv all_reduce"},
    {"graph f(x: f32[8, 4, 4], param w: f32[2]) { y = cholesky(x) return y }", "data,-,-", NULL, "data,-,-", 1, 0, 0,
     "cholesky"},
    /* A loop whose carry begins whole. */
    {"graph step(h: f32[4], x: f32[4]) { n = tanh(add(h, x)) return n, n }\n"
     "graph f(x: f32[5, 4], param w: f32[4]) { h, y = scan(w, x, body=@step) return y }",
     "-,data", NULL, "-,data", 3, 0, 0, "dynamic_slice scan"},
    /* A sum in each round, and one that decides about the next. */
    {"graph again(h: f32[8, 4], n: i32[]) { return and(lt(n, 3), lt(reduce_sum(h), 1000)) }\n"
     "graph round(h: f32[8, 4], n: i32[]) { return mul(h, reduce_mean(h)), add(n, 1) }\n"
     "graph f(x: f32[8, 4], param w: f32[4]) { y, n = while(x, cast(0, to=i32), cond=@again, body=@round) return y }",
     "data,-", NULL, "data,-", 4, 0, 2, "while"},
    /* Elements move to the neighbour. */
    {"graph f(x: f32[8, 4], param w: f32[4]) { y = pad(x, 0, low=[1, 0], high=[-1, 2]) return y }", "data,-", NULL,
     "data,-", 1, 0, 1, "collective_permute concat pad"},
    /* What the graph says itself. */
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = exp(shard(x, spec=\"-,model\")) return y }", NULL, NULL, NULL, 1,
     0, 1, "dynamic_slice exp all_gather"},
};

static const char *next_op(flx_buffer *text, const char *op, const char *from)
{
    char call[64];
    snprintf(call, sizeof call, " %s(", op);
    return strstr(from ? from : (const char *)text->data, call);
}

static void check_case(size_t i)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, cases[i].text, strlen(cases[i].text), "test", &err);
    CHECK_MADE(m, &err);
    flx_sharding list[3];
    size_t n = 0;
    const char *const names[] = {"x", "w", "y"}, *const specs[] = {cases[i].x, cases[i].w, cases[i].y};
    for (int k = 0; k < 3; k++)
        if (specs[k])
            list[n++] = (flx_sharding){names[k], specs[k]};
    flx_partition_report report = {.struct_size = sizeof report};
    flx_graph *g = flx_partition(flx_module_main(m), "data=2,model=2", list, n, &report, &err);
    CHECK_MADE(g, &err);
    CHECK_EQ_I64(report.cut, cases[i].cut);
    CHECK_EQ_I64(report.gathered, cases[i].gathered);
    CHECK_EQ_I64(report.exchanges, cases[i].exchanges);
    flx_buffer text;
    CHECK_OK(flx_graph_print(g, &text, &err), &err);
    char ops[200];
    snprintf(ops, sizeof ops, "%s", cases[i].ops);
    const char *at = NULL;
    for (char *op = strtok(ops, " "); op; op = strtok(NULL, " ")) {
        at = next_op(&text, op, at);
        CHECK_MSG(at, "%s is missing in\n%s", op, (const char *)text.data);
    }
    flx_buffer_free(&text);
    flx_graph_release(g);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(partition_chooses_exchanges)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_fail_context("case %zu: %s", i, cases[i].text);
        check_case(i);
        test_count_case();
    }
}

static const struct {
    const char *axes, *name, *spec;
    int32_t code;
    const char *message;
} wrong[] = {
    {"data=2", "z", "data,-", FLX_E_NAME, "'f' has no input, parameter or output 'z'"},
    {"data=2", "x", "data", FLX_E_USAGE, "'x' has 2 axes, but 'data' has fewer words"},
    {"data=2", "x", "data,-,-", FLX_E_USAGE, "'x' has 2 axes, but 'data,-,-' has more words"},
    {"data=2", "x", "rows,-", FLX_E_NAME, "'x': the mesh has no axis 'rows'"},
    {"data=2", "x", "data,data", FLX_E_USAGE, "'x': two axes are cut along 'data'"},
    {"data=3", "x", "data,-", FLX_E_SHAPE, "'x': axis 0 of extent 8 cannot be cut in 3 equal parts"},
    {"data", "x", "data,-", FLX_E_USAGE, "'data' is not a list of axes of a mesh"},
    {"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "x", "a,-", FLX_E_USAGE,
     "the mesh 'a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1' has more than 8 axes"},
};

TEST(partition_refuses_wrong_cuts)
{
    static const char text[] = "graph f(x: f32[8, 4]) { return exp(x) }";
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_module *m = flx_parse(ctx, text, sizeof text - 1, "test", &err);
    CHECK_MADE(m, &err);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const flx_sharding cut = {wrong[i].name, wrong[i].spec};
        test_fail_context("case %zu", i);
        CHECK(!flx_partition(flx_module_main(m), wrong[i].axes, &cut, 1, NULL, &err));
        CHECK_EQ_I64(err.code, wrong[i].code);
        CHECK_EQ_STR(err.message, wrong[i].message);
    }
    flx_module_free(m);
    flx_context_free(ctx);
}

/* ---- Parts of values ---- */

TEST(mesh_part_is_what_a_rank_has)
{
    static const struct {
        const char *spec;
        int64_t rank, rows, columns;
        double values[6];
    } parts[] = {
        {"-,-", 5, 2, 3, {0, 1, 2, 3, 4, 5}}, {"data,-", 2, 1, 3, {0, 1, 2}}, {"data,-", 3, 1, 3, {3, 4, 5}},
        {"-,model", 4, 2, 1, {1, 4}},         {"data,model", 5, 1, 1, {5}},
    };
    static const double whole[] = {0, 1, 2, 3, 4, 5};
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    const flx_type type = {.dtype = FLX_F64, .rank = 2, .dims = {2, 3}};
    flx_tensor *x = flx_tensor_new(ctx, &type, whole, &err);
    CHECK_MADE(x, &err);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        test_fail_context("case %zu", i);
        flx_tensor *t = flx_mesh_part(ctx, x, "data=2,model=3", parts[i].spec, parts[i].rank, &err);
        CHECK_MADE(t, &err);
        CHECK_EQ_I64(flx_tensor_type(t)->dims[0], parts[i].rows);
        CHECK_EQ_I64(flx_tensor_type(t)->dims[1], parts[i].columns);
        CHECK(memcmp(flx_tensor_const_data(t), parts[i].values, (size_t)flx_tensor_count(t) * sizeof *whole) == 0);
        flx_tensor_release(t);
    }
    CHECK(!flx_mesh_part(ctx, x, "data=2,model=3", "data,-", 6, &err));
    CHECK_EQ_STR(err.message, "the mesh has processes 0 to 5, not 6");
    CHECK(!flx_mesh_part(ctx, x, "data=2,model=3", "model,-", 0, &err));
    CHECK_EQ_I64(err.code, FLX_E_SHAPE);
    flx_tensor_release(x);
    flx_context_free(ctx);
}
