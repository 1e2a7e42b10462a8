/* SPDX-License-Identifier: Apache-2.0 */
/* graph_views.c: how graphs are grouped and laid out. */
#include "report/graph_view.h"
#include "report/report_case.h"
#include "test.h"
#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Layers ---- */

/* Boxes of a layer do not overlap, edges point down unless they are reversed, and have a waypoint in each layer. */
static void check_layout(const flxi_layout *l)
{
    for (uint32_t a = 0; a < l->n; a++) {
        CHECK(l->layer[a] < l->num_layers);
        CHECK(l->x[a] - l->width[a] / 2 > -0.01 && l->x[a] + l->width[a] / 2 < l->total_width + 0.01);
        for (uint32_t b = 0; b < a; b++) {
            double apart = l->x[a] > l->x[b] ? l->x[a] - l->x[b] : l->x[b] - l->x[a];
            if (l->layer[a] == l->layer[b])
                CHECK_MSG(apart > (l->width[a] + l->width[b]) / 2 + FLXI_LAYOUT_GAP - 0.01, "%u and %u overlap", a, b);
        }
    }
    for (uint32_t i = 0; i < l->num_edges; i++) {
        const flxi_layout_edge *e = &l->edges[i];
        uint32_t above = l->layer[e->is_reversed ? e->to : e->from], below = l->layer[e->is_reversed ? e->from : e->to];
        CHECK(above < below);
        CHECK_EQ_U64(e->num_way, e->is_long ? 0 : below - above - 1);
    }
}

TEST(report_layout_of_random_graphs_has_no_overlap)
{
    flx_context *ctx = flx_context_new(NULL);
    uint64_t state = test_seed();
    for (int round = 0; round < 60; round++) {
        flx_error err = {0};
        flxi_arena arena;
        flxi_layout_edge edges[400] = {0};
        double width[100], pull[100];
        flxi_layout l = {.n = 1 + (uint32_t)(test_random(&state) % 100), .width = width, .pull = pull, .edges = edges};
        flxi_arena_init(&arena, flxi_context_mem(ctx));
        for (uint32_t i = 0; i < l.n; i++) {
            width[i] = 40 + 100 * test_uniform(&state);
            pull[i] = i % 3 ? 1 : 0.1;
        }
        uint32_t wanted = (uint32_t)(test_random(&state) % 300);
        for (uint32_t i = 0; i < wanted; i++) {
            uint32_t from = (uint32_t)(test_random(&state) % l.n), to = (uint32_t)(test_random(&state) % l.n);
            bool is_new = from != to && (round % 4 == 0 || from < to); /* some graphs have cycles */
            for (uint32_t k = 0; k < l.num_edges; k++)
                is_new &= (edges[k].from != from || edges[k].to != to) && (edges[k].from != to || edges[k].to != from);
            if (is_new)
                edges[l.num_edges++] = (flxi_layout_edge){.from = from, .to = to};
        }
        CHECK_OK(flxi_layout_layers(&l, &arena, &err), &err);
        check_layout(&l);
        flxi_arena_free(&arena);
    }
    flx_context_free(ctx);
}

/* A path is straight, whatever parameters are beside it. */
TEST(report_layout_of_a_path_is_straight)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flxi_arena arena;
    flxi_layout_edge edges[16] = {0};
    double width[16], pull[16];
    flxi_layout l = {.n = 16, .num_edges = 15, .width = width, .pull = pull, .edges = edges};
    flxi_arena_init(&arena, flxi_context_mem(ctx));
    for (uint32_t i = 0; i < 8; i++) { /* 0 … 7 is the path, 8 + i the parameter of i */
        width[i] = width[8 + i] = 80;
        pull[i] = 1;
        pull[8 + i] = 0.02;
        edges[2 * i] = (flxi_layout_edge){.from = 8 + i, .to = i};
        if (i < 7)
            edges[2 * i + 1] = (flxi_layout_edge){.from = i, .to = i + 1};
    }
    CHECK_OK(flxi_layout_layers(&l, &arena, &err), &err);
    check_layout(&l);
    for (uint32_t i = 1; i < 8; i++)
        CHECK_NEAR(l.x[i], l.x[0], 20);
    for (uint32_t i = 1; i < 8; i++)
        CHECK_EQ_U64(l.layer[8 + i] + 1, l.layer[i]);
    flxi_arena_free(&arena);
    flx_context_free(ctx);
}

/* ---- Groups ---- */

