/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_case.h: one case of the ONNX project's tests: a folder with model.onnx and, in test_data_set_0, the values of
   inputs and outputs. The file `tolerance` beside the model has the relative and absolute bounds. */
#ifndef TESTS_ONNX_CASE_H
#define TESTS_ONNX_CASE_H

#include <stddef.h>

typedef enum {
    ONNX_CASE_PASS,        /* the outputs are those of the files */
    ONNX_CASE_FIXED,       /* the same, with the values of inputs given when the model was read: shapes need them */
    ONNX_CASE_UNSUPPORTED, /* refused with UNSUPPORTED */
    ONNX_CASE_REFUSED,     /* refused with another error, or the case cannot be read */
    ONNX_CASE_WRONG        /* it ran, and an output differs */
} onnx_case_result;

/* What happens to a case on a device, with a reason where it does not pass. */
onnx_case_result run_onnx_case(const char *folder, const char *device, char *reason, size_t size);

const char *onnx_case_name(onnx_case_result r);

#endif
