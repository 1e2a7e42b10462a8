/* SPDX-License-Identifier: Apache-2.0 */
/* passes_partition.c: which exchanges a graph gets when it is cut, and what is refused. */
#include "../backend/collective/local_ranks.h"
#include "../test.h"

#include <fluxion/mesh.h>
#include <fluxion/tensor.h>
#include <fluxion/text.h>
#include <math.h>
#include <stdio.h>
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
     "data,-", "-,data", 3, 0, 1, "transpose matmul transpose reduce_scatter tanh"},
    {"graph f(x: f32[8, 4], param w: f32[8, 6]) { s = matmul(transpose(x), w) y = add(reduce_sum(square(s)), s) "
     "return y }",
     "data,-", "data,-", "data,-", 5, 0, 2, "transpose matmul reduce_scatter square reduce_sum all_reduce add"},
    /* Sums that are added are exchanged once, also those of a loop and where one is wanted in parts. */
    {"graph f(x: f32[8, 4], param w: f32[8, 4]) { y = tanh(add(matmul(transpose(x), w), "
     "transpose(matmul(transpose(w), x)))) return y }",
     "data,-", "data,-", NULL, 4, 0, 1, "matmul matmul transpose add all_reduce tanh"},
    {"graph f(x: f32[8, 4], param w: f32[8, 4]) { s = reduce_sum(x, axes=[0]) y = add(tanh(s), add(s, reduce_sum(w, "
     "axes=[0]))) return y }",
     "data,-", "data,-", NULL, 2, 0, 2, "reduce_sum all_reduce tanh reduce_sum all_reduce add add"},
    {"graph round(s: f32[4], n: f32[], w: f32[8, 4], x: f32[8, 4]) { "
     "return add(s, reduce_sum(mul(w, x), axes=[0])), add(n, reduce_sum(x)) }\n"
     "graph f(x: f32[5, 8, 4], param w: f32[8, 4]) { s, n = scan(full(f32[4], 0), 1, w, x, body=@round, num_carry=2, "
     "num_bcast=1) y = mul(s, n) return y }",
     "-,data,-", "data,-", "data", 5, 0, 2, "axis_index scan reduce_scatter all_reduce mul"},
    {"graph round(s: f32[4], w: f32[8, 4], x: f32[8, 4]) { "
     "n = add(s, reduce_sum(mul(w, x), axes=[0])) return n, n }\n"
     "graph f(x: f32[5, 8, 4], param w: f32[8, 4]) { s, y = scan(full(f32[4], 0), w, x, body=@round, num_carry=1, "
     "num_bcast=1) return y }",
     "-,data,-", "data,-", NULL, 3, 0, 1, "scan"},
    /* A body of two loops collects its sum in both. */
    {"graph round(s: f32[4], r: f32[8, 4]) { return add(s, reduce_sum(r, axes=[0])) }\n"
     "graph f(x: f32[5, 8, 4], param w: f32[8, 4]) { a = scan(full(f32[4], 0), x, body=@round, num_carry=1) "
     "y = tanh(scan(tanh(a), x, body=@round, num_carry=1)) return y }",
     "-,data,-", NULL, NULL, 4, 0, 2, "scan all_reduce tanh axis_index scan all_reduce tanh"},
    /* An axis that is cut along two axes of the mesh. */
    {"graph f(x: f32[8, 4], param w: f32[8, 6]) { y = tanh(matmul(transpose(x), w)) return y }", "data+model,-",
     "data+model,-", NULL, 2, 0, 1, "transpose matmul all_reduce tanh"},
    {"graph f(x: f32[8, 4], param w: f32[8, 6]) { y = tanh(matmul(transpose(x), w)) return y }", "data+model,-",
     "data+model,-", "-,model", 3, 0, 2, "transpose matmul reduce_scatter all_reduce tanh"},
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = exp(x) return y }", "data+model,-", NULL, "data,-", 1, 0, 1,
     "exp all_gather"},
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = exp(x) return y }", "data,-", NULL, "data+model,-", 1, 0, 0,
     "exp dynamic_slice"},
    {"graph f(x: f32[8, 4], param w: f32[4, 6]) { y = exp(x) return y }", "data+model,-", NULL, "model,-", 1, 0, 1,
     "exp all_gather dynamic_slice"},
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