/* Every node that is drawn is in one group, groups have a bounded size, and contain each other without a cycle. */
static void check_view(const flxi_graph_view *v)
{
    uint32_t *seen = calloc((size_t)v->num_nodes + v->num_groups, sizeof *seen);
    CHECK(seen != NULL);
    for (uint32_t i = 0; i < v->num_groups; i++) {
        CHECK(v->groups[i].num_items <= FLXI_VIEW_MOST);
        CHECK(i == 0 || v->groups[i].num_items > 1);
        for (uint32_t k = 0; k < v->groups[i].num_items; k++) {
            CHECK_EQ_U64(v->items[v->groups[i].items[k]].parent, i);
            seen[v->groups[i].items[k]]++;
        }
    }
    for (uint32_t i = 0; i < v->num_nodes + v->num_groups; i++) {
        uint32_t depth = 0;
        CHECK_EQ_U64(seen[i], flxi_view_is_drawn(v, i));
        for (uint32_t at = i; flxi_view_is_drawn(v, at); at = v->num_nodes + v->items[at].parent)
            CHECK(++depth < 100);
    }
    free(seen);
}

static flxi_graph_view view_of(const flx_graph *g)
{
    flx_error err = {0};
    flxi_graph_view v;
    CHECK_OK(flxi_graph_view_make(&v, g, NULL, &err), &err);
    check_view(&v);
    return v;
}

/* The names of the groups around a node, from the outermost: "forward/layer0/norm1". */
static const char *path_of(const flxi_graph_view *v, uint32_t item)
{
    static char text[200];
    char inner[200] = "";
    for (; flxi_view_is_drawn(v, item) && v->items[item].parent; item = v->num_nodes + v->items[item].parent) {
        snprintf(text, sizeof text, "%.80s%s%.100s", v->items[v->num_nodes + v->items[item].parent].title,
                 inner[0] ? "/" : "", inner);
        snprintf(inner, sizeof inner, "%s", text);
    }
    snprintf(text, sizeof text, "%s", inner);
    return text;
}

static uint32_t node_of(const flxi_graph_view *v, const char *name)
{
    for (uint32_t i = 0; i < v->num_nodes; i++) {
        const flxi_node *n = flxi_node_at(v->g, i);
        const char *own = n->nout ? flxi_value_at(v->g, n->first)->name : NULL;
        if (own && strcmp(own, name) == 0)
            return i;
    }
    FAIL("no node is called %s", name);
    return 0;
}

TEST(report_groups_follow_the_names_of_parameters)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = report_read_example(ctx, "gpt2.flx");
    flx_graph *low = flx_lower(flx_module_main(m), FLX_POLICY_FOR_AUTODIFF, NULL);
    CHECK(low != NULL);
    flxi_graph_view v = view_of(low);
    CHECK_EQ_STR(path_of(&v, node_of(&v, "a0")), "layer0/norm1");
    CHECK_EQ_STR(path_of(&v, node_of(&v, "q0")), "layer0/attention/q");
    CHECK_EQ_STR(path_of(&v, node_of(&v, "y0")), "layer0"); /* an addition that no parameter is part of */
    CHECK_EQ_STR(path_of(&v, node_of(&v, "b1")), "layer1/norm2");
    CHECK_EQ_STR(path_of(&v, node_of(&v, "layer1.up.w")), "layer1/up");
    CHECK_EQ_STR(v.items[node_of(&v, "layer1.up.w")].title, "w");
    uint32_t visible = 0;
    for (uint32_t i = 0; i < v.num_groups; i++)
        visible += v.groups[i].is_open ? v.groups[i].num_items - (i > 0) : 0;
    CHECK(v.groups[0].is_open && visible <= FLXI_VIEW_OPEN);
    flxi_graph_view_free(&v);
    flx_graph_release(low);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(report_groups_separate_the_phases_of_training)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = report_read_example(ctx, "mlp.flx");
    const flx_train_options train = {.struct_size = sizeof train, .optimiser = FLX_ADAM};
    flx_graph *step = flx_training_graph(flx_module_main(m), &train, &err);
    CHECK_MADE(step, &err);
    flxi_graph_view v = view_of(step);
    CHECK(v.has_phases);
    CHECK_EQ_U64(v.items[node_of(&v, "loss")].phase, FLXI_FORWARD);
    CHECK_EQ_U64(v.items[node_of(&v, "w1")].phase, FLXI_FORWARD);
    CHECK_EQ_U64(v.items[node_of(&v, "state_w1_m")].phase, FLXI_UPDATE);
    for (size_t i = 0; i < flx_graph_output_count(step); i++) {
        uint32_t node = flxi_value_at(step, flx_graph_output(step, i).id)->node;
        bool is_update = strncmp(flx_graph_output_name(step, i), "new_", 4) == 0;
        CHECK_EQ_U64(v.items[node].phase, is_update ? FLXI_UPDATE : FLXI_FORWARD);
    }
    flxi_graph_view_free(&v);
    flx_graph_release(step);
    flx_module_free(m);

    m = report_parse(ctx, "graph f(x: f32[3], new_y: f32[3]) { d_z = exp(x) return d_z, new_y }");
    v = view_of(flx_module_main(m)); /* names alone are not enough: there is no input z, and none called y */
    CHECK(!v.has_phases);
    flxi_graph_view_free(&v);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* What guards a step depends on all gradients; it belongs to the backward pass. */
