/* SPDX-License-Identifier: Apache-2.0 */
/* graph_draw.c: see graph_draw.h. A group that is open needs more room than its box in the layout: the others of its
   layer move apart by that much, and the layers below move down. src/report/page/graph.js does the same in the browser,
   where groups open and close. */
#include "report/graph_draw.h"

#include "report/report_text.h"

#include <stdlib.h>

enum { PAD = 16, HEAD = 32, MARGIN = 20, TITLE_ROOM = 34, FAR = 700 }; /* an edge that is longer is drawn lightly */

typedef struct {
    double x, y, w, h; /* of the box: left, top */
    double content;    /* of an open group: where x = 0 of its layout is, from its left side */
    double *layer_y;   /* of an open group: top of each layer, from its top; then the end */
} placed;

typedef struct {
    const flxi_graph_view *v;
    flxi_arena arena;
    placed *at; /* by item */
    flxi_strbuf *out;
    bool ok;
} picture;

static bool is_open_group(const flxi_graph_view *v, uint32_t item)
{
    return item >= v->num_nodes && v->groups[item - v->num_nodes].is_open;
}

/* ---- Positions ---- */

/* How far something at x in this layer moves because of groups that are open. */
static double shift_at(const picture *p, const flxi_view_group *g, uint32_t layer, double x)
{
    double shift = 0;
    for (uint32_t i = 0; i < g->num_items; i++) {
        const flxi_view_item *item = &p->v->items[g->items[i]];
        if (item->layer == layer && item->x != x)
            shift += (item->x < x ? 0.5 : -0.5) * (p->at[g->items[i]].w - item->width);
    }
    return shift;
}

static void measure(picture *p, uint32_t item);

static void measure_inside(picture *p, uint32_t item)
{
    const flxi_graph_view *v = p->v;
    const flxi_view_group *g = &v->groups[item - v->num_nodes];
    placed *own = &p->at[item];
    double left = 0, right = 0;
    own->layer_y = flxi_new(&p->arena, double, g->num_layers + 1);
    if (!own->layer_y) {
        p->ok = false;
        return;
    }
    for (uint32_t i = 0; i < g->num_items; i++)
        measure(p, g->items[i]);
    for (uint32_t i = 0; i < g->num_items; i++) {
        const flxi_view_item *child = &v->items[g->items[i]];
        const placed *box = &p->at[g->items[i]];
        double x = child->x + shift_at(p, g, child->layer, child->x);
        left = i == 0 || x - box->w / 2 < left ? x - box->w / 2 : left;
        right = i == 0 || x + box->w / 2 > right ? x + box->w / 2 : right;
        double *height = &own->layer_y[child->layer + 1];
        *height = box->h > *height ? box->h : *height;
    }
    for (uint32_t i = 0; i < g->num_edges; i++) {
        const flxi_layout_edge *e = &g->edges[i];
        uint32_t top = e->is_reversed ? v->items[e->to].layer : v->items[e->from].layer;
        for (uint32_t k = 0; k < e->num_way; k++) {
            double x = e->way[k] + shift_at(p, g, top + 1 + k, e->way[k]);
            left = x < left ? x : left;
            right = x > right ? x : right;
        }
    }
    own->layer_y[0] = v->items[item].parent == FLXI_VIEW_NONE ? TITLE_ROOM : HEAD;
    for (uint32_t i = 1; i <= g->num_layers; i++)
        own->layer_y[i] += own->layer_y[i - 1] + FLXI_VIEW_BETWEEN;
    own->content = PAD - left;
    own->w = right - left + 2 * PAD;
    own->w = own->w > v->items[item].width ? own->w : v->items[item].width;
    own->h = own->layer_y[g->num_layers] - FLXI_VIEW_BETWEEN + PAD;
}

static void measure(picture *p, uint32_t item)
{
    p->at[item].w = p->v->items[item].width;
    p->at[item].h = FLXI_VIEW_HEIGHT;
    if (is_open_group(p->v, item))
        measure_inside(p, item);
}

static void place_inside(picture *p, uint32_t item)
{
    const flxi_graph_view *v = p->v;
    const flxi_view_group *g = &v->groups[item - v->num_nodes];
    const placed *own = &p->at[item];
    for (uint32_t i = 0; p->ok && i < g->num_items; i++) {
        const flxi_view_item *child = &v->items[g->items[i]];
        placed *box = &p->at[g->items[i]];
        double room = own->layer_y[child->layer + 1] - own->layer_y[child->layer] - FLXI_VIEW_BETWEEN;
        double x = child->x + shift_at(p, g, child->layer, child->x);
        box->x = own->x + own->content + x - box->w / 2;
        box->y = own->y + own->layer_y[child->layer] + (room - box->h) / 2;
        if (is_open_group(v, g->items[i]))
            place_inside(p, g->items[i]);
    }
}

