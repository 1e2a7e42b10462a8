/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_meshes.c: programs of JAX for a mesh (tests/oracle/shardings.py) give its numbers on ranks that are
   threads: shardings go through the partition, manual computations are the graph of each process. */
#include "../backend/collective/local_ranks.h"
#include "test.h"

#include <fluxion/stablehlo.h>
#include <fluxion/tensor.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

typedef struct {
    const char *name, *mesh, *ops; /* ops: some that the imported graph has */
    bool is_cut;                   /* goes through the partition */
    int64_t least_cut;             /* nodes on parts, then */
    char *text;
    size_t length;
} mesh_case;

static void folder_of(char *path, size_t size, const char *file)
{
    snprintf(path, size, "%s/tests/oracle/fixtures/stablehlo/mesh/%s", test_source_dir(), file);
}

static void read_text(mesh_case *c)
{
    char path[500], file[100];
    enum { ROOM = 100000 };
    snprintf(file, sizeof file, "%s.mlir", c->name);
    folder_of(path, sizeof path, file);
    FILE *f = fopen(path, "rb");
    CHECK_MSG(f != NULL, "%s is missing", path);
    c->text = malloc(ROOM);
    CHECK(c->text);
    c->length = fread(c->text, 1, ROOM, f);
    fclose(f);
}

static flx_tensor *value_of(flx_context *ctx, const mesh_case *c, const char *kind, size_t i, flx_error *err)
{
    char path[500], key[100];
    folder_of(path, sizeof path, "values.npz");
    snprintf(key, sizeof key, "%s.%s%zu", c->name, kind, i);
    flx_tensor *t = flx_npz_read(ctx, path, key, err);
    CHECK_MADE(t, err);
    return t;
}

static void check_output(local_rank *r, const mesh_case *c, size_t i, const flx_tensor *got)
{
    flx_tensor *want = value_of(r->ctx, c, "out", i, &r->err);
    bool is_equal = flx_tensor_count(got) == flx_tensor_count(want);
    for (int64_t k = 0; is_equal && k < flx_tensor_count(want); k++)
        is_equal = fabs(flx_tensor_get(got, k) - flx_tensor_get(want, k)) <= 2e-6;
    EXPECT_MSG(is_equal, "%s: output %zu differs on rank %lld", c->name, i, (long long)r->rank);
    flx_tensor_release(want);
}

static void run_rank(local_rank *r)
{
    const mesh_case *c = r->user;
    flx_module *m = flx_import_stablehlo(r->ctx, c->text, c->length, c->name, &r->err);
    CHECK_MADE(m, &r->err);
    flx_partition_report report = {.struct_size = sizeof report};
    flx_graph *g = c->is_cut ? flx_partition(flx_module_main(m), c->mesh, NULL, 0, &report, &r->err)
                             : flx_graph_retain(flx_module_main(m));
    CHECK_MADE(g, &r->err);
    CHECK(report.cut >= c->least_cut && report.gathered == 0);
    flx_feed feeds[MOST];
    flx_tensor *out[MOST] = {0};
    size_t n = flx_graph_input_count(g), outputs = flx_graph_output_count(g);
    CHECK(n <= MOST && outputs <= MOST);
    for (size_t i = 0; i < n; i++)
        feeds[i] = (flx_feed){flx_val_name(g, flx_graph_input(g, i)), value_of(r->ctx, c, "arg", i, &r->err)};
    CHECK_OK(flx_run(g, ON_REF, feeds, n, out, &r->err), &r->err);
    for (size_t i = 0; i < outputs; i++) {
        check_output(r, c, i, out[i]);
        flx_tensor_release(out[i]);
    }
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    flx_graph_release(g);
    flx_module_free(m);
}

