/* SPDX-License-Identifier: Apache-2.0 */
/* attributes.c: attributes of ops as C programs write them: by name, by position, in a struct, or not at all. The core
   header does not bring the others. */
#include <fluxion/fluxion.h>

#if defined(FLUXION_KERNEL_H) || defined(FLUXION_NN_H) || defined(FLUXION_CUSTOM_H) || defined(FLUXION_STABLEHLO_H) || \
    defined(FLUXION_RECORDING_H) || defined(FLUXION_REPORT_H)
#error "fluxion.h is the core: these headers are included by the callers that want them"
#endif

#include "test.h"

#include <string.h>

typedef struct {
    flx_context *ctx;
    flx_graph *g;
    flx_val x; /* f32[2, 3, 4] */
} building;

static building begin(void)
{
    building b = {.ctx = flx_context_new(NULL)};
    const flx_type type = flx_type_make(FLX_F32, 3, (flx_dim[]){2, 3, 4});
    b.g = flx_graph_new(b.ctx, "f");
    b.x = flx_input(b.g, "x", &type);
    return b;
}

static void end(building *b)
{
    flx_graph_release(b->g);
    flx_context_free(b->ctx);
}

/* The integer attribute `key` of the node that was appended last. */
static int64_t last_int(const building *b, const char *key)
{
    flx_node_attr_view a;
    flx_error err = {0};
    CHECK_OK(flx_graph_error(b->g, &err), &err);
    CHECK_OK(flx_node_attr_find(b->g, flx_graph_node_count(b->g) - 1, key, &a), NULL);
    CHECK_EQ_I64(a.value.kind, FLX_ATTR_INT);
    return a.value.as.i;
}

static double last_real(const building *b, const char *key)
{
    flx_node_attr_view a;
    CHECK_OK(flx_node_attr_find(b->g, flx_graph_node_count(b->g) - 1, key, &a), NULL);
    CHECK_EQ_I64(a.value.kind, FLX_ATTR_REAL);
    return a.value.as.r;
}

TEST(api_attributes_by_name)
{
    building b = begin();
    flx_argmax(b.g, b.x, .axis = 1);
    CHECK_EQ_I64(last_int(&b, "axis"), 1);
    flx_argmax(b.g, b.x, .axis = 0); /* a zero that is not the default */
    CHECK_EQ_I64(last_int(&b, "axis"), 0);
    flx_argmax(b.g, b.x, .keep_dims = 1);
    CHECK_EQ_I64(last_int(&b, "keep_dims"), 1);
    CHECK_EQ_I64(last_int(&b, "axis"), 2); /* -1 of three axes */
    flx_leaky_relu(b.g, b.x, .alpha = 0);
    CHECK(last_real(&b, "alpha") == 0);
    flx_leaky_relu(b.g, b.x);
    CHECK(last_real(&b, "alpha") == 0.01);
    end(&b);
}

TEST(api_attributes_by_position)
{
    building b = begin();
    for (int64_t axis = 0; axis < 3; axis++) {
        flx_argmax(b.g, b.x, axis);
        CHECK_EQ_I64(last_int(&b, "axis"), axis);
    }
    flx_argmax(b.g, b.x, 1, 1, FLX_I64);
    CHECK_EQ_I64(last_int(&b, "axis"), 1);
    CHECK_EQ_I64(last_int(&b, "keep_dims"), 1);
    flx_argmax(b.g, b.x, 1, .dtype = FLX_I64);
    CHECK_EQ_I64(flx_val_type(b.g, flx_node_result(b.g, flx_graph_node_count(b.g) - 1, 0))->dtype, FLX_I64);
    end(&b);
}

TEST(api_attributes_nest)
{
    building b = begin();
    flx_error err = {0};
    flx_val y = flx_reduce_sum(b.g, flx_softmax(b.g, flx_softmax(b.g, b.x), .axis = 0), FLX_INTS(0, 2), .keep_dims = 1);
    CHECK_OK(flx_graph_error(b.g, &err), &err);
    const flx_type *t = flx_val_type(b.g, y);
    CHECK(t->rank == 3 && t->dims[0] == 1 && t->dims[1] == 3 && t->dims[2] == 1);
    end(&b);
}