/* ---- Boxes ---- */

static void add_box(const picture *p, uint32_t item, const char *class)
{
    static const char *const phases[] = {"forward", "backward", "update"};
    const placed *b = &p->at[item];
    flxi_strbuf *out = p->out;
    flxi_addf(out, "<rect class=\"%s %s\" x=\"", class, phases[p->v->items[item].phase]);
    flxi_add_fixed(out, b->x, 1);
    flxi_add_text(out, "\" y=\"");
    flxi_add_fixed(out, b->y, 1);
    flxi_add_text(out, "\" width=\"");
    flxi_add_fixed(out, b->w, 1);
    flxi_add_text(out, "\" height=\"");
    flxi_add_fixed(out, b->h, 1);
    flxi_add_text(out, "\" rx=\"8\"/>\n");
}

static void add_line(const picture *p, double x, double y, const char *class, const char *text, size_t max)
{
    flxi_strbuf *out = p->out;
    flxi_addf(out, "<text class=\"%s\" x=\"", class);
    flxi_add_fixed(out, x, 1);
    flxi_add_text(out, "\" y=\"");
    flxi_add_fixed(out, y, 1);
    flxi_add_text(out, "\">");
    flxi_add_xml_cut(out, text, max);
    flxi_add_text(out, "</text>\n");
}

static const char *class_of(const flxi_graph_view *v, uint32_t item)
{
    if (item >= v->num_nodes)
        return "group";
    const flxi_node *n = flxi_node_at(v->g, item);
    return flxi_is_param(n) ? "param" : n->nin == 0 ? "input" : "op";
}

static void add_item(const picture *p, uint32_t item)
{
    const flxi_graph_view *v = p->v;
    const placed *b = &p->at[item];
    if (is_open_group(v, item)) {
        add_box(p, item, "open");
        add_line(p, b->x + 12, b->y + 20, "head", v->items[item].title, 60);
        return;
    }
    flxi_add_text(p->out, "<g><title>");
    flxi_add_xml(p->out, v->items[item].title);
    flxi_add_text(p->out, ": ");
    flxi_add_xml(p->out, v->items[item].detail);
    flxi_add_text(p->out, "</title>\n");
    add_box(p, item, class_of(v, item));
    add_line(p, b->x + b->w / 2, b->y + 17, "title", v->items[item].title, FLXI_VIEW_TITLE);
    add_line(p, b->x + b->w / 2, b->y + 32, "detail", v->items[item].detail, FLXI_VIEW_DETAIL);
    flxi_add_text(p->out, "</g>\n");
}

static void add_inside(const picture *p, uint32_t item, bool of_groups)
{
    const flxi_view_group *g = &p->v->groups[item - p->v->num_nodes];
    for (uint32_t i = 0; i < g->num_items; i++) {
        bool is_open = is_open_group(p->v, g->items[i]);
        if (is_open == of_groups)
            add_item(p, g->items[i]);
        if (is_open)
            add_inside(p, g->items[i], of_groups);
    }
}

/* ---- Edges ---- */

typedef struct {
    uint32_t from, to;     /* what is visible */
    uint32_t above, below; /* items of one group that contain these */
} visible_edge;

static uint32_t parent_item(const flxi_graph_view *v, uint32_t item)
{
    return v->num_nodes + v->items[item].parent;
}

/* The outermost closed group around a node, or the node. */
static uint32_t visible_item(const flxi_graph_view *v, uint32_t node)
{
    uint32_t seen = node;
    for (uint32_t at = node; flxi_view_is_drawn(v, at); at = parent_item(v, at))
        if (!is_open_group(v, parent_item(v, at)))
            seen = parent_item(v, at);
    return seen;
}

static uint32_t depth_of(const flxi_graph_view *v, uint32_t item)
{
    uint32_t depth = 0;
    for (; flxi_view_is_drawn(v, item); item = parent_item(v, item))
        depth++;
    return depth;
}

static visible_edge edge_between(const flxi_graph_view *v, uint32_t from, uint32_t to)
{
    visible_edge e = {from, to, from, to};
    uint32_t a = depth_of(v, from), b = depth_of(v, to);
    for (; a > b; a--)
        e.above = parent_item(v, e.above);
    for (; b > a; b--)
        e.below = parent_item(v, e.below);
    while (v->items[e.above].parent != v->items[e.below].parent) {
        e.above = parent_item(v, e.above);
        e.below = parent_item(v, e.below);
    }
    return e;
}

