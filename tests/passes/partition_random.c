/* SPDX-License-Identifier: Apache-2.0 */
/* partition_random.c: a graph that is cut for a mesh computes what it computes in one process, for random graphs and
   random cuts of their inputs and outputs, on meshes of processes that are threads. Graphs are widened, so that only
   the order of sums in double precision differs. */
#include "partition_random.h"

#include "../backend/collective/local_ranks.h"
#include "../random/random_graph.h"
#include "../test.h"

#include <fluxion/transform.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

/* Extents along the axes `data` and `model`. */
static const int64_t meshes[][2] = {{2, 2}, {2, 2}, {3, 2}, {4, 1}};

enum { MAX_OUTPUTS = 16, MESHES = sizeof meshes / sizeof *meshes };

typedef struct {
    const int64_t *mesh;
    char axes[40];
    flx_buffer bytes; /* of the graph */
    flx_sharding list[RANDOM_MAX_INPUTS];
    char specs[RANDOM_MAX_INPUTS][100];
    size_t num_cut;
    const subject *s;
    flx_tensor *in[RANDOM_MAX_INPUTS];
    flx_tensor *want[MAX_OUTPUTS];
    size_t num_outputs;
    flx_partition_report report;
    flx_mesh_plan plan;
    int64_t most_sent, exchanges; /* of the rank that sent most */
    pthread_mutex_t lock;         /* guards those two */
} cut_case;

/* ---- Cuts ---- */

static bool is_word(const char *spec, int k, const char *word)
{
    for (; k > 0 && spec; k--)
        spec = strchr(spec, ',') ? strchr(spec, ',') + 1 : NULL;
    return spec && strncmp(spec, word, strlen(word)) == 0;
}

/* Each axis that can be cut is cut with probability a half, along an axis of the mesh that is not used yet, or both. */
static void choose_spec(char *spec, size_t size, const int64_t *mesh, const flx_type *t, uint64_t *state)
{
    static const char *const names[] = {"data", "model"};
    bool is_used[2] = {false, false};
    spec[0] = 0;
    for (int k = 0; k < t->rank; k++) {
        size_t m = test_random(state) % 4;
        bool is_cut = m < 2 && !is_used[m] && t->dims[k] % mesh[m] == 0;
        bool is_both = m == 0 && is_cut && !is_used[1] && t->dims[k] % (mesh[0] * mesh[1]) == 0;
        snprintf(spec + strlen(spec), size - strlen(spec), "%s%s", k ? "," : "",
                 is_both  ? "data+model"
                 : is_cut ? names[m]
                          : "-");
        if (is_cut)
            is_used[m] = true;
        is_used[1] |= is_both;
    }
}

/* The part of a whole tensor that belongs to a rank. */
static flx_tensor *part_of(const local_rank *r, const flx_tensor *whole, const char *spec, flx_error *err)
{
    const int64_t *mesh = ((const cut_case *)r->user)->mesh;
    flx_type t = *flx_tensor_type(whole);
    int64_t start[FLX_MAX_RANK] = {0}, at[FLX_MAX_RANK] = {0};
    const flx_type full = t;
    for (int k = 0; k < t.rank; k++) {
        bool by_both = is_word(spec, k, "data+"), by_data = is_word(spec, k, "data"),
             by_model = is_word(spec, k, "model");
        t.dims[k] /= by_both ? mesh[0] * mesh[1] : by_data ? mesh[0] : by_model ? mesh[1] : 1;
        start[k] = t.dims[k] * (by_both ? r->rank : by_data ? r->rank / mesh[1] : by_model ? r->rank % mesh[1] : 0);
    }
    flx_tensor *part = flx_tensor_new(r->ctx, &t, NULL, err);
    size_t bytes = flx_dtype_size(t.dtype);
    for (int64_t i = 0; part && i < flx_tensor_count(part); i++) {
        int64_t from = 0, rest = i;
        for (int k = t.rank - 1; k >= 0; rest /= t.dims[k], k--)
            at[k] = rest % t.dims[k];
        for (int k = 0; k < t.rank; k++)
            from = from * full.dims[k] + start[k] + at[k];
        memcpy((char *)flx_tensor_data(part) + (size_t)i * bytes,
               (const char *)flx_tensor_const_data(whole) + (size_t)from * bytes, bytes);
    }
    return part;
}

