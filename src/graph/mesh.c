/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c: see mesh.h. */
#include "graph/mesh.h"

#include "base/context.h"

#include <stdlib.h>

typedef struct {
    const flxi_allocator *mem;
    flxi_mesh *mesh;
} holder;

static void *make_holder(flx_context *ctx)
{
    holder *h = flxi_alloc(&ctx->mem, 1, sizeof *h);
    if (h)
        h->mem = &ctx->mem;
    return h;
}

static void discard_holder(void *data)
{
    holder *h = data;
    if (h->mesh)
        h->mesh->discard(h->mesh);
    flxi_free(h->mem, h, 1, sizeof *h);
}

static _Thread_local struct {
    const flx_context *ctx;
    flxi_mesh *mesh;
} entered;

void flxi_mesh_enter(const flx_context *ctx, flxi_mesh *m)
{
    entered.ctx = m ? ctx : NULL;
    entered.mesh = m;
}

flxi_mesh *flxi_mesh_entered(const flx_context *ctx)
{
    return ctx && entered.ctx == ctx ? entered.mesh : NULL;
}

flxi_mesh *flxi_mesh_of(flx_context *ctx)
{
    flxi_mesh *own = flxi_mesh_entered(ctx);
    if (own)
        return own;
    const holder *h = ctx ? flxi_context_find_attached(ctx, make_holder) : NULL;
    return h ? h->mesh : NULL;
}

flx_code flxi_mesh_set(flx_context *ctx, flxi_mesh *m, flx_error *err)
{
    holder *h =
        m ? flxi_context_attached(ctx, make_holder, discard_holder) : flxi_context_find_attached(ctx, make_holder);
    if (!h)
        return m ? flxi_oom(err, "a mesh") : FLX_OK;
    if (h->mesh)
        h->mesh->discard(h->mesh);
    h->mesh = m;
    return FLX_OK;
}

/* ---- Axes ---- */

static flx_code axes_fail(const char *text, flx_error *err)
{
    return flxi_fail_hint(err, FLX_E_USAGE, "for example data=4,model=2", "'%.100s' is not a list of axes of a mesh",
                          text);
}

/* One `name=number`; returns what follows, or NULL. */
static const char *read_axis(const char *text, flxi_mesh_axis *out)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    size_t n = strspn(text, letters);
    if (!n || n >= sizeof out->name || text[n] != '=' || text[n + 1] < '1' || text[n + 1] > '9')
        return NULL;
    char *end;
    memcpy(out->name, text, n);
    out->name[n] = 0;
    out->size = strtoll(text + n + 1, &end, 10);
    return end;
}

static bool is_repeated(const flxi_mesh_axis *axes, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(axes[i].name, axes[n].name) == 0)
            return true;
    return false;
}

flx_code flxi_mesh_read_axes(const char *text, int64_t *size, flxi_mesh_axis *axes, int *num_axes, flx_error *err)
{
    int64_t product = 1;
    int n = 0;
    if (!text) {
        axes[0] = (flxi_mesh_axis){.name = "data", .size = *size ? *size : 1, .stride = 1};
        *num_axes = 1;
        return FLX_OK;
    }
    for (const char *s = text; s; n++) {
        if (n == FLXI_MESH_AXES)
            return flxi_fail(err, FLX_E_USAGE, "the mesh '%.100s' has more than %d axes", text, FLXI_MESH_AXES);
        s = read_axis(s, &axes[n]);
        if (!s || (*s && *s != ','))
            return axes_fail(text, err);
        if (is_repeated(axes, n))
            return flxi_fail(err, FLX_E_USAGE, "the mesh '%.100s' has the axis '%s' twice", text, axes[n].name);
        if (product > FLXI_MESH_RANKS / axes[n].size)
            return flxi_fail(err, FLX_E_USAGE, "the mesh '%.100s' has more than %d processes", text, FLXI_MESH_RANKS);
        product *= axes[n].size;
        s = *s ? s + 1 : NULL;
    }
    if (*size && product != *size)
        return flxi_fail_hint(err, FLX_E_USAGE, "start as many processes as the axes have together",
                              "the mesh %.100s has %lld processes, but %lld were started", text, (long long)product,
                              (long long)*size);
    *size = product;
    *num_axes = n;
    for (int i = n - 1; i >= 0; i--)
        axes[i].stride = i == n - 1 ? 1 : axes[i + 1].stride * axes[i + 1].size;
    return FLX_OK;
}

/* ---- Groups ---- */

static const flxi_mesh_axis *find_axis(const flxi_mesh_axis *axes, int num_axes, const char *name, size_t n)
{
    for (int i = 0; i < num_axes; i++)
        if (strlen(axes[i].name) == n && memcmp(axes[i].name, name, n) == 0)
            return &axes[i];
    return NULL;
}

flx_code flxi_mesh_find_axes(const flxi_mesh_axis *axes, int num_axes, const char *names, flxi_mesh_axes *out,
                             flx_error *err)
{
    *out = (flxi_mesh_axes){.n = 0};
    for (int i = 0; !*names && i < num_axes; i++)
        out->at[out->n++] = &axes[i];
    for (const char *s = names; *s;) {
        size_t n = strcspn(s, ",");
        const flxi_mesh_axis *a = find_axis(axes, num_axes, s, n);
        bool is_new = a != NULL;
        for (int i = 0; i < out->n; i++)
            is_new &= out->at[i] != a;
        if (!is_new)
            return flxi_fail_hint(err, FLX_E_NAME, "axes are named when the mesh is joined: data=4,model=2",
                                  a ? "axis '%.*s' of the mesh is named twice" : "the mesh has no axis '%.*s'", (int)n,
                                  s);
        out->at[out->n++] = a;
        s += n + (s[n] == ',');
    }
    return FLX_OK;
}

int64_t flxi_mesh_count(const flxi_mesh_axes *along)
{
    int64_t n = 1;
    for (int i = 0; i < along->n; i++)
        n *= along->at[i]->size;
    return n;
}

int64_t flxi_mesh_index(const flxi_mesh_axes *along, int64_t rank)
{
    int64_t index = 0;
    for (int i = 0; i < along->n; i++)
        index = index * along->at[i]->size + rank / along->at[i]->stride % along->at[i]->size;
    return index;
}

int64_t flxi_mesh_peer(const flxi_mesh_axes *along, int64_t rank, int64_t k)
{
    for (int i = along->n - 1; i >= 0; k /= along->at[i]->size, i--) {
        const flxi_mesh_axis *a = along->at[i];
        rank += (k % a->size - rank / a->stride % a->size) * a->stride;
    }
    return rank;
}

flx_code flxi_collective_check(const flxi_collective *c, int64_t n, flx_error *err)
{
    int64_t last = c->process;
    if (c->size && c->size != n)
        return flxi_fail_hint(err, FLX_E_CHECK, "write size= as in the mesh that the graph runs on",
                              "made for %lld processes along '%s', but the mesh has %lld", (long long)c->size,
                              c->axis_name, (long long)n);
    for (size_t i = 0; i < c->num_pairs; i++) {
        last = c->sources[i] > last ? c->sources[i] : last;
        last = c->targets[i] > last ? c->targets[i] : last;
    }
    if (last >= n)
        return flxi_fail_hint(err, FLX_E_CHECK, "processes are counted from 0",
                              "axis '%s' of the mesh has no process %lld", c->axis_name, (long long)last);
    return FLX_OK;
}