static int compare_visible(const void *x, const void *y)
{
    const visible_edge *a = x, *b = y;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

static const flxi_layout_edge *layout_edge(const flxi_graph_view *v, const visible_edge *e)
{
    const flxi_view_group *g = &v->groups[v->items[e->above].parent];
    for (uint32_t i = 0; i < g->num_edges; i++)
        if (g->edges[i].from == e->above && g->edges[i].to == e->below)
            return &g->edges[i];
    return NULL;
}

static void add_pair(flxi_strbuf *out, double x, double y)
{
    flxi_add_char(out, ' ');
    flxi_add_fixed(out, x, 1);
    flxi_add_char(out, ' ');
    flxi_add_fixed(out, y, 1);
}

/* A curve that leaves and arrives vertically. */
static void add_curve(flxi_strbuf *out, double x0, double y0, double x1, double y1)
{
    double middle = (y0 + y1) / 2;
    flxi_add_text(out, "C");
    add_pair(out, x0, middle);
    add_pair(out, x1, middle);
    add_pair(out, x1, y1);
}

static void add_edge(const picture *p, const visible_edge *e)
{
    const flxi_graph_view *v = p->v;
    const flxi_layout_edge *l = layout_edge(v, e);
    const placed *from = &p->at[e->from], *to = &p->at[e->to], *around = &p->at[parent_item(v, e->above)];
    const flxi_view_group *g = &v->groups[v->items[e->above].parent];
    bool is_far = (l && (l->is_long || l->is_reversed)) || to->y - from->y - from->h > FAR;
    double x = from->x + from->w / 2, y = from->y + from->h;
    flxi_addf(p->out, "<path class=\"edge%s\" d=\"M", is_far ? " far" : "");
    add_pair(p->out, x, y);
    for (uint32_t k = 0; l && !l->is_reversed && k < l->num_way; k++) {
        uint32_t layer = v->items[e->above].layer + 1 + k;
        double at = around->x + around->content + l->way[k] + shift_at(p, g, layer, l->way[k]);
        double top = around->y + around->layer_y[layer];
        double end = around->y + around->layer_y[layer + 1] - FLXI_VIEW_BETWEEN;
        add_curve(p->out, x, y, at, top);
        flxi_add_text(p->out, "L");
        add_pair(p->out, at, end);
        x = at;
        y = end;
    }
    add_curve(p->out, x, y, to->x + to->w / 2, to->y - 5);
    flxi_add_text(p->out, "\" marker-end=\"url(#arrow)\"/>\n");
}

static void add_edges(picture *p)
{
    const flxi_graph_view *v = p->v;
    FLXI_VEC(visible_edge) list = {0};
    for (uint32_t i = 0; p->ok && i < v->num_nodes; i++) {
        const flxi_node *n = flxi_node_at(v->g, i);
        for (uint32_t k = 0; flxi_view_is_drawn(v, i) && k < n->nin; k++) {
            uint32_t producer = flxi_value_at(v->g, n->in[k])->node;
            if (!flxi_view_is_drawn(v, producer))
                continue;
            uint32_t from = visible_item(v, producer), to = visible_item(v, i);
            if (from != to)
                p->ok = p->ok && flxi_push(p->arena.mem, &list, edge_between(v, from, to));
        }
    }
    if (list.n)
        qsort(list.at, list.n, sizeof *list.at, compare_visible);
    for (size_t i = 0; p->ok && i < list.n; i++)
        if (i == 0 || compare_visible(&list.at[i - 1], &list.at[i]) != 0)
            add_edge(p, &list.at[i]);
    flxi_vec_free(p->arena.mem, &list);
}

/* ---- The picture ---- */

static const char style[] =
    "<style>\n"
    "svg { --paper: #fdfdfc; --ink: #1c2127; --soft: #68707a; --line: #a9b1bb; --edge: #d9dde2;\n"
    "  --forward: #2f6fde; --backward: #c2571a; --update: #7a4fd0; --param: #0f8a6a; --input: #59636e; }\n"
    "@media (prefers-color-scheme: dark) { svg { --paper: #12161b; --ink: #e8ebee; --soft: #97a1ac; --line: #59636e;\n"
    "  --edge: #2c343d; --forward: #6ea3ff; --backward: #f08c4f; --update: #ad8cff; --param: #3fc79e; --input: "
    "#97a1ac; "
    "} }\n"
    ".paper { fill: var(--paper); }\n"
    "rect { stroke-width: 1.2; }\n"
    ".op, .group { fill: var(--paper); stroke: var(--forward); }\n"
    ".backward { stroke: var(--backward); }\n"
    ".update { stroke: var(--update); }\n"
    ".group { stroke-width: 2.4; }\n"
    ".param { fill: var(--paper); stroke: var(--param); stroke-dasharray: 4 3; }\n"
    ".input { fill: var(--paper); stroke: var(--input); stroke-dasharray: 4 3; }\n"
    ".open { fill: var(--soft); fill-opacity: .06; stroke: var(--edge); }\n"
    "text { fill: var(--ink); font: 12px ui-sans-serif, system-ui, sans-serif; text-anchor: middle; }\n"
    ".title { font-weight: 600; }\n"
    ".detail { fill: var(--soft); font-size: 10px; font-family: ui-monospace, monospace; }\n"
    ".head { fill: var(--soft); font-weight: 600; text-anchor: start; }\n"
    ".name { font-size: 17px; font-weight: 650; text-anchor: start; }\n"
    ".edge { fill: none; stroke: var(--line); stroke-width: 1.3; }\n"
    ".far { stroke-opacity: .45; }\n"
    "marker path { fill: var(--line); }\n"
    "</style>\n";

flx_code flxi_draw_svg(const flxi_graph_view *v, const char *title, flxi_strbuf *out, flx_error *err)
{
    picture p = {.v = v, .out = out, .ok = true};
    uint32_t root = v->num_nodes;
    flxi_arena_init(&p.arena, v->arena.mem);
    p.at = flxi_new(&p.arena, placed, (size_t)v->num_nodes + v->num_groups);
    p.ok = p.at != NULL;
    if (p.ok) {
        measure(&p, root);
        double least = 9.5 * (double)flxi_text_length(title) + 2 * PAD;
        p.at[root].w = p.at[root].w > least ? p.at[root].w : least;
    }
    if (p.ok) {
        place_inside(&p, root);
        flxi_addf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"%d %d %d %d\" width=\"%d\" height=\"%d\">\n",
                  -MARGIN, -MARGIN, (int)p.at[root].w + 2 * MARGIN, (int)p.at[root].h + 2 * MARGIN,
                  (int)p.at[root].w + 2 * MARGIN, (int)p.at[root].h + 2 * MARGIN);
        flxi_add_text(out, "<title>");
        flxi_add_xml(out, title);
        flxi_add_text(out, "</title>\n");
        flxi_add_text(out, style);
        flxi_add_text(out, "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" markerWidth=\"7\" "
                           "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n");
        flxi_addf(out, "<rect class=\"paper\" x=\"%d\" y=\"%d\" width=\"100%%\" height=\"100%%\"/>\n", -MARGIN,
                  -MARGIN);
        add_line(&p, 0, 6, "name", title, 200);
        add_inside(&p, root, true);
        add_edges(&p);
        add_inside(&p, root, false);
        flxi_add_text(out, "</svg>\n");
    }
    flxi_arena_free(&p.arena);
    return p.ok ? FLX_OK : flxi_oom(err, "a drawing");
}