static const char *spec_of(const cut_case *c, const char *name)
{
    for (size_t i = 0; i < c->num_cut; i++)
        if (strcmp(c->list[i].name, name) == 0)
            return c->list[i].spec;
    return NULL;
}

/* ---- One process ---- */

static void compare(const cut_case *c, size_t k, const flx_tensor *got, const flx_tensor *want)
{
    double scale = 1;
    bool is_equal = flx_tensor_count(got) == flx_tensor_count(want);
    for (int64_t i = 0; is_equal && i < flx_tensor_count(want); i++)
        scale = fmax(scale, fabs(flx_tensor_get(want, i)));
    for (int64_t i = 0; is_equal && i < flx_tensor_count(want); i++) {
        double a = flx_tensor_get(got, i), b = flx_tensor_get(want, i);
        is_equal = fabs(a - b) <= 1e-9 * scale || (isnan(a) && isnan(b)) || a == b;
    }
    EXPECT_MSG(is_equal, "output %zu differs; graph of seed %llu", k, (unsigned long long)c->s->seed);
}

static void note_sent(local_rank *r)
{
    cut_case *c = r->user;
    flx_mesh_traffic sent = {.struct_size = sizeof sent};
    CHECK_OK(flx_mesh_sent(r->ctx, &sent, &r->err), &r->err);
    pthread_mutex_lock(&c->lock);
    c->most_sent = sent.bytes > c->most_sent ? sent.bytes : c->most_sent;
    c->exchanges = sent.exchanges;
    pthread_mutex_unlock(&c->lock);
}

/* What was sent is what the plan says, unless the compiler has found an exchange that nothing needs, or values decide
   which body runs and how often; pieces of unequal size may be largest on different ranks. */
static void check_plan(const cut_case *c)
{
    if (c->plan.open_loops || c->plan.choices)
        return;
    int64_t ranks = c->mesh[0] * c->mesh[1], slack = c->exchanges * ranks * 16;
    CHECK(c->plan.exchanges <= c->exchanges);
    CHECK_MSG(c->plan.exchanges < c->exchanges ||
                  (c->plan.bytes >= c->most_sent && c->plan.bytes <= c->most_sent + slack),
              "%lld bytes were planned, %lld sent; graph of seed %llu", (long long)c->plan.bytes,
              (long long)c->most_sent, (unsigned long long)c->s->seed);
}

static void run_part(local_rank *r)
{
    cut_case *c = r->user;
    flx_module *m = flx_decode(r->ctx, c->bytes.data, c->bytes.size, "test", &r->err);
    CHECK_MADE(m, &r->err);
    flx_partition_report report = {.struct_size = sizeof report};
    flx_graph *g = m ? flx_partition(flx_module_main(m), c->axes, c->list, c->num_cut, &report, &r->err) : NULL;
    CHECK_MADE(g, &r->err);
    flx_feed feeds[RANDOM_MAX_INPUTS];
    flx_tensor *out[MAX_OUTPUTS] = {0};
    size_t n = 0;
    for (size_t i = 0; g && i < c->s->n; i++) {
        const char *name = c->s->in[i].name, *spec = spec_of(c, name);
        feeds[n++] = (flx_feed){name, part_of(r, c->in[i], spec, &r->err)};
    }
    if (g)
        CHECK_OK(flx_run(g, ON_REF, feeds, n, out, &r->err), &r->err);
    for (size_t k = 0; out[0] && k < c->num_outputs; k++) {
        const char *spec = spec_of(c, flx_graph_output_name(g, k));
        flx_tensor *want = part_of(r, c->want[k], spec, &r->err);
        compare(c, k, out[k], want);
        flx_tensor_release(want);
        flx_tensor_release(out[k]);
    }
    for (size_t i = 0; i < n; i++)
        flx_tensor_release((flx_tensor *)(uintptr_t)feeds[i].value);
    note_sent(r);
    if (r->rank == 0) {
        c->report = report;
        c->plan.struct_size = sizeof c->plan;
        CHECK_OK(flx_plan_mesh(g, c->axes, NULL, &c->plan, &r->err), &r->err);
    }
    flx_graph_release(g);
    flx_module_free(m);
}

