/* oracle.c: runs the fixtures of tests/oracle. Each graph of a fixture returns pairs of a computed value and the answer of an
   independent implementation; its name ends in __ulp<N> or __rel<N>, how close they must be (agree.h). */
#include "agree.h"
#include "test.h"

#include <dirent.h>
#include <fluxion/fluxion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void run_case(const flx_graph *g)
{
    flx_error err = {0};
    size_t n = flx_graph_output_count(g);
    if (n == 0 || n % 2)
        return; /* a body that other cases use */
    flx_tensor **out = calloc(n, sizeof *out);
    flx_code code = flx_run(g, NULL, NULL, 0, out, &err);
    if (EXPECT_MSG(code == FLX_OK, "%s: %s", flx_graph_name(g), err.message))
        for (size_t i = 0; i + 1 < n; i += 2)
            expect_agreement(flx_graph_name(g), flx_graph_output_name(g, i), out[i], out[i + 1]);
    for (size_t i = 0; i < n; i++)
        flx_tensor_release(out[i]);
    free(out);
    test_count_case();
}

static void run_fixture(const char *path)
{
    flx_error err = {0};
    size_t size;
    char *text = read_whole_file(path, &size);
    flx_context *ctx = flx_context_new(NULL);
    flx_module *m = flx_parse(ctx, text, size, path, &err);
    if (EXPECT_MSG(m != NULL, "%s: %s (%s)", err.where, err.message, err.hint))
        for (size_t i = 0; i < flx_module_count(m); i++)
            if (flx_graph_input_count(flx_module_graph(m, i)) == 0)
                run_case(flx_module_graph(m, i));
    flx_module_free(m);
    flx_context_free(ctx);
    free(text);
}

/* FLX_ORACLE=softmax runs only the fixtures whose file name contains that. */
TEST(oracle_fixtures_agree)
{
    char path[4096];
    const char *filter = getenv("FLX_ORACLE");
    snprintf(path, sizeof path, "%s/tests/oracle/fixtures", test_source_dir());
    DIR *dir = opendir(path);
    CHECK_MSG(dir != NULL, "%s cannot be opened", path);
    int files = 0;
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        size_t n = strlen(d->d_name);
        if (n < 5 || strcmp(d->d_name + n - 4, ".flx") != 0 || (filter && !strstr(d->d_name, filter)))
            continue;
        snprintf(path, sizeof path, "%s/tests/oracle/fixtures/%s", test_source_dir(), d->d_name);
        test_fail_context("fixture %s; regenerate with tests/oracle/make_all.py", d->d_name);
        run_fixture(path);
        files++;
    }
    closedir(dir);
    CHECK(files > 0);
}
