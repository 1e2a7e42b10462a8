/* SPDX-License-Identifier: Apache-2.0 */
/* export_writers.h: how the lines of rows look (export.h). Writers of single operations are in export_lines.c, of
   those with regions in export_regions.c. */
#ifndef FLXI_STABLEHLO_EXPORT_WRITERS_H
#define FLXI_STABLEHLO_EXPORT_WRITERS_H

#include "stablehlo/export/export.h"

/* Every writer that a row names. */
#define EXPORT_LINE(op, name, writer) void flxi_export_write_##writer(export_node *n);
#define EXPORT_LINE_IF(op, name, writer, when) void flxi_export_write_##writer(export_node *n);
#define EXPORT_LINE_ELSE(op, name, writer, when, rule) void flxi_export_write_##writer(export_node *n);
#define EXPORT_RULE(op)
#define EXPORT_WRAPPED(op, name, writer) void flxi_export_write_##writer(export_node *n);
#include "stablehlo/export/export_table.def"

#endif