TEST(api_attributes_after_results)
{
    building b = begin();
    flx_error err = {0};
    flx_val r[2];
    CHECK_EQ_U64(flx_top_k(b.g, b.x, r, .k = 2), 2);
    CHECK_OK(flx_graph_error(b.g, &err), &err);
    CHECK_EQ_I64(flx_val_type(b.g, r[0])->dims[2], 2);
    CHECK_EQ_U64(flx_unstack(b.g, b.x, r, 2), 2);
    end(&b);
}

TEST(api_attributes_in_a_struct)
{
    building b = begin();
    flx_argmax_attrs attrs = FLX_ARGMAX_ATTRS;
    attrs.axis = 0;
    flx_argmax_with(b.g, b.x, &attrs);
    CHECK_EQ_I64(last_int(&b, "axis"), 0);
    flx_argmax_with(b.g, b.x, NULL);
    CHECK_EQ_I64(last_int(&b, "axis"), 2);
    flx_argmax_with(b.g, b.x, &(flx_argmax_attrs){0}); /* zero is the default */
    CHECK_EQ_I64(last_int(&b, "axis"), 2);
    flx_argmax_with(b.g, b.x, &(flx_argmax_attrs){.axis = 1});
    CHECK_EQ_I64(last_int(&b, "axis"), 1);
    end(&b);
}

/* A struct of an older version ends before the fields that came later. Sizes that no version has are refused. */
TEST(api_attributes_of_every_length)
{
    flx_argmax_attrs attrs = {sizeof attrs, 1, 1, FLX_I64};
    for (uint32_t size = 1; size <= sizeof attrs; size++) {
        building b = begin();
        flx_error err = {0};
        attrs.struct_size = size;
        flx_argmax_with(b.g, b.x, &attrs);
        test_fail_context("struct_size %u", size);
        if (size <= sizeof size || size % _Alignof(flx_argmax_attrs)) {
            CHECK_CODE(flx_graph_error(b.g, &err), FLX_E_USAGE, &err);
            CHECK_MSG(strstr(err.message, "flx_argmax_attrs") != NULL, "%s", err.message);
        } else {
            bool has_axis = size >= offsetof(flx_argmax_attrs, axis) + sizeof attrs.axis;
            bool has_keep = size >= offsetof(flx_argmax_attrs, keep_dims) + sizeof attrs.keep_dims;
            CHECK_EQ_I64(last_int(&b, "axis"), has_axis ? 1 : 2);
            CHECK_EQ_I64(last_int(&b, "keep_dims"), has_keep);
        }
        end(&b);
    }
}

/* Structs of a newer version: what the library does not know must be zero. */
TEST(api_attributes_of_a_newer_version)
{
    struct {
        flx_elu_attrs attrs;
        double later;
    } newer = {.attrs = {sizeof newer, 2}};
    for (int is_set = 0; is_set < 2; is_set++) {
        building b = begin();
        newer.later = is_set;
        flx_elu_with(b.g, b.x, &newer.attrs);
        CHECK_CODE(flx_graph_error(b.g, NULL), is_set ? FLX_E_USAGE : FLX_OK, NULL);
        end(&b);
    }
    static const uint32_t odd[] = {1, 4, 12, 4104, UINT32_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        building b = begin();
        flx_elu_with(b.g, b.x, &(flx_elu_attrs){odd[i], 2});
        CHECK_CODE(flx_graph_error(b.g, NULL), FLX_E_USAGE, NULL);
        end(&b);
    }
}

TEST(api_attributes_that_must_be_given_are_reported)
{
    building b = begin();
    flx_error err = {0};
    flx_cast(b.g, b.x);
    CHECK_CODE(flx_graph_error(b.g, &err), FLX_E_ATTRIBUTE, &err);
    CHECK_MSG(strstr(err.message, "to") && strstr(err.message, "cast"), "%s", err.message);
    end(&b);
}

/* ---- Reading them ---- */