/* ---- Sums that wait ---- */

#define CUT "shard(x, spec=\"-,data+model,-\")"

/* Of x: f64[3, 4, 2]. */
static const char *const sums[] = {
    "graph round(s: f64[2], n: f64[], r: f64[4, 2]) { return add(s, reduce_sum(r, axes=[0])), add(n, reduce_sum(r)) }\n"
    "graph f(x: f64[3, 4, 2]) { s, n = scan(full(f64[2], 0), const(f64[], 5), " CUT
    ", body=@round, num_carry=2) return s, n }",
    /* Every value of the carry is a result; one that is read twice. */
    "graph round(s: f64[2], n: f64[2], r: f64[4, 2]) {\n"
    "  t = reduce_sum(r, axes=[0]) a = add(s, t) b = add(mul(n, 0.5), t) return a, b, a\n}\n"
    "graph f(x: f64[3, 4, 2]) { s, n, all = scan(full(f64[2], 1), full(f64[2], 2), " CUT
    ", body=@round, num_carry=2) return s, n, all }",
    /* The test of a loop reads one carry, and not the other. */
    "graph again(s: f64[], n: f64[], x: f64[3, 4, 2]) { return lt(n, 20) }\n"
    "graph round(s: f64[], n: f64[], x: f64[3, 4, 2]) { t = reduce_sum(x) return add(t, s), add(n, abs(t)), x }\n"
    "graph f(x: f64[3, 4, 2]) { s, n, y = while(const(f64[], 1), const(f64[], 2), " CUT
    ", cond=@again, body=@round) return s, n }",
    /* A body of two loops, one of which tests a carry that the other only collects. */
    "graph again(s: f64[], n: f64[], x: f64[3, 4, 2]) { return lt(n, 90) }\n"
    "graph until(s: f64[], n: f64[], x: f64[3, 4, 2]) { return lt(add(s, n), 90) }\n"
    "graph round(s: f64[], n: f64[], x: f64[3, 4, 2]) { "
    "return add(reduce_sum(x), s), add(n, reduce_max(abs(x))), x }\n"
    "graph f(x: f64[3, 4, 2]) { c = " CUT " s, n, y = while(const(f64[], 1), const(f64[], 2), c, cond=@again, "
    "body=@round) t, m, z = while(const(f64[], 1), const(f64[], 2), c, cond=@until, body=@round) return s, n, t, m }",
    /* A body of loops that is also called. */
    "graph round(s: f64[2], n: f64[], r: f64[4, 2]) { return add(s, reduce_sum(r, axes=[0])), add(n, reduce_sum(r)) }\n"
    "graph f(x: f64[3, 4, 2]) { c = " CUT " s, n = scan(full(f64[2], 1), const(f64[], 5), c, body=@round, num_carry=2) "
    "t, m = call(s, n, reduce_max(c, axes=[0]), body=@round) u, k = scan(t, m, c, body=@round, num_carry=2) "
    "return s, n, t, m, u, k }",
    "graph f(x: f64[3, 4, 2]) { c = " CUT " s = reduce_sum(c, axes=[1]) t = transpose(reduce_mean(c, axes=[1])) "
    "return concat(sub(s, transpose(t)), neg(reduce_sum(square(c), axes=[1])), axis=0), exp(s) }",
};

typedef struct {
    const char *text;
    double want[32], got[4][32];
} sum_case;

static flx_graph *cut_for_four(const flx_graph *g, flx_error *err)
{
    return flx_partition(g, "data=2,model=2", NULL, 0, NULL, err);
}

