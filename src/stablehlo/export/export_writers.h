/* SPDX-License-Identifier: Apache-2.0 */
/* export_writers.h: how the lines of rows look (export.h). Writers of single operations are in export_lines.c, of
   those with regions in export_regions.c. */
#ifndef FLXI_STABLEHLO_EXPORT_WRITERS_H
#define FLXI_STABLEHLO_EXPORT_WRITERS_H

#include "stablehlo/export/export.h"

#define EXPORT_WRITERS(X)   \
    X(pointwise)            \
    X(chlo)                 \
    X(compare)              \
    X(select)               \
    X(convert)              \
    X(alias)                \
    X(const)                \
    X(full)                 \
    X(iota)                 \
    X(reshape)              \
    X(expand)               \
    X(broadcast_in_dim)     \
    X(transpose)            \
    X(slice)                \
    X(narrow)               \
    X(pad)                  \
    X(reverse)              \
    X(concat)               \
    X(reduce_precision)     \
    X(barrier)              \
    X(dynamic_slice)        \
    X(dynamic_update_slice) \
    X(gather_nd)            \
    X(dot_general)          \
    X(conv)                 \
    X(fft)                  \
    X(cholesky)             \
    X(solve_triangular)     \
    X(rng_bit_generator)    \
    X(check)                \
    X(scatter_nd)           \
    X(reduction)            \
    X(reduce)               \
    X(reduce_window)        \
    X(select_and_scatter)   \
    X(sort)                 \
    X(if)                   \
    X(case)                 \
    X(while)

#define EXPORT_DECLARE_WRITER(name) void flxi_export_write_##name(export_node *n);
EXPORT_WRITERS(EXPORT_DECLARE_WRITER)
#undef EXPORT_DECLARE_WRITER

#endif