TEST(api_node_attributes_rebuild_a_node)
{
    building b = begin();
    flx_error err = {0};
    flx_val y = flx_reduce_sum(b.g, b.x, FLX_INTS(0, 2), 1);
    size_t node = flx_graph_node_count(b.g) - 1;
    flx_node_view view;
    flx_node_attr_view attrs[8];
    flx_attr given[8];
    CHECK_OK(flx_graph_node(b.g, node, &view), NULL);
    CHECK_EQ_U64(view.num_attrs, 2);
    for (uint32_t k = 0; k < view.num_attrs; k++) {
        CHECK_OK(flx_node_attr(b.g, node, k, &attrs[k]), NULL);
        given[k] = attrs[k].value;
    }
    CHECK_EQ_STR(attrs[0].value.key, "axes");
    CHECK_EQ_STR(attrs[0].kind, "ints");
    CHECK(attrs[0].value.as.ints.n == 2 && attrs[0].value.as.ints.v[1] == 2);
    CHECK_EQ_STR(attrs[1].kind, "bool");
    CHECK(!attrs[1].is_default);
    flx_val z;
    CHECK_EQ_U64(flx_op(b.g, view.op, &b.x, 1, given, view.num_attrs, &z, 1), 1);
    CHECK_OK(flx_graph_error(b.g, &err), &err);
    CHECK(memcmp(flx_val_type(b.g, y), flx_val_type(b.g, z), sizeof(flx_type)) == 0);
    CHECK_CODE(flx_node_attr(b.g, node, view.num_attrs, &attrs[0]), FLX_E_NAME, NULL);
    CHECK_CODE(flx_node_attr(b.g, 1000, 0, &attrs[0]), FLX_E_NAME, NULL);
    CHECK_CODE(flx_node_attr_find(b.g, node, "axis", &attrs[0]), FLX_E_NAME, NULL);
    CHECK_CODE(flx_node_attr(b.g, node, 0, NULL), FLX_E_USAGE, NULL);
    end(&b);
}

TEST(api_node_attributes_of_every_kind)
{
    static const char text[] = "graph body(c: f32[], x: f32[]) { return add(c, x), x }\n"
                               "graph f(x: f32[2, 3], h: f32[], xs: f32[4], k: u32[2]) {\n"
                               "  a = cast(x, to=f64)\n"
                               "  b = pad(x, 0, low=[1, 1], high=[0, 2])\n"
                               "  c, ys = scan(h, xs, body=@body)\n"
                               "  d = const(f32[2], [1, 2])\n"
                               "  e = gather(x, cast(xs, to=i32), oob=clamp)\n"
                               "  return a, b, c, ys, d, e\n"
                               "}\n";
    static const struct {
        const char *op, *key, *kind;
        int32_t value;
    } wanted[] = {{"cast", "to", "dtype", FLX_ATTR_WORD},     {"pad", "low", "dims", FLX_ATTR_INTS},
                  {"scan", "body", "graph", FLX_ATTR_GRAPH},  {"const", "type", "type", FLX_ATTR_TYPE},
                  {"const", "data", "data", FLX_ATTR_TENSOR}, {"gather", "oob", "word", FLX_ATTR_WORD}};
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, strlen(text), "attrs", &err);
    CHECK_MADE(m, &err);
    const flx_graph *g = flx_module_main(m);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        flx_node_view view;
        flx_node_attr_view a = {0};
        size_t node = 0;
        while (flx_graph_node(g, node, &view) == FLX_OK && strcmp(view.op, wanted[i].op) != 0)
            node++;
        test_fail_context("%s of %s", wanted[i].key, wanted[i].op);
        CHECK_OK(flx_node_attr_find(g, node, wanted[i].key, &a), NULL);
        CHECK_EQ_STR(a.kind, wanted[i].kind);
        CHECK_EQ_I64(a.value.kind, wanted[i].value);
        if (wanted[i].value == FLX_ATTR_WORD)
            CHECK_EQ_STR(a.value.as.s, i == 0 ? "f64" : "clamp");
    }
    flx_module_free(m);
    flx_context_free(ctx);
}
