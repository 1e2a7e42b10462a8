/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_gradient.c: Gradient, of the preview domain for training: derivatives of a tensor that nodes before it compute
   with respect to others, at the values that the operands give. The nodes in between are copied to a graph of their own
   whose inputs are these others, and what else they read; it is differentiated and inlined. A tensor with axes counts
   as the sum of its elements. */
#include "graph/op/site.h"
#include "graph/type/type.h"
#include "onnx/import/onnx_site.h"

#include <fluxion/transform.h>
#include <stdio.h>

typedef struct {
    onnx_site *s;
    const flx_graph *from; /* s->g */
    flx_graph *part;
    uint32_t num_nodes, num_values; /* of `from`, before this node appends anything */
    bool *is_read;                  /* by value: the nodes in between read it, or it is the result */
    uint32_t *var;                  /* by value: the input of the part in its place; 0: it is computed there */
    uint32_t *map;                  /* by value: that of the part */
    flx_val *args;                  /* for the inputs of the part, in order */
    size_t num_args;
} cut;

/* ---- Tensors by name ---- */

static uint32_t named(onnx_site *s, const char *name)
{
    const onnx_value *v = flxi_onnx_value_of(s, name);
    if (v && v->kind == ONNX_T_TENSOR)
        return v->v.id;
    flxi_onnx_fail(s, FLX_E_NAME, NULL, "no tensor '%.80s' is computed before it in this graph", name);
    return 0;
}

static void input_name(size_t i, char name[24])
{
    snprintf(name, 24, "v%zu", i);
}

/* An input of the part in place of a value; `arg` is what it has. */
static void open_input(cut *c, uint32_t id, flx_val arg)
{
    char name[24];
    input_name(c->num_args, name);
    c->args[c->num_args++] = arg;
    c->var[id] = c->map[id] = flx_input(c->part, name, flxi_type_at(c->from, id)).id;
}

static bool open_named(cut *c, const char *const *names, size_t n)
{
    onnx_site *s = c->s;
    for (size_t i = 0; i < n; i++) {
        flx_val x = s->x[c->num_args];
        uint32_t id = named(s, names[i]);
        if (!id)
            return false;
        if (flxi_onnx_value_of(s, names[i])->is_const) {
            flxi_onnx_unsupported(s, "'%.80s' is a constant, whose uses were evaluated when the model was read",
                                  names[i]);
            return false;
        }
        if (!flxi_onnx_given(x) || c->var[id] || !flxi_type_equal(flxi_type_at(c->from, id), flxi_onnx_typeof(s, x))) {
            flxi_onnx_fail(s, FLX_E_SHAPE, NULL, "operand %zu must be one tensor of the type of '%.80s'", c->num_args,
                           names[i]);
            return false;
        }
        open_input(c, id, x);
    }
    return true;
}

/* ---- The nodes in between ---- */

static bool is_computed(const cut *c, const flxi_node *n)
{
    for (uint32_t k = 0; k < n->nout; k++)
        if (c->is_read[n->first + k] && !c->var[n->first + k])
            return true;
    return false;
}

static void mark_read(cut *c, uint32_t result)
{
    c->is_read[result] = true;
    for (uint32_t i = c->num_nodes; i-- > 0;) {
        const flxi_node *n = flxi_node_at(c->from, i);
        for (uint32_t k = 0; is_computed(c, n) && k < n->nin; k++)
            c->is_read[n->in[k]] = true;
    }
}

static flx_code copy_node(cut *c, uint32_t i, flx_error *err)
{
    const flxi_node *n = flxi_node_at(c->from, i);
    if (flxi_is_input(n) || flxi_is_param(n)) {
        open_input(c, n->first, (flx_val){n->first, c->from->serial});
        return FLX_OK;
    }
    flx_code code = flxi_graft(c->part, c->from, i, c->map, err);
    for (uint32_t k = 0; k < n->nout; k++)
        c->map[n->first + k] = c->var[n->first + k] ? c->var[n->first + k] : c->map[n->first + k];
    return code;
}

/* Copies what is read, and declares the sum of the result. */
static flx_code copy_nodes(cut *c, uint32_t result, flx_error *err)
{
    mark_read(c, result);
    for (uint32_t i = 0; i < c->num_nodes; i++)
        if (is_computed(c, flxi_node_at(c->from, i)))
            FLXI_TRY(copy_node(c, i, err));
    flx_val y = {c->map[result], c->part->serial};
    flx_output(c->part, flxi_type_at(c->from, result)->rank ? flx_reduce_sum(c->part, y) : y, "y");
    return flxi_graph_check(c->part, err);
}

static bool begin(cut *c, onnx_site *s, size_t num_vars)
{
    *c = (cut){.s = s, .from = s->g, .num_nodes = s->g->node_count, .num_values = s->g->value_count};
    c->is_read = flxi_onnx_new(s, bool, c->num_values + 1);
    c->var = flxi_onnx_new(s, uint32_t, c->num_values + 1);
    c->map = flxi_onnx_new(s, uint32_t, c->num_values + 1);
    c->args = flxi_onnx_new(s, flx_val, num_vars + c->num_values + 1);
    c->part = flx_graph_new(flx_graph_context(s->g), "part");
    if (c->part)
        flxi_onnx_keep(s, c->part);
    return c->is_read && c->var && c->map && c->args && c->part;
}

/* The graph of derivatives with respect to the first `n` inputs. */
static flx_graph *differentiate(const cut *c, size_t n, flx_error *err)
{
    const flx_grad_options options = {.struct_size = sizeof options, .flags = FLX_GRAD_MISSING_ZERO};
    char(*names)[24] = flxi_onnx_alloc(c->s, n, sizeof *names);
    const char **wrt = flxi_onnx_new(c->s, const char *, n);
    for (size_t i = 0; names && wrt && i < n; i++) {
        input_name(i, names[i]);
        wrt[i] = names[i];
    }
    return names && wrt ? flx_grad(c->part, wrt, n, &options, err) : NULL;
}

void flxi_onnx_import_gradient(onnx_site *s)
{
    size_t num_xs, num_zs;
    cut c;
    flx_error err = {0};
    const char *const *xs = flxi_onnx_words(s, "xs", &num_xs);
    const char *const *zs = flxi_onnx_words(s, "zs", &num_zs);
    const char *y = flxi_onnx_word(s, "y", "");
    if (num_xs == 0 || num_xs + num_zs != s->nx || num_xs != s->ny) {
        flxi_onnx_fail(s, FLX_E_ARITY, NULL, "%zu operands and %zu results for %zu names in xs and %zu in zs", s->nx,
                       s->ny, num_xs, num_zs);
        return;
    }
    uint32_t result = named(s, y);
    if (!result || !flxi_onnx_spend(s, s->g->node_count) || !begin(&c, s, s->nx) || !open_named(&c, xs, num_xs) ||
        !open_named(&c, zs, num_zs))
        return;
    flx_graph *grad = copy_nodes(&c, result, &err) == FLX_OK ? differentiate(&c, num_xs, &err) : NULL;
    if (grad && flxi_onnx_spend(s, grad->node_count))
        flx_inline(s->g, grad, c.args, c.num_args, s->y, num_xs);
    else if (!flxi_onnx_failed(s))
        flxi_onnx_fail(s, (flx_code)err.code, NULL, "%.200s", err.message);
    flx_graph_release(grad);
}