/* ---- A random graph ---- */

static void add_cut(cut_case *c, const char *name, const flx_type *t, uint64_t *state)
{
    if (c->num_cut == RANDOM_MAX_INPUTS || spec_of(c, name))
        return;
    choose_spec(c->specs[c->num_cut], sizeof c->specs[0], c->mesh, t, state);
    c->list[c->num_cut] = (flx_sharding){name, c->specs[c->num_cut]};
    c->num_cut++;
}

bool partition_random_try(uint64_t seed, flx_partition_report *sum)
{
    subject s;
    flx_module *m;
    flx_error err = {0};
    cut_case c = {.s = &s, .mesh = meshes[seed % MESHES]};
    if (!(seed / MESHES % 3 ? random_subject : random_control_subject)(&s, seed, &m))
        return false;
    snprintf(c.axes, sizeof c.axes, "data=%lld,model=%lld", (long long)c.mesh[0], (long long)c.mesh[1]);
    uint64_t state = seed;
    flx_graph *bound = flx_specialise(s.g, s.dims, s.num_dims, &err), *g = bound ? flx_widen(bound, &err) : NULL;
    CHECK_MADE(g, &err);
    c.num_outputs = flx_graph_output_count(g);
    CHECK(c.num_outputs <= MAX_OUTPUTS);
    flx_feed feeds[RANDOM_MAX_INPUTS];
    for (size_t i = 0; i < s.n; i++) {
        c.in[i] = flx_tensor_cast(s.in[i].x, (flx_dtype)flx_val_type(g, flx_graph_find(g, s.in[i].name))->dtype, &err);
        CHECK_MADE(c.in[i], &err);
        feeds[i] = (flx_feed){s.in[i].name, c.in[i]};
        add_cut(&c, s.in[i].name, flx_tensor_type(s.in[i].x), &state);
    }
    CHECK_OK(flx_run(g, ON_REF, feeds, s.n, c.want, &err), &err);
    for (size_t k = 0; k < c.num_outputs; k++)
        add_cut(&c, flx_graph_output_name(g, k), flx_tensor_type(c.want[k]), &state);
    CHECK_OK(flx_graph_encode(g, &c.bytes, &err), &err);
    test_fail_context("seed %llu", (unsigned long long)seed);
    pthread_mutex_init(&c.lock, NULL);
    local_ranks_run(c.mesh[0] * c.mesh[1], c.axes, 60, run_part, &c);
    check_plan(&c);
    pthread_mutex_destroy(&c.lock);
    sum->cut += c.report.cut;
    sum->gathered += c.report.gathered;
    for (size_t k = 0; k < c.num_outputs; k++)
        flx_tensor_release(c.want[k]);
    for (size_t i = 0; i < s.n; i++)
        flx_tensor_release(c.in[i]);
    flx_graph_release(bound);
    flx_buffer_free(&c.bytes);
    flx_graph_release(g);
    random_subject_free(&s, m);
    return true;
}

TEST(partition_random_graphs_compute_the_same)
{
    flx_partition_report sum = {0};
    uint64_t state = test_seed(), one;
    int tries = 30;
    for (int done = 0; done < tries && !test_failed(); test_count_case()) {
        uint64_t seed = test_case_seed(&one) ? one : test_random(&state);
        done += partition_random_try(seed, &sum);
        if (test_case_seed(&one))
            return;
    }
    CHECK_MSG(sum.cut > 20, "only %lld nodes computed on parts", (long long)sum.cut);
}