static void run_sum(local_rank *r)
{
    static const double x[24] = {1, -2, 0.5, 3, -1, 4, 2.5, -0.5, 1, 1, 2, -3, -4, 5, 6, -7, 8, 9, -1, 2, 3, 4, 5, -6};
    sum_case *c = r->user;
    CHECK_OK(local_rank_text(r, c->text, r->size > 1 ? cut_for_four : NULL, NULL, x,
                             r->size > 1 ? c->got[r->rank] : c->want),
             &r->err);
}

TEST(partition_adds_up_what_waits)
{
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        sum_case c = {.text = sums[i]};
        test_fail_context("case %zu", i);
        local_ranks_run(1, "data=1", 60, run_sum, &c);
        local_ranks_run(4, "data=2,model=2", 60, run_sum, &c);
        for (size_t k = 0; k < 4 * 32; k++)
            CHECK_NEAR(c.got[k / 32][k % 32], c.want[k % 32], 1e-12 * (1 + fabs(c.want[k % 32])));
    }
}

/* ---- Refusals ---- */

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
    {"data=2,model=2", "x", "-,model+data", FLX_E_USAGE,
     "'x': axis 1 is cut along axes that are not in the order of the mesh"},
    {"data=2,model=2", "x", "data,data+model", FLX_E_USAGE, "'x': two axes are cut along 'data'"},
    {"data=2,model=2", "x", "data+,-", FLX_E_NAME, "'x': the mesh has no axis ''"},
    {"data=2,model=3", "x", "data+model,-", FLX_E_SHAPE, "'x': axis 0 of extent 8 cannot be cut in 6 equal parts"},
    {"data=3", "x", "data,-", FLX_E_SHAPE, "'x': axis 0 of extent 8 cannot be cut in 3 equal parts"},
    {"data", "x", "data,-", FLX_E_USAGE, "'data' is not a list of axes of a mesh"},
    {"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "x", "a,-", FLX_E_USAGE,
     "the mesh 'a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1' has more than 8 axes"},
};

/* Each body uses the next one twice, so that 2^48 uses have one body each: it is placed and cut once. */
static flx_module *deep_bodies(flx_context *ctx)
{
    enum { DEPTH = 48, ROOM = 200 };
    flx_error err = {0};
    char text[DEPTH * ROOM];
    size_t n = (size_t)sprintf(text, "graph b0(s: f32[8], x: f32[8]) { return tanh(add(s, x)) }\n");
    for (int i = 1; i < DEPTH; i++)
        n += (size_t)snprintf(text + n, ROOM,
                              "graph b%d(s: f32[8], x: f32[8]) { a = scan(s, x, body=@b%d, num_bcast=1, length=2)"
                              " return call(mul(a, %d), x, body=@b%d) }\n",
                              i, i - 1, i, i - 1);
    snprintf(text + n, ROOM,
             "graph f(x: f32[8]) { y = scan(full(f32[8], 0), x, body=@b%d, num_bcast=1, length=2) return y }\n",
             DEPTH - 1);
    flx_module *m = flx_parse(ctx, text, strlen(text), "test", &err);
    CHECK_OK(m ? FLX_OK : (flx_code)err.code, &err);
    return m;
}

TEST(partition_places_and_cuts_a_body_once)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = deep_bodies(ctx);
    const flx_sharding cut = {"x", "data"};
    flx_partition_report report = {.struct_size = sizeof report};
    flx_graph *part = flx_partition(flx_module_main(m), "data=2", &cut, 1, &report, &err);
    CHECK_OK(part ? FLX_OK : (flx_code)err.code, &err);
    CHECK(report.gathered == 0 && report.exchanges == 1 && report.cut > (int64_t)1 << 48);
    flx_graph_release(part);
    flx_module_free(m);
    flx_context_free(ctx);
}

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
