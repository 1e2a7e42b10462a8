/* SPDX-License-Identifier: Apache-2.0 */
/* standalone_graphs.c: random graphs, with control flow in every third, their gradients, and gradients of samples, as C
   files against the reference. What cannot be a C file is left out; most can, which is checked. */
#include "effort.h"
#include "ops/experiment.h"
#include "random/plain_subject.h"
#include "standalone/c_file.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    flx_context *ctx;
    bundle *b;
    size_t built, refused;
    uint64_t turn, share;
} now;

static void begin_file(void)
{
    now.ctx = bundle_context();
    now.b = bundle_new(now.ctx);
}

static void end_file(void)
{
    c_file_check_bundle(now.b, "gcc", "-O1", 0);
    bundle_free(now.b);
    flx_context_free(now.ctx);
}

static void add(const flx_graph *g, bundle_find find, const void *user, const char *about)
{
    flx_error err = {0};
    flx_buffer text = {0};
    const flx_build_options o = {.struct_size = sizeof o, .flags = FLX_BUILD_TABLES};
    flx_code code = flx_build_c(g, &o, &text, NULL, NULL, &err);
    flx_buffer_free(&text);
    CHECK_MSG(code == FLX_OK || code == FLX_E_UNSUPPORTED, "%s: %s", about, err.message);
    now.built += code == FLX_OK;
    now.refused += code != FLX_OK;
    if (code != FLX_OK && effort(EFFORT_report))
        printf("refused: %s: %s\n", about, err.message);
    if (code == FLX_OK)
        bundle_add_copy(now.b, g, find, user, about);
}

/* ---- Random graphs ---- */

static void add_random(void *user, const flx_graph *g, const subject *s, const char *about)
{
    (void)user;
    add(g, subject_value, s, about);
}

TEST(standalone_random_graphs_agree_with_reference)
{
    uint64_t n = (uint64_t)effort(EFFORT_standalone_graphs), first = test_seed() * 1000003;
    now.built = now.refused = 0;
    begin_file();
    for (uint64_t i = 0; i < n; i++) {
        subject_with_gradient(first + i, add_random, NULL);
        if (bundle_size(now.b) >= 200) {
            end_file();
            begin_file();
        }
    }
    end_file();
    CHECK_MSG(now.refused <= now.built / 5 + 1, "%zu of %zu random graphs are refused", now.refused,
              now.built + now.refused);
}

/* ---- Gradients of samples ---- */

static const flx_tensor *value_by_name(const void *user, const char *name)
{
    return bag_get(user, name);
}

static void add_gradient(const sample_case *sample)
{
    sample_case c = *sample;
    experiment x;
    flx_error err = {0};
    if (!experiment_is_wide(&c) || (now.turn++ + test_seed()) % now.share != 0)
        return;
    if (experiment_begin(&x, &c)) {
        flx_graph *grad = experiment_gradient(&x, x.loss, &err);
        flx_graph *bound = grad ? flx_specialise(grad, x.dims, x.num_dims, &err) : NULL;
        char about[200];
        snprintf(about, sizeof about, "gradient: %s", sample_describe(&c));
        if (bound)
            add(bound, value_by_name, &x.in, about);
        flx_graph_release(bound);
        flx_graph_release(grad);
    }
    experiment_end(&x);
    if (bundle_size(now.b) >= 300) {
        end_file();
        begin_file();
    }
}

TEST(standalone_gradients_of_samples_agree_with_reference)
{
    now.built = now.refused = 0;
    now.share = 2 * (uint64_t)effort(EFFORT_standalone_share);
    begin_file();
    sample_each(add_gradient);
    end_file();
    CHECK_MSG(now.refused <= now.built / 5 + 1, "%zu of %zu gradients are refused", now.refused,
              now.built + now.refused);
}
