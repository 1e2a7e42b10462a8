/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_linalg.c: matrices, transforms, normalisation, random bits, and the library functions that programs
   call. */
#include "stablehlo/stablehlo_rows.h"

#define LAPACK(name, config) "stablehlo.custom_call @lapack_" name "_ffi(%a) {mhlo.backend_config = {" config "}} : "

static const hlo_row matrices[] = {
    {"cholesky reads the lower triangle",
     {{"2x2xf32", "[[4.0, 7.0], [2.0, 10.0]]"}},
     "  %r = stablehlo.cholesky %a, lower = true : tensor<2x2xf32>",
     "2x2xf32",
     "[[2.0, 0.0], [1.0, 3.0]]",
     NULL},
    {"cholesky reads the upper triangle",
     {{"2x2xf64", "[[4.0, 2.0], [9.0, 10.0]]"}},
     "  %r = stablehlo.cholesky %a, lower = false : tensor<2x2xf64>",
     "2x2xf64",
     "[[2.0, 1.0], [0.0, 3.0]]",
     NULL},
    {"cholesky of half floats",
     {{"2x2xf16", "[[4.0, 0.0], [2.0, 10.0]]"}},
     "  %r = stablehlo.cholesky %a, lower = true : tensor<2x2xf16>",
     "2x2xf16",
     "[[2.0, 0.0], [1.0, 3.0]]",
     NULL},
    {"cholesky of a Hermitian matrix",
     {{"2x2xcomplex<f32>", "[[(4.0, 5.0), (0.0, 0.0)], [(0.0, 2.0), (10.0, 0.0)]]"}},
     "  %r = stablehlo.cholesky %a, lower = true : tensor<2x2xcomplex<f32>>",
     "2x2xcomplex<f32>",
     "[[(2.0, 0.0), (0.0, 0.0)], [(0.0, 1.0), (3.0, 0.0)]]",
     "almost_eq"},
    {"triangular_solve",
     {{"2x2xf32", "[[2.0, 9.0], [1.0, 4.0]]"}, {"2x1xf32", "[[4.0], [10.0]]"}},
     "  %r = \"stablehlo.triangular_solve\"(%a, %b) <{left_side = true, lower = true, unit_diagonal = false, "
     "transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>",
     "2x1xf32",
     "[[2.0], [2.0]]",
     NULL},
    {"triangular_solve from the right, transposed, with a unit diagonal",
     {{"2x2xf32", "[[7.0, 0.0], [3.0, 8.0]]"}, {"1x2xf32", "[[1.0, 5.0]]"}},
     "  %r = \"stablehlo.triangular_solve\"(%a, %b) <{left_side = false, lower = true, unit_diagonal = true, "
     "transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<2x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>",
     "1x2xf32",
     "[[1.0, 2.0]]",
     NULL},
    {"triangular_solve with the adjoint",
     {{"1x1xcomplex<f64>", "(0.0, 2.0)"}, {"1x1xcomplex<f64>", "(4.0, 0.0)"}},
     "  %r = \"stablehlo.triangular_solve\"(%a, %b) <{left_side = true, lower = false, unit_diagonal = false, "
     "transpose_a = #stablehlo<transpose ADJOINT>}> : (tensor<1x1xcomplex<f64>>, tensor<1x1xcomplex<f64>>) -> "
     "tensor<1x1xcomplex<f64>>",
     "1x1xcomplex<f64>",
     "(0.0, 2.0)",
     "almost_eq"},
};

TEST(stablehlo_matrices)
{
    CHECK_ROWS(matrices);
}