static void check_import(const mesh_case *c)
{
    flx_error err = {0};
    flx_buffer text;
    flx_context *ctx = flx_context_new(NULL);
    CHECK_OK(flx_stablehlo_mesh(ctx, c->text, c->length, c->name, &text, &err), &err);
    CHECK_EQ_STR(text.data, c->mesh);
    flx_buffer_free(&text);
    flx_module *m = flx_import_stablehlo(ctx, c->text, c->length, c->name, &err);
    CHECK_MADE(m, &err);
    CHECK_OK(flx_graph_print(flx_module_main(m), &text, &err), &err);
    char ops[300];
    snprintf(ops, sizeof ops, "%s", c->ops);
    for (char *op = strtok(ops, ";"); op; op = strtok(NULL, ";"))
        CHECK_MSG(strstr(text.data, op), "%s is missing in\n%s", op, (const char *)text.data);
    flx_buffer_free(&text);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(stablehlo_meshes_compute_what_jax_does)
{
    mesh_case cases[] = {
        {.name = "annotated",
         .mesh = "data=2,model=2",
         .ops = "shard(arg0, spec=\"data,-\");shard(arg1, spec=\"-,model\");spec=\"data,model\")",
         .is_cut = true,
         .least_cut = 4},
        {.name = "tiled",
         .mesh = "axis0=2,axis1=2",
         .ops = "shard(arg0, spec=\"axis0,-\");shard(arg1, spec=\"-,axis1\");spec=\"axis0,axis1\")",
         .is_cut = true,
         .least_cut = 4},
        {.name = "manual",
         .mesh = "data=2,model=2",
         .ops = "all_reduce(;all_gather(;reduce_scatter(;all_to_all(;collective_permute(;axis_name=\"model,data\""},
        {.name = "manual_gradient", .mesh = "data=2,model=2", .ops = "all_reduce("},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_fail_context("%s", cases[i].name);
        read_text(&cases[i]);
        check_import(&cases[i]);
        local_ranks_run(4, cases[i].mesh, 60, run_rank, &cases[i]);
        free(cases[i].text);
        test_count_case();
    }
}

/* ---- What is not understood ---- */

#define MANUAL(mesh, in, groups)                                                                              \
    "module {\n  sdy.mesh @mesh = <" mesh ">\n"                                                               \
    "  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"                                        \
    "    %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [" in "]>] out_shardings=[<@mesh, [" in "]>] " \
    "manual_axes={\"x\", \"y\"} (%b: tensor<2xf32>) {\n"                                                      \
    "      %1 = \"stablehlo.all_reduce\"(%b) <{replica_groups = dense<" groups "> : tensor<2x2xi64>}> ({\n"   \
    "      ^bb0(%c: tensor<f32>, %d: tensor<f32>):\n        %2 = stablehlo.add %c, %d : tensor<f32>\n"        \
    "        stablehlo.return %2 : tensor<f32>\n      }) : (tensor<2xf32>) -> tensor<2xf32>\n"                \
    "      sdy.return %1 : tensor<2xf32>\n    } : (tensor<4xf32>) -> tensor<4xf32>\n"                         \
    "    return %0 : tensor<4xf32>\n  }\n}\n"

TEST(stablehlo_meshes_refuse_what_they_cannot_say)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {MANUAL("[\"x\"=2, \"y\"=2]", "{\"x\"}", "[[0, 1], [2, 3]]"), NULL},
        {MANUAL("[\"x\"=2, \"y\"=2]", "{\"x\"}", "[[0, 3], [1, 2]]"), NULL},
        {MANUAL("[\"x\"=2, \"y\"=2]", "{\"x\"}", "[[0, 1], [1, 2]]"),
         "unsupported: stablehlo.all_reduce: groups of devices that are not of one size, or do not have every device "
         "once"},
        {MANUAL("[\"x\"=2, \"y\"=2]", "{\"z\"}", "[[0, 1], [2, 3]]"),
         "sdy.manual_computation: mesh @mesh has no axis \"z\""},
        {MANUAL("[\"x\"=2, \"y\"=2]", "{\"x\":(1)2}", "[[0, 1], [2, 3]]"),
         "unsupported: sdy.manual_computation: in_shardings has no sharding of value 0 along axes of the mesh"},
        {MANUAL("[\"x\"=3, \"y\"=2]", "{\"x\"}", "[[0, 1], [2, 3]]"),
         "sdy.manual_computation: axis 0 of an operand cannot be cut in 3 equal parts"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        test_fail_context("case %zu", i);
        flx_module *m = flx_import_stablehlo(ctx, cases[i].text, strlen(cases[i].text), "test", &err);
        CHECK_MSG(!m == (cases[i].message != NULL), "%s", err.message);
        if (cases[i].message)
            CHECK_EQ_STR(err.message, cases[i].message);
        flx_module_free(m);
        flx_context_free(ctx);
    }
}

