/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_cases.c: flx_onnx_cases DEVICE FOLDER...: runs cases of the ONNX project's tests and prints a line for each:
   device, name, result, reason, with tabs between them. script/conformance calls it. */
#include "onnx/onnx_case.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        char reason[400];
        const char *slash = strrchr(argv[i], '/');
        onnx_case_result r = run_onnx_case(argv[i], argv[1], reason, sizeof reason);
        printf("%s\t%s\t%s\t%s\n", argv[1], slash ? slash + 1 : argv[i], onnx_case_name(r),
               r <= ONNX_CASE_FIXED ? "" : reason);
        fflush(stdout);
    }
    return 0;
}