static const hlo_row transforms[] = {
    {"fft",
     {{"2xcomplex<f32>", "[(1.0, 0.0), (2.0, 1.0)]"}},
     "  %r = stablehlo.fft %a, type = FFT, length = [2] : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>",
     "2xcomplex<f32>",
     "[(3.0, 1.0), (-1.0, -1.0)]",
     NULL},
    {"ifft of two axes",
     {{"1x2x2xcomplex<f64>", "[[[(4.0, 0.0), (0.0, 0.0)], [(0.0, 4.0), (0.0, 0.0)]]]"}},
     "  %r = stablehlo.fft %a, type = IFFT, length = [2, 2] : (tensor<1x2x2xcomplex<f64>>) -> "
     "tensor<1x2x2xcomplex<f64>>",
     "1x2x2xcomplex<f64>",
     "[[[(1.0, 1.0), (1.0, 1.0)], [(1.0, -1.0), (1.0, -1.0)]]]",
     "almost_eq"},
    {"rfft of two axes",
     {{"2x3xf64", "[[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]"}},
     "  %r = stablehlo.fft %a, type = RFFT, length = [2, 3] : (tensor<2x3xf64>) -> tensor<2x2xcomplex<f64>>",
     "2x2xcomplex<f64>",
     "[[(3.0, 0.0), (0.0, -1.7320508075688772)], [(3.0, 0.0), (0.0, -1.7320508075688772)]]",
     "almost_eq"},
    {"irfft of an odd length",
     {{"2xcomplex<f64>", "[(3.0, 5.0), (0.0, -1.7320508075688772)]"}},
     "  %r = stablehlo.fft %a, type = IRFFT, length = [3] : (tensor<2xcomplex<f64>>) -> tensor<3xf64>",
     "3xf64",
     "[1.0, 2.0, 0.0]",
     "almost_eq"},
};

TEST(stablehlo_transforms)
{
    CHECK_ROWS(transforms);
}

#define NORM "epsilon = 0.0 : f32, feature_index = 0 : i64"

static const hlo_row norms[] = {
    {"batch_norm_inference",
     {{"2x2xf32", "[[1.0, 3.0], [5.0, 7.0]]"},
      {"2xf32", "[2.0, 1.0]"},
      {"2xf32", "[0.0, 1.0]"},
      {"2xf32", "[1.0, 5.0]"},
      {"2xf32", "[4.0, 1.0]"}},
     "  %r = \"stablehlo.batch_norm_inference\"(%a, %b, %c, %d, %e) <{" NORM
     "}> : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, "
     "tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>",
     "2x2xf32",
     "[[0.0, 2.0], [1.0, 3.0]]",
     NULL},
    {"batch_norm_training",
     {{"2x2xf32", "[[1.0, 3.0], [5.0, 9.0]]"}, {"2xf32", "[2.0, 1.0]"}, {"2xf32", "[0.0, 1.0]"}},
     "  %r, %mean, %var = \"stablehlo.batch_norm_training\"(%a, %b, %c) <{" NORM
     "}> : (tensor<2x2xf32>, tensor<2xf32>, "
     "tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)",
     "2x2xf32",
     "[[-2.0, 2.0], [0.0, 2.0]]",
     NULL},
    {"the statistics of batch_norm_training",
     {{"2x2xf32", "[[1.0, 3.0], [5.0, 9.0]]"}, {"2xf32", "[2.0, 1.0]"}, {"2xf32", "[0.0, 1.0]"}},
     "  %y, %mean, %var = \"stablehlo.batch_norm_training\"(%a, %b, %c) <{" NORM
     "}> : (tensor<2x2xf32>, tensor<2xf32>, "
     "tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)\n"
     "  %r = stablehlo.concatenate %mean, %var, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>",
     "4xf32",
     "[2.0, 7.0, 1.0, 4.0]",
     NULL},
    /* x = (1, 3, 5), mean 3, variance 8/3, dy = (1, 0, 0), scale 2 */
    {"batch_norm_grad",
     {{"3x1xf64", "[[1.0], [3.0], [5.0]]"},
      {"1xf64", "[2.0]"},
      {"1xf64", "[3.0]"},
      {"1xf64", "[2.6666666666666665]"},
      {"3x1xf64", "[[1.0], [0.0], [0.0]]"}},
     "  %dx, %ds, %do = \"stablehlo.batch_norm_grad\"(%a, %b, %c, %d, %e) <{epsilon = 0.0 : f32, feature_index = 1 : "
     "i64}> : "
     "(tensor<3x1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<3x1xf64>) -> "
     "(tensor<3x1xf64>, tensor<1xf64>, tensor<1xf64>)\n"
     "  %flat = stablehlo.reshape %dx : (tensor<3x1xf64>) -> tensor<3xf64>\n"
     "  %r = stablehlo.concatenate %flat, %ds, %do, dim = 0 : (tensor<3xf64>, tensor<1xf64>, tensor<1xf64>) -> "
     "tensor<5xf64>",
     "5xf64",
     "[0.20412414523193148, -0.4082482904638631, 0.20412414523193156, -1.224744871391589, 1.0]",
     "almost_eq"},
};