/* ---- Graphviz ---- */

static void add_dot_text(flxi_strbuf *out, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            flxi_add_char(out, '\\');
        flxi_add_char(out, (unsigned char)*s < 32 || *s == 127 ? ' ' : *s);
    }
}

static void add_dot_group(const flxi_graph_view *v, uint32_t group, int depth, flxi_strbuf *out)
{
    static const char *const shapes[] = {"box", "ellipse"};
    const flxi_view_group *g = &v->groups[group];
    for (uint32_t i = 0; i < g->num_items; i++) {
        uint32_t item = g->items[i];
        flxi_addf(out, "%*s", 2 * depth, "");
        if (item >= v->num_nodes) {
            flxi_addf(out, "subgraph cluster_%u {\n%*slabel=\"", item - v->num_nodes, 2 * depth + 2, "");
            add_dot_text(out, v->items[item].title);
            flxi_add_text(out, "\";\n");
            add_dot_group(v, item - v->num_nodes, depth + 1, out);
            flxi_addf(out, "%*s}\n", 2 * depth, "");
            continue;
        }
        flxi_addf(out, "n%u [shape=%s, label=\"", item, shapes[flxi_node_at(v->g, item)->nin == 0]);
        add_dot_text(out, v->items[item].title);
        flxi_add_text(out, "\\n");
        add_dot_text(out, v->items[item].detail);
        flxi_add_text(out, "\"];\n");
    }
}

void flxi_draw_dot(const flxi_graph_view *v, const char *title, flxi_strbuf *out)
{
    flxi_add_text(out, "digraph \"");
    add_dot_text(out, title);
    flxi_add_text(out, "\" {\n  node [fontname=\"sans-serif\", fontsize=11];\n");
    add_dot_group(v, 0, 1, out);
    for (uint32_t i = 0; i < v->num_nodes; i++) {
        const flxi_node *n = flxi_node_at(v->g, i);
        for (uint32_t k = 0; flxi_view_is_drawn(v, i) && k < n->nin; k++) {
            uint32_t producer = flxi_value_at(v->g, n->in[k])->node;
            if (flxi_view_is_drawn(v, producer))
                flxi_addf(out, "  n%u -> n%u;\n", producer, i);
        }
    }
    flxi_add_text(out, "}\n");
}
