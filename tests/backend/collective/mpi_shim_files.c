/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_shim_files.c: where the library between Fluxion and MPI is compiled, and that nothing of it is left. */
#include "backend/cache_fixture.h"
#include "backend/collective/mpi_shim.h"

#include <fluxion/graph.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An mpicc that only records where its files are; no MPI is loaded, so that other tests find none. */
TEST(mpi_shim_is_compiled_in_the_temporary_folder)
{
    cache_fixture f;
    char mpicc[800], log[800], script[1700], folder[800];
    cache_fixture_begin(&f, NULL);
    setenv("FLX_CACHE", "off", 1);
    snprintf(mpicc, sizeof mpicc, "%s/mpicc", test_temp_dir());
    snprintf(log, sizeof log, "%s/mpicc.log", test_temp_dir());
    snprintf(folder, sizeof folder, "%s/fluxion-", f.temp);
    snprintf(script, sizeof script, "#!/bin/sh\nfor last; do :; done\necho $last >%s\necho no >&2\nexit 1\n", log);
    write_script(mpicc, script);
    char *kept = set_variable("FLX_MPICC", mpicc);

    flx_error err = {0};
    const flxi_mpi_calls *calls;
    flx_context *ctx = flx_context_new(NULL);
    CHECK_CODE(flxi_mpi_load(ctx, &calls, &err), FLX_E_DEVICE, &err);
    CHECK_MSG(strstr(err.message, "cannot compile the shim of MPI: no"), "%s", err.message);
    size_t n;
    unsigned char *source = read_bytes(log, &n);
    CHECK_MSG(n > strlen(folder) && memcmp(source, folder, strlen(folder)) == 0, "%.*s", (int)n, (char *)source);
    free(source);

    flx_context_free(ctx);
    put_variable("FLX_MPICC", kept);
    remove(mpicc);
    remove(log);
    cache_fixture_end(&f);
}
