/* SPDX-License-Identifier: Apache-2.0 */
/* api_fixture.h: one object of each kind, for tests that call every public function. */
#ifndef FLX_TEST_API_FIXTURE_H
#define FLX_TEST_API_FIXTURE_H

#include <fluxion/fluxion.h>
#include <fluxion/kernel.h>

typedef struct {
    flx_context *ctx;
    flx_module *module;
    flx_graph *g; /* (x, param p) -> a scalar */
    flx_kernel *kernel;
    flx_kernel_derived *derived;
    flx_exec *exec;
    flx_trainer *trainer;
    flx_tensor *x;
    flx_feed feeds[2];
    char recording[300]; /* of a run, a file */
    unsigned count;      /* of calls, for names that may be used once */
} fixture;

/* On the CPU, without a C compiler. */
extern const flx_compile_options interpreted;

fixture fixture_new(void);
void fixture_free(fixture *f);

#endif
