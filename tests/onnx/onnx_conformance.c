/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_conformance.c: a small part of the ONNX project's node tests (tests/onnx/cases), by the reference evaluator;
   some of them compiled, others with each seed. script/conformance onnx runs all of them. */
#include "effort.h"
#include "onnx/onnx_case.h"
#include "test.h"

#include <dirent.h>
#include <string.h>

static const char cases[] = FLX_SOURCE_DIR "/tests/onnx/cases";

static void run_case(const char *name, const char *device)
{
    char folder[600], reason[400], text[1200];
    snprintf(folder, sizeof folder, "%s/%s", cases, name);
    onnx_case_result r = run_onnx_case(folder, device, reason, sizeof reason);
    snprintf(text, sizeof text, "%s on %s: %s", name, device, r <= ONNX_CASE_FIXED ? "pass" : reason);
    char wanted[700];
    snprintf(wanted, sizeof wanted, "%s on %s: pass", name, device);
    CHECK_EQ_STR(text, wanted);
}

/* Every case with share 1, else one in `share`. */
static size_t run_cases(const char *device, uint64_t share)
{
    DIR *d = opendir(cases);
    size_t n = 0;
    CHECK(d != NULL);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        uint64_t h = 0;
        for (const char *c = e->d_name; *c; c++)
            h = h * 31 + (unsigned char)*c;
        if (strncmp(e->d_name, "test_", 5) != 0 || (h + test_seed()) % share != 0)
            continue;
        run_case(e->d_name, device);
        n++;
    }
    if (d)
        closedir(d);
    return n;
}

TEST(onnx_cases_give_the_expected_outputs)
{
    CHECK(run_cases("ref", 1) > 60);
}

TEST(onnx_cases_compiled_give_the_expected_outputs)
{
    run_cases("cpu", (uint64_t)effort(EFFORT_compiled_share) * 4);
}