TEST(stablehlo_norms)
{
    CHECK_ROWS(norms);
}

/* The numbers are those of XLA on the CPU. */
static const hlo_row bits[] = {
    {"threefry",
     {{"2xui64", "[3, 3]"}},
     "  %s, %r = stablehlo.rng_bit_generator %a, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, "
     "tensor<ui64>)",
     "ui64",
     "3349939604322698703",
     NULL},
    {"state after threefry",
     {{"2xui64", "[3, 3]"}},
     "  %r, %y = stablehlo.rng_bit_generator %a, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, "
     "tensor<5xui32>)",
     "2xui64",
     "[3, 6]",
     NULL},
    {"state after philox",
     {{"2xui64", "[3, 3]"}},
     "  %r, %y = stablehlo.rng_bit_generator %a, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, "
     "tensor<5xui32>)",
     "2xui64",
     "[3, 5]",
     NULL},
    {"bits as floats are those of the integers",
     {{"2xui64", "[3, 3]"}},
     "  %s, %f = stablehlo.rng_bit_generator %a, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, "
     "tensor<4xf32>)\n"
     "  %t, %u = stablehlo.rng_bit_generator %a, algorithm = PHILOX : (tensor<2xui64>) -> (tensor<2xui64>, "
     "tensor<4xui32>)\n"
     "  %v = stablehlo.bitcast_convert %f : (tensor<4xf32>) -> tensor<4xui32>\n"
     "  %r = stablehlo.compare EQ, %u, %v : (tensor<4xui32>, tensor<4xui32>) -> tensor<4xi1>",
     "4xi1",
     "true",
     NULL},
    {"uniform numbers are in their range",
     {{"f32", "2.0"}, {"f32", "3.0"}},
     "  %n = stablehlo.constant dense<[50]> : tensor<1xi64>\n"
     "  %x = stablehlo.rng %a, %b, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> "
     "tensor<50xf32>\n"
     "  %low = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<50xf32>\n"
     "  %high = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<50xf32>\n"
     "  %p = stablehlo.compare GE, %x, %low : (tensor<50xf32>, tensor<50xf32>) -> tensor<50xi1>\n"
     "  %q = stablehlo.compare LT, %x, %high : (tensor<50xf32>, tensor<50xf32>) -> tensor<50xi1>\n"
     "  %r = stablehlo.and %p, %q : tensor<50xi1>",
     "50xi1",
     "true",
     NULL},
    {"whole numbers are in their range",
     {{"i8", "-2"}, {"i8", "1"}},
     "  %n = stablehlo.constant dense<[50]> : tensor<1xi64>\n"
     "  %x = stablehlo.rng %a, %b, %n, distribution = UNIFORM : (tensor<i8>, tensor<i8>, tensor<1xi64>) -> "
     "tensor<50xi8>\n"
     "  %low = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<i8>) -> tensor<50xi8>\n"
     "  %high = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<i8>) -> tensor<50xi8>\n"
     "  %p = stablehlo.compare GE, %x, %low : (tensor<50xi8>, tensor<50xi8>) -> tensor<50xi1>\n"
     "  %q = stablehlo.compare LT, %x, %high : (tensor<50xi8>, tensor<50xi8>) -> tensor<50xi1>\n"
     "  %r = stablehlo.and %p, %q : tensor<50xi1>",
     "50xi1",
     "true",
     NULL},
    {"two draws of a program differ",
     {{"f32", "0.0"}, {"f32", "1.0"}},
     "  %n = stablehlo.constant dense<[4]> : tensor<1xi64>\n"
     "  %x = stablehlo.rng %a, %b, %n, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> "
     "tensor<4xf32>\n"
     "  %y = stablehlo.rng %a, %b, %n, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> "
     "tensor<4xf32>\n"
     "  %r = stablehlo.compare NE, %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
     "4xi1",
     "true",
     NULL},
};