TEST(report_groups_separate_the_phases_of_a_guarded_step)
{
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = report_read_example(ctx, "mlp.flx");
    const flx_schedule_options cosine = {.struct_size = sizeof cosine, .kind = FLX_SCHEDULE_COSINE, .steps = 9};
    flx_graph *schedule = flx_schedule_graph(ctx, &cosine, &err);
    CHECK_MADE(schedule, &err);
    const flx_train_options given = {.struct_size = sizeof given,
                                     .optimiser = FLX_ADAMW,
                                     .flags = FLX_TRAIN_NORMS,
                                     .schedule = schedule,
                                     .clip_norm = 1};
    flx_train_options options;
    CHECK_OK(flxi_train_options_read(&options, &given, &err), &err);
    flxi_training t = {0};
    CHECK_OK(flxi_training_make(&t, flx_module_main(m), &options, true, &err), &err);
    flxi_graph_view v = view_of(t.g);
    CHECK(v.has_phases);
    const struct {
        const char *output;
        uint8_t phase;
    } outputs[] = {{"loss", FLXI_FORWARD},
                   {"p", FLXI_FORWARD},
                   {"loss_or_gradient_norm", FLXI_BACKWARD},
                   {"gradient_squares", FLXI_BACKWARD},
                   {"rate", FLXI_UPDATE},
                   {"new_w1", FLXI_UPDATE}};
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        size_t k = 0;
        while (k < t.g->outputs.n && strcmp(t.g->outputs.at[k].name, outputs[i].output) != 0)
            k++;
        CHECK_MSG(k < t.g->outputs.n, "%s", outputs[i].output);
        uint32_t node = flxi_value_at(t.g, t.g->outputs.at[k].val)->node;
        CHECK_MSG(v.items[node].phase == outputs[i].phase, "%s: %d", outputs[i].output, v.items[node].phase);
    }
    flxi_graph_view_free(&v);
    flxi_training_free(&t);
    flx_graph_release(schedule);
    flx_module_free(m);
    flx_context_free(ctx);
}

/* A graph without names is cut into parts. */
static flx_graph *long_graph(flx_context *ctx, int n)
{
    flx_graph *g = flx_graph_new(ctx, "long");
    const flx_type type = flx_type_make(FLX_F32, 1, (flx_dim[]){4});
    flx_val x = flx_input(g, "x", &type), last[8];
    uint64_t state = 3;
    for (int i = 0; i < 8; i++)
        last[i] = x;
    for (int i = 0; i < n; i++)
        last[i % 8] = flx_add(g, last[test_random(&state) % 8], last[test_random(&state) % 8]);
    flx_output(g, last[0], "y");
    return g;
}

TEST(report_groups_without_names_open_the_first)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = long_graph(ctx, 300);
    flxi_graph_view v = view_of(g);
    uint32_t open = 0;
    for (uint32_t i = 1; i < v.num_groups; i++)
        open += v.groups[i].is_open;
    CHECK(v.num_groups > 2 && v.groups[0].is_open);
    CHECK_EQ_U64(open, 1);
    flxi_graph_view_free(&v);
    flx_graph_release(g);
    flx_context_free(ctx);
}

TEST(report_groups_of_ten_thousand_nodes_are_bounded)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = long_graph(ctx, 10000);
    flxi_graph_view v = view_of(g);
    CHECK(v.num_groups > 10000 / FLXI_VIEW_MOST);
    for (uint32_t i = 0; i < v.num_groups; i++)
        for (uint32_t k = 0; k < v.groups[i].num_edges; k++)
            CHECK(!v.groups[i].edges[k].is_reversed); /* parts are in the order of the graph */
    flxi_graph_view_free(&v);
    const flx_report_graph what = {.struct_size = sizeof what, .graph = g};
    char *svg = report_drawing(&what, FLX_DRAWING_SVG);
    report_check_xml(svg);
    CHECK(strlen(svg) < 200000);
    char *dot = report_drawing(&what, FLX_DRAWING_DOT);
    CHECK(report_count(dot, " -> ") > 10000);
    free(svg);
    free(dot);
    flx_graph_release(g);
    flx_context_free(ctx);
}