/* ---- Meshes and shardings that the language forbids ---- */

/* A program with this second mesh, sharding of its argument, and sharding of the result of an operation. */
static flx_module *import_sharded(flx_context *ctx, const char *mesh, const char *in, const char *inside,
                                  flx_error *err)
{
    char text[1000];
    snprintf(text, sizeof text,
             "module {\n  sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n  sdy.mesh %s\n"
             "  func.func public @main(%%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<%s>}) -> tensor<8x4xf32> {\n"
             "    %%0 = stablehlo.tanh %%a {sdy.sharding = #sdy.sharding_per_value<[<%s>]>} : tensor<8x4xf32>\n"
             "    return %%0 : tensor<8x4xf32>\n  }\n}\n",
             mesh, in, inside);
    return flx_import_stablehlo(ctx, text, strlen(text), "t", err);
}

#define OTHER "@n = <[\"x\"=4]>"
#define ROWS "@mesh, [{\"x\"}, {}]"

TEST(stablehlo_meshes_are_as_the_language_demands)
{
    static const struct {
        const char *mesh, *in, *inside, *where, *message;
        flx_code code;
    } cases[] = {
        {"@n = <[\"x\"=0]>", ROWS, ROWS, "t:3:3", "mesh @n: axis \"x\" has size 0, but must have 1 or more",
         FLX_E_ATTRIBUTE},
        {"@n = <[\"x\"=-4]>", ROWS, ROWS, "t:3:3", "mesh @n: axis \"x\" has size -4, but must have 1 or more",
         FLX_E_ATTRIBUTE},
        {"@n = <[\"x\"=9223372036854775808]>", ROWS, ROWS, "t:3:3",
         "mesh @n: the size of axis \"x\" does not fit 64 bits", FLX_E_SIZE},
        {"@n = <[\"x\"=two]>", ROWS, ROWS, "t:3:3", "mesh @n: the size of axis \"x\" is not a number", FLX_E_SYNTAX},
        {"@n = <[\"x\"=]>", ROWS, ROWS, "t:3:3", "mesh @n: the size of axis \"x\" is not a number", FLX_E_SYNTAX},
        {"@mesh = <[\"x\"=4]>", ROWS, ROWS, "t:3:3", "mesh @mesh: it is defined twice", FLX_E_DUP_NAME},
        {"@n = <[\"x\"=2, \"y\"=1, \"x\"=2]>", ROWS, ROWS, "t:3:3", "mesh @n: two axes are called \"x\"",
         FLX_E_DUP_NAME},
        {OTHER, "@o, [{\"x\"}, {}]", ROWS, "t:4:62", "argument 0 of @main: there is no mesh @o", FLX_E_NAME},
        {OTHER, "mesh<[\"x\"=0]>, [{\"x\"}, {}]", ROWS, "t:4:62",
         "argument 0 of @main: axis \"x\" has size 0, but must have 1 or more", FLX_E_ATTRIBUTE},
        {OTHER, "@mesh, [{\"z\"}, {}]", ROWS, "t:4:62", "argument 0 of @main: mesh @mesh has no axis \"z\"",
         FLX_E_NAME},
        {OTHER, ROWS, "@n, [{}, {\"y\":(1)2}]", "t:5:44", "stablehlo.tanh: mesh @n has no axis \"y\"", FLX_E_NAME},
        {OTHER, ROWS, "@mesh, [{\"x\"}, {\"x\"}]", "t:5:44", "stablehlo.tanh: axis \"x\" is used twice",
         FLX_E_DUP_NAME},
        {OTHER, ROWS, "@n, [{\"x\":(1)2}, {\"x\"}]", "t:5:44", "stablehlo.tanh: axis \"x\" is used twice",
         FLX_E_DUP_NAME},
        {OTHER, "@mesh, [{\"x\"}, {}], unreduced={\"x\"}", ROWS, "t:4:62",
         "argument 0 of @main: axis \"x\" is used twice", FLX_E_DUP_NAME},
        {OTHER, "@mesh, [{\"x\"}]", ROWS, "t:4:62", "argument 0 of @main: the sharding is for 1 axis, the value has 2",
         FLX_E_SHAPE},
        {OTHER, ROWS, "@mesh, [{}, {}, {?}]", "t:5:44", "stablehlo.tanh: the sharding is for 3 axes, the value has 2",
         FLX_E_SHAPE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        test_fail_context("case %zu", i);
        CHECK(!import_sharded(ctx, cases[i].mesh, cases[i].in, cases[i].inside, &err));
        CHECK_EQ_STR(err.message, cases[i].message);
        CHECK_EQ_STR(err.where, cases[i].where);
        CHECK_EQ_I64(err.code, cases[i].code);
        flx_context_free(ctx);
        test_count_case();
    }
}

/* Also what the import leaves out. */
TEST(stablehlo_meshes_may_be_what_the_language_allows)
{
    static const struct {
        const char *mesh, *in, *inside;
    } cases[] = {
        {"@n = <[], device_ids=[0]>", "@n, []", ROWS},
        {"@n = <[]>", "@n, [{}, {}]", "@n, [{?}, {?}]"},
        {"@n = <[\"x\"=4], device_ids=[3, 1, 2, 0]>", "@n, [{\"x\":(1)2}, {\"x\":(2)2}]", ROWS},
        {"@n = <[\"x\"=1048576, \"y\"=1048576]>", "@n, [{\"x\", \"y\"}, {}]", ROWS},
        {"@\"a, b\" = <[\"x, y\"=4]>", "@\"a, b\", [{\"x, y\"}, {}]", ROWS},
        {OTHER, "@mesh, [{\"x\", ?}p1, {?}p22]", "@mesh, [{ }, {\"y\"}], unreduced={\"x\"}"},
        {OTHER, "mesh<[\"z\"=2], device_ids=[1, 0]>, [{}, {\"z\"}]", ROWS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        test_fail_context("case %zu", i);
        flx_module *m = import_sharded(ctx, cases[i].mesh, cases[i].in, cases[i].inside, &err);
        CHECK_MADE(m, &err);
        flx_module_free(m);
        flx_context_free(ctx);
        test_count_case();
    }
}

/* sdy.mesh @mesh = <["first"=2, "other"=4]> and @mush = <["first"=8]>, with shardings of an argument and of tanh, as
   bytecode. */
static const unsigned char two_meshes[] = {
    0x4d, 0x4c, 0xef, 0x52, 0x0d, 0x53, 0x74, 0x61, 0x62, 0x6c, 0x65, 0x48, 0x4c, 0x4f, 0x5f, 0x76, 0x31, 0x2e, 0x31,
    0x33, 0x2e, 0x30, 0x00, 0x01, 0x21, 0x07, 0x01, 0x05, 0x09, 0x0b, 0x01, 0x03, 0x0f, 0x03, 0x03, 0x13, 0x05, 0x07,
    0x17, 0x1b, 0x1f, 0x03, 0x51, 0x37, 0x07, 0x01, 0x0f, 0x07, 0x0b, 0x0b, 0x0b, 0x13, 0x0b, 0x0b, 0x03, 0x17, 0x17,
    0x13, 0x17, 0x0f, 0x0f, 0x13, 0x0f, 0x1b, 0x0f, 0x0f, 0x1b, 0x05, 0x13, 0x0f, 0x13, 0x0b, 0x0b, 0x0b, 0x0b, 0x0b,
    0x17, 0x0b, 0x05, 0x07, 0x17, 0x17, 0x07, 0x02, 0xbf, 0x1f, 0x05, 0x09, 0x05, 0x11, 0x09, 0x03, 0x03, 0x03, 0x0b,
    0x21, 0x05, 0x13, 0x09, 0x05, 0x0b, 0x03, 0x1f, 0x01, 0x01, 0x0b, 0x01, 0x01, 0x01, 0x05, 0x05, 0x15, 0x17, 0x01,
    0x03, 0x15, 0x09, 0x03, 0x17, 0x11, 0x05, 0x03, 0x1b, 0x01, 0x03, 0x15, 0x21, 0x0d, 0x07, 0x05, 0x0f, 0x11, 0x01,
    0x09, 0x15, 0x01, 0x0f, 0x03, 0x23, 0x0d, 0x0d, 0x05, 0x0f, 0x11, 0x01, 0x03, 0x03, 0x27, 0x0d, 0x03, 0x29, 0x1d,
    0x1d, 0x13, 0x23, 0x03, 0x03, 0x01, 0x1d, 0x19, 0x1d, 0x1b, 0x29, 0x01, 0x01, 0x01, 0x35, 0x27, 0x01, 0x29, 0x05,
    0x21, 0x11, 0x05, 0x11, 0x03, 0x01, 0x03, 0x01, 0x09, 0x04, 0x5d, 0x05, 0x01, 0x50, 0x01, 0x01, 0x07, 0x04, 0x4d,
    0x03, 0x01, 0x0d, 0x03, 0x40, 0x01, 0x03, 0x03, 0x40, 0x01, 0x05, 0x05, 0x50, 0x01, 0x07, 0x07, 0x04, 0x29, 0x03,
    0x05, 0x0b, 0x03, 0x01, 0x00, 0x07, 0x47, 0x01, 0x09, 0x09, 0x03, 0x01, 0x03, 0x01, 0x09, 0x04, 0x01, 0x03, 0x03,
    0x06, 0x03, 0x01, 0x05, 0x01, 0x00, 0xe1, 0x1d, 0x0f, 0x0b, 0x0d, 0x0d, 0x1b, 0x0b, 0x15, 0x11, 0x11, 0x0b, 0x0f,
    0x0b, 0x09, 0x11, 0x62, 0x75, 0x69, 0x6c, 0x74, 0x69, 0x6e, 0x00, 0x73, 0x64, 0x79, 0x00, 0x76, 0x68, 0x6c, 0x6f,
    0x00, 0x6d, 0x6f, 0x64, 0x75, 0x6c, 0x65, 0x00, 0x6d, 0x65, 0x73, 0x68, 0x00, 0x66, 0x75, 0x6e, 0x63, 0x5f, 0x76,
    0x31, 0x00, 0x74, 0x61, 0x6e, 0x68, 0x5f, 0x76, 0x32, 0x00, 0x72, 0x65, 0x74, 0x75, 0x72, 0x6e, 0x5f, 0x76, 0x31,
    0x00, 0x6d, 0x75, 0x73, 0x68, 0x00, 0x73, 0x64, 0x79, 0x2e, 0x73, 0x68, 0x61, 0x72, 0x64, 0x69, 0x6e, 0x67, 0x00,
    0x66, 0x69, 0x72, 0x73, 0x74, 0x00, 0x6f, 0x74, 0x68, 0x65, 0x72, 0x00, 0x6d, 0x61, 0x69, 0x6e, 0x00, 0x70, 0x75,
    0x62, 0x6c, 0x69, 0x63, 0x00, 0x08, 0x25, 0x0b, 0x05, 0x01, 0x01, 0x05, 0x13, 0x03, 0x05, 0x19, 0x05, 0x0b, 0x25,
    0x2b, 0x2d, 0x2f, 0x31, 0x03, 0x33,
};

/* In bytecode a name is kept once, so that another one of the same length changes it wherever it is used. */
TEST(stablehlo_meshes_of_bytecode_are_checked)
{
    static const struct {
        const char *before, *after, *where, *message;
    } cases[] = {
        {"mush", "mash", NULL, NULL},
        {"mush", "mesh", "t:197", "mesh @mesh: it is defined twice"},
        {"other", "first", "t:193", "mesh @mesh: two axes are called \"first\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[sizeof two_meshes];
        flx_error err = {0};
        flx_context *ctx = flx_context_new(NULL);
        size_t at = 0, n = strlen(cases[i].before);
        test_fail_context("case %zu", i);
        memcpy(bytes, two_meshes, sizeof bytes);
        while (at + n < sizeof bytes && memcmp(bytes + at, cases[i].before, n) != 0)
            at++;
        CHECK(at + n < sizeof bytes);
        memcpy(bytes + at, cases[i].after, n);
        flx_module *m = flx_import_stablehlo(ctx, bytes, sizeof bytes, "t", &err);
        CHECK_MSG(!m == (cases[i].message != NULL), "%s", err.message);
        if (cases[i].message) {
            CHECK_EQ_STR(err.message, cases[i].message);
            CHECK_EQ_STR(err.where, cases[i].where);
        }
        flx_module_free(m);
        flx_context_free(ctx);
        test_count_case();
    }
}

/* ---- Hostile programs ---- */

#define LONG_NAME "a234567890123456789012345678901"
#define TWICE(x) x ", " x
#define EIGHT(x) TWICE(TWICE(TWICE(x)))

/* An axis cuts a value once, and no two axes have one name: otherwise lists of names would outgrow their room. */
TEST(stablehlo_meshes_have_distinct_axes)
{
    static const char *const cases[] = {
        MANUAL("[\"x\"=2, \"y\"=2]", "{\"x\", \"x\"}", "[[0, 1], [2, 3]]"),
        MANUAL("[\"x\"=2, \"x\"=2]", "{\"x\"}", "[[0, 1], [2, 3]]"),
        MANUAL("[" EIGHT("\"" LONG_NAME "\"=1") "]", "{" EIGHT("\"" LONG_NAME "\"") "}", "[[0, 1], [2, 3]]"),
        MANUAL("[\"x\"=1048576]", "{" EIGHT(EIGHT("\"x\"")) "}", "[[0, 1], [2, 3]]"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_error err = {0};
        test_fail_context("case %zu", i);
        flx_context *ctx = flx_context_new(NULL);
        CHECK(!flx_import_stablehlo(ctx, cases[i], strlen(cases[i]), "test", &err) && err.code != FLX_E_INTERNAL);
        flx_context_free(ctx);
    }
}

/* A large function that asks where it runs, called outside of a manual computation, in one, and outside again. */
TEST(stablehlo_functions_mean_what_their_calls_mean)
{
    enum { ROOM = 60000 };
    char *text = malloc(ROOM);
    flx_error err = {0};
    flx_buffer printed = {0};
    CHECK(text);
    int n = snprintf(text, ROOM,
                     "module {\n  sdy.mesh @mesh = <[\"x\"=2]>\n"
                     "  func.func private @where(%%v: tensor<2xui32>) -> tensor<2xui32> {\n"
                     "    %%p = stablehlo.partition_id : tensor<ui32>\n"
                     "    %%s0 = stablehlo.broadcast_in_dim %%p, dims = [] : (tensor<ui32>) -> tensor<2xui32>\n");
    for (int i = 0; i < 700; i++)
        n += snprintf(text + n, ROOM - (size_t)n, "    %%s%d = stablehlo.add %%s%d, %%v : tensor<2xui32>\n", i + 1, i);
    n += snprintf(text + n, ROOM - (size_t)n,
                  "    return %%s700 : tensor<2xui32>\n  }\n"
                  "  func.func public @main(%%a: tensor<4xui32>, %%b: tensor<2xui32>) -> (tensor<2xui32>, "
                  "tensor<4xui32>, tensor<2xui32>) {\n"
                  "    %%0 = call @where(%%b) : (tensor<2xui32>) -> tensor<2xui32>\n"
                  "    %%1 = sdy.manual_computation(%%a) in_shardings=[<@mesh, [{\"x\"}]>] out_shardings=[<@mesh, "
                  "[{\"x\"}]>] manual_axes={\"x\"} (%%c: tensor<2xui32>) {\n"
                  "      %%3 = func.call @where(%%c) : (tensor<2xui32>) -> tensor<2xui32>\n"
                  "      sdy.return %%3 : tensor<2xui32>\n    } : (tensor<4xui32>) -> tensor<4xui32>\n"
                  "    %%2 = call @where(%%b) : (tensor<2xui32>) -> tensor<2xui32>\n"
                  "    return %%0, %%1, %%2 : tensor<2xui32>, tensor<4xui32>, tensor<2xui32>\n  }\n}\n");
    CHECK(n < ROOM);
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_import_stablehlo(ctx, text, (size_t)n, "test", &err);
    CHECK_MADE(m, &err);
    CHECK_OK(flx_module_print(m, &printed, &err), &err);
    size_t indices = 0, functions = 0;
    for (const char *s = printed.data; (s = strstr(s, "axis_index(")); s++)
        indices++;
    for (const char *s = printed.data; (s = strstr(s, "graph ")); s++)
        functions++;
    CHECK_EQ_U64(functions, 3); /* main, and the function as it is outside and inside */
    CHECK_EQ_U64(indices, 2);   /* where the operand is cut, and in the function inside */
    flx_buffer_free(&printed);
    flx_module_free(m);
    flx_context_free(ctx);
    free(text);
}