TEST(stablehlo_random_bits)
{
    CHECK_ROWS(bits);
}

/* ---- Library functions ---- */

#define MATRIX_2                              \
    {                                         \
        "2x2xf64", "[[3.0, 5.0], [4.0, 5.0]]" \
    }

static const hlo_row calls[] = {
    {"potrf leaves the other triangle",
     {{"2x2xf64", "[[4.0, 7.0], [2.0, 10.0]]"}},
     "  %r, %i = " LAPACK("dpotrf", "uplo = 76 : ui8") "(tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<i32>)",
     "2x2xf64",
     "[[2.0, 7.0], [1.0, 3.0]]",
     NULL},
    {"potrf reports failure",
     {{"2x1x1xf32", "[[[4.0]], [[-4.0]]]"}},
     "  %l, %r = " LAPACK("spotrf", "uplo = 85 : ui8") "(tensor<2x1x1xf32>) -> (tensor<2x1x1xf32>, tensor<2xi32>)",
     "2xi32",
     "[0, 1]",
     NULL},
    {"getrf counts from 1",
     {MATRIX_2},
     "  %l, %r, %i = " LAPACK("dgetrf", "") "(tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xi32>, tensor<i32>)",
     "2xi32",
     "[2, 2]",
     NULL},
    {"getrf finds the zero pivot",
     {{"2x2xf64", "[[1.0, 2.0], [2.0, 4.0]]"}},
     "  %l, %p, %r = " LAPACK("dgetrf", "") "(tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xi32>, tensor<i32>)",
     "i32",
     "2",
     NULL},
    /* Column (3, 4): beta = -5, v = (1, 1/2), tau = 8/5; the second column becomes (-7, -1), and is left alone. */
    {"geqrf",
     {MATRIX_2},
     "  %r, %t = " LAPACK("dgeqrf", "") "(tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>)",
     "2x2xf64",
     "[[-5.0, -7.0], [0.5, -1.0]]",
     "almost_eq"},
    {"taus of geqrf",
     {MATRIX_2},
     "  %p, %r = " LAPACK("dgeqrf", "") "(tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>)",
     "2xf64",
     "[1.6, 0.0]",
     "almost_eq"},
    {"orgqr",
     {{"2x2xf64", "[[-5.0, -7.0], [0.5, -1.0]]"}, {"2xf64", "[1.6, 0.0]"}},
     "  %r = stablehlo.custom_call @lapack_dorgqr_ffi(%a, %b) : (tensor<2x2xf64>, tensor<2xf64>) -> tensor<2x2xf64>",
     "2x2xf64",
     "[[-0.6, -0.8], [-0.8, 0.6]]",
     "almost_eq"},
    {"geqrf and ungqr of complex matrices give them back",
     {{"1x3x2xcomplex<f64>", "[[[(1.0, 2.0), (0.0, 1.0)], [(3.0, -1.0), (2.0, 2.0)], [(0.5, 0.0), (-1.0, 4.0)]]]"}},
     "  %p, %t = " LAPACK(
         "zgeqrf", "") "(tensor<1x3x2xcomplex<f64>>) -> (tensor<1x3x2xcomplex<f64>>, tensor<1x2xcomplex<f64>>)\n"
                       "  %q = stablehlo.custom_call @lapack_zungqr_ffi(%p, %t) : (tensor<1x3x2xcomplex<f64>>, "
                       "tensor<1x2xcomplex<f64>>) -> "
                       "tensor<1x3x2xcomplex<f64>>\n"
                       "  %top = stablehlo.slice %p [0:1, 0:2, 0:2] : (tensor<1x3x2xcomplex<f64>>) -> "
                       "tensor<1x2x2xcomplex<f64>>\n"
                       "  %m = stablehlo.constant dense<[[[true, true], [false, true]]]> : tensor<1x2x2xi1>\n"
                       "  %z = stablehlo.constant dense<(0.0, 0.0)> : tensor<1x2x2xcomplex<f64>>\n"
                       "  %u = stablehlo.select %m, %top, %z : tensor<1x2x2xi1>, tensor<1x2x2xcomplex<f64>>\n"
                       "  %r = stablehlo.dot_general %q, %u, batching_dims = [0] x [0], contracting_dims = [2] x [1] : "
                       "(tensor<1x3x2xcomplex<f64>>, tensor<1x2x2xcomplex<f64>>) -> tensor<1x3x2xcomplex<f64>>",
     "1x3x2xcomplex<f64>",
     "[[[(1.0, 2.0), (0.0, 1.0)], [(3.0, -1.0), (2.0, 2.0)], [(0.5, 0.0), (-1.0, 4.0)]]]",
     "almost_eq"},
    {"ormqr",
     {{"2x2xf64", "[[-5.0, -7.0], [0.5, -1.0]]"}, {"2xf64", "[1.6, 0.0]"}, {"2x1xf64", "[[1.0], [0.0]]"}},
     "  %r = stablehlo.custom_call @lapack_dormqr_ffi(%a, %b, %c) {mhlo.backend_config = {side = 76 : ui8, trans = 84 "
     ": "
     "ui8}} : (tensor<2x2xf64>, tensor<2xf64>, tensor<2x1xf64>) -> tensor<2x1xf64>",
     "2x1xf64",
     "[[-0.6], [-0.8]]",
     "almost_eq"},
    {"ormqr from the right",
     {{"2x2xf64", "[[-5.0, -7.0], [0.5, -1.0]]"}, {"2xf64", "[1.6, 0.0]"}, {"1x2xf64", "[[0.0, 1.0]]"}},
     "  %r = stablehlo.custom_call @lapack_dormqr_ffi(%a, %b, %c) {mhlo.backend_config = {side = 82 : ui8, trans = 78 "
     ": "
     "ui8}} : (tensor<2x2xf64>, tensor<2xf64>, tensor<1x2xf64>) -> tensor<1x2xf64>",
     "1x2xf64",
     "[[-0.8, 0.6]]",
     "almost_eq"},
    {"geqp3 takes the longest column first",
     {MATRIX_2, {"2xi32", "[0, 0]"}},
     "  %p, %r, %t = stablehlo.custom_call @lapack_dgeqp3_ffi(%a, %b) : (tensor<2x2xf64>, tensor<2xi32>) -> "
     "(tensor<2x2xf64>, tensor<2xi32>, tensor<2xf64>)",
     "2xi32",
     "[2, 1]",
     NULL},
    {"geqp3 takes fixed columns before the longest",
     {{"2x3xf64", "[[1.0, 9.0, 2.0], [0.0, 9.0, 2.0]]"}, {"3xi32", "[0, 0, 1]"}},
     "  %p, %r, %t = stablehlo.custom_call @lapack_dgeqp3_ffi(%a, %b) : (tensor<2x3xf64>, tensor<3xi32>) -> "
     "(tensor<2x3xf64>, tensor<3xi32>, tensor<2xf64>)",
     "3xi32",
     "[3, 1, 2]",
     NULL},
    /* The column (3, 4) below the diagonal is reflected to (-5, 0), as in geqrf. */
    {"gehrd",
     {{"3x3xf64", "[[1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [4.0, 2.0, 1.0]]"}},
     "  %r, %t, %i = " LAPACK("dgehrd", "") "(tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<2xf64>, tensor<i32>)",
     "3x3xf64",
     "[[1.0, -3.6, 0.2], [-5.0, 2.92, 0.56], [0.5, 0.56, -0.92]]",
     "almost_eq"},
    {"sytrd",
     {{"3x3xf64", "[[4.0, 9.0, 9.0], [3.0, 1.0, 9.0], [4.0, 2.0, 1.0]]"}},
     "  %a1, %r, %e, %t, %i = " LAPACK("dsytrd",
                                       "uplo = 76 : ui8") "(tensor<3x3xf64>) -> (tensor<3x3xf64>, "
                                                          "tensor<3xf64>, tensor<2xf64>, tensor<2xf64>, tensor<i32>)",
     "3xf64",
     "[4.0, 2.92, -0.92]",
     "almost_eq"},
    {"sytrd of the upper triangle",
     {{"3x3xf64", "[[1.0, 2.0, 4.0], [9.0, 1.0, 3.0], [9.0, 9.0, 4.0]]"}},
     "  %a1, %d, %r, %t, %i = " LAPACK("dsytrd",
                                       "uplo = 85 : ui8") "(tensor<3x3xf64>) -> (tensor<3x3xf64>, "
                                                          "tensor<3xf64>, tensor<2xf64>, tensor<2xf64>, tensor<i32>)",
     "2xf64",
     "[0.56, -5.0]",
     "almost_eq"},
    {"trsm",
     {{"2x2xf32", "[[2.0, 9.0], [1.0, 4.0]]"}, {"2x1xf32", "[[4.0], [10.0]]"}},
     "  %r = stablehlo.custom_call @lapack_strsm_ffi(%a, %b) {mhlo.backend_config = {diag = 78 : ui8, side = 76 : ui8, "
     "trans_x = 78 : ui8, uplo = 76 : ui8}} : (tensor<2x2xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>",
     "2x1xf32",
     "[[2.0], [2.0]]",
     NULL},
    {"gtsv",
     {{"3xf64", "[9.0, 1.0, 1.0]"},
      {"3xf64", "[2.0, 2.0, 2.0]"},
      {"3xf64", "[1.0, 1.0, 9.0]"},
      {"3x1xf64", "[[4.0], [8.0], [8.0]]"}},
     "  %l, %m, %u, %r, %i = stablehlo.custom_call @lapack_dgtsv_ffi(%a, %b, %c, %d) : (tensor<3xf64>, tensor<3xf64>, "
     "tensor<3xf64>, "
     "tensor<3x1xf64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x1xf64>, tensor<i32>)",
     "3x1xf64",
     "[[1.0], [2.0], [3.0]]",
     "almost_eq"},
    {"gtsv of a batch",
     {{"2x2xf32", "[[0x7FC00000, 1.0], [9.0, 0.0]]"},
      {"2x2xf32", "[[0.0, 2.0], [4.0, 5.0]]"},
      {"2x2xf32", "[[1.0, 9.0], [0.0, 0x7FC00000]]"},
      {"2x2x1xf32", "[[[2.0], [5.0]], [[4.0], [10.0]]]"}},
     "  %l, %m, %u, %r, %i = stablehlo.custom_call @lapack_sgtsv_ffi(%a, %b, %c, %d) : (tensor<2x2xf32>, "
     "tensor<2x2xf32>, "
     "tensor<2x2xf32>, tensor<2x2x1xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2x1xf32>, "
     "tensor<2xi32>)",
     "2x2x1xf32",
     "[[[1.0], [2.0]], [[1.0], [2.0]]]",
     "almost_eq"},
    {"syevd",
     {{"2x2xf64", "[[2.0, 99.0], [1.0, 2.0]]"}},
     "  %v, %r, %i = " LAPACK(
         "dsyevd",
         "mode = 86 : ui8, uplo = 76 : ui8") "(tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>, tensor<i32>)",
     "2xf64",
     "[1.0, 3.0]",
     "almost_eq"},
    {"gesdd completes the basis",
     {{"2x1xf64", "[[3.0], [4.0]]"}},
     "  %x, %s, %u, %v, %i = " LAPACK(
         "dgesdd", "mode = 65 : ui8") "(tensor<2x1xf64>) -> (tensor<2x1xf64>, tensor<1xf64>, tensor<2x2xf64>, "
                                      "tensor<1x1xf64>, tensor<i32>)\n"
                                      "  %r = stablehlo.dot_general %u, %u, contracting_dims = [0] x [0] : "
                                      "(tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>",
     "2x2xf64",
     "[[1.0, 0.0], [0.0, 1.0]]",
     "almost_eq"},
    {"geev",
     {{"2x2xf64", "[[0.0, 1.0], [-1.0, 0.0]]"}},
     "  %w, %r, %l, %v, %i = " LAPACK(
         "dgeev", "compute_left = 78 : ui8, compute_right = 86 : ui8") "(tensor<2x2xf64>) -> "
                                                                       "(tensor<2xf64>, tensor<2xf64>, "
                                                                       "tensor<2x2xcomplex<f64>>, "
                                                                       "tensor<2x2xcomplex<f64>>, tensor<i32>)",
     "2xf64",
     "[-1.0, 1.0]",
     "almost_eq"},
    {"gees",
     {{"3x3xf64", "[[7.0, 0.0, 0.0], [0.0, 1.0, 2.0], [0.0, -3.0, 5.0]]"}},
     "  %t, %z, %w, %v, %n, %i = " LAPACK(
         "dgees", "mode = 86 : ui8, sort = 78 : ui8") "(tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3x3xf64>, "
                                                      "tensor<3xf64>, tensor<3xf64>, tensor<i32>, tensor<i32>)\n"
                                                      "  %r = stablehlo.concatenate %w, %v, dim = 0 : (tensor<3xf64>, "
                                                      "tensor<3xf64>) -> tensor<6xf64>",
     "6xf64",
     "[7.0, 3.0, 3.0, 0.0, 1.4142135623730951, -1.4142135623730951]",
     "almost_eq"},
    {"gees of a complex matrix",
     {{"2x2xcomplex<f32>", "[[(0.0, 1.0), (2.0, 0.0)], [(0.0, 0.0), (3.0, 0.0)]]"}},
     "  %t, %z, %r, %n, %i = " LAPACK(
         "cgees", "mode = 78 : ui8, sort = 78 : ui8") "(tensor<2x2xcomplex<f32>>) -> (tensor<2x2xcomplex<f32>>, "
                                                      "tensor<2x2xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<i32>, "
                                                      "tensor<i32>)",
     "2xcomplex<f32>",
     "[(0.0, 1.0), (3.0, 0.0)]",
     "almost_eq"},
    {"Qr",
     {MATRIX_2},
     "  %r, %t = stablehlo.custom_call @Qr(%a) : (tensor<2x2xf64>) -> (tensor<2x2xf64>, tensor<2xf64>)",
     "2x2xf64",
     "[[-5.0, -7.0], [0.5, -1.0]]",
     "almost_eq"},
    {"LuDecomposition",
     {MATRIX_2},
     "  %l, %p, %r = stablehlo.custom_call @LuDecomposition(%a) : (tensor<2x2xf64>) -> (tensor<2x2xf64>, "
     "tensor<2xi32>, tensor<2xi32>)",
     "2xi32",
     "[1, 0]",
     NULL},
    {"Eigh",
     {{"1x1xf32", "3.0"}},
     "  %v, %r = stablehlo.custom_call @Eigh(%a) {backend_config = \"1,1,100,1e-6\"} : (tensor<1x1xf32>) -> "
     "(tensor<1x1xf32>, tensor<1xf32>)",
     "1xf32",
     "[3.0]",
     NULL},
    {"notes change nothing",
     {{"2xf32", "[1.0, 2.0]"}},
     "  %r = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = \"{replicated}\"} : (tensor<2xf32>) -> tensor<2xf32>",
     "2xf32",
     "[1.0, 2.0]",
     NULL},
    {"a function as a call",
     {{"2xf32", "[0.0, 1.0]"}},
     "  %r = stablehlo.custom_call @mhlo.erf(%a) {mhlo.attributes = {}, mhlo.version = 1 : i64} : (tensor<2xf32>) -> "
     "tensor<2xf32>",
     "2xf32",
     "[0.0, 0.842700793]",
     "close"},
    {"topk as a call",
     {{"3xf32", "[1.0, 3.0, 2.0]"}},
     "  %v, %r = stablehlo.custom_call @mhlo.topk(%a) {mhlo.attributes = {k = 2 : i64, largest = true}, mhlo.version = "
     "1 : i64} : "
     "(tensor<3xf32>) -> (tensor<2xf32>, tensor<2xi32>)",
     "2xi32",
     "[1, 2]",
     NULL},
    {"threefry of each element", /* of the zero key and counter, from the published test vectors */
     {{"1xui32", "0"}, {"1xui32", "0"}, {"1xui32", "0"}, {"1xui32", "0"}},
     "  %x, %y = stablehlo.custom_call @cu_threefry2x32_ffi(%a, %b, %c, %d) : (tensor<1xui32>, tensor<1xui32>, "
     "tensor<1xui32>, "
     "tensor<1xui32>) -> (tensor<1xui32>, tensor<1xui32>)\n"
     "  %r = stablehlo.concatenate %x, %y, dim = 0 : (tensor<1xui32>, tensor<1xui32>) -> tensor<2xui32>",
     "2xui32",
     "[1797259609, 2579123966]",
     NULL},
};

TEST(stablehlo_library_calls)
{
    CHECK_ROWS(calls);
}

static const hlo_mistake mistakes[] = {
    {"%a: tensor<2xf32>", "  %r = stablehlo.cholesky %a, lower = true : tensor<2xf32>", FLX_E_SHAPE, "2:8", "cholesky"},
    {"%a: tensor<2x3xf32>", "  %r = stablehlo.cholesky %a, lower = true : tensor<2x3xf32>", FLX_E_SHAPE, "2:8",
     "cholesky"},
    {"%a: tensor<4xcomplex<f32>>",
     "  %r = stablehlo.fft %a, type = FFT, length = [3] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>",
     FLX_E_SHAPE, "2:8", "3 elements, but the operand has 4"},
    {"%a: tensor<2xui64>",
     "  %s, %r = stablehlo.rng_bit_generator %a, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, "
     "tensor<2xcomplex<f32>>)",
     FLX_E_DTYPE, "2:12", ""},
    {"%a: tensor<2x2xf32>", "  %r = stablehlo.custom_call @lapack_sgges_ffi(%a) : (tensor<2x2xf32>) -> tensor<2x2xf32>",
     FLX_E_UNSUPPORTED, "2:8", "@lapack_sgges_ffi"},
    {"%a: tensor<2x2xf32>",
     "  %r = stablehlo.custom_call @lapack_spotrf_ffi(%a) : (tensor<2x2xf32>) -> tensor<2x2xf32>", FLX_E_ARITY, "2:8",
     "returns 2 results"},
    {"%a: tensor<2xf32>, %b: tensor<2x1xf32>",
     "  %l, %m, %u, %x, %i = stablehlo.custom_call @lapack_sgtsv_ffi(%a, %a, %a, %b) : (tensor<2xf32>, tensor<2xf32>, "
     "tensor<2xf32>, "
     "tensor<2x1xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x1xf32>, tensor<i32>)\n"
     "  %n = stablehlo.negate %m : tensor<2xf32>",
     FLX_E_UNSUPPORTED, "2:24", "factors"},
};

TEST(stablehlo_linalg_refuses)
{
    CHECK_MISTAKES(mistakes);
}
