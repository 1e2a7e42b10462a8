/* SPDX-License-Identifier: Apache-2.0 */
/* binary.h: the binary form of graphs (.flxb), written by encode.c and read by decode.c.

   Layout, all numbers little-endian:
     "FLXB"  u32 version  u64 payload size  u64 FNV-1a of the payload  payload
   Payload: u32 number of graphs, then each graph, bodies before users, the main one last:
     text name, u32 leaves, then per leaf: u8 flags (1 parameter, 2 pinned, 4 initialised), text name,
       type, if initialised text kind and f64 scale
     u32 nodes (leaves not counted), then per node:
       text op, u32 operands, u32 each: its flxi_value_number, u8 number of attributes, then per
       attribute: text key, value by the schema's kind
       u32 results, per result: u8 flags (1 named, 2 pinned), text name if named
     u32 outputs, per output: u32 value number, text name
   Text is u32 length and bytes. A dimension is u8 0 and i64, or u8 1 and its text form. Only attributes that differ
   from their default are written, so a later version that adds one can still read old files. Version 1 has no
   initialisations; it is read as well. */
#ifndef FLXI_BINARY_H
#define FLXI_BINARY_H

#define FLXI_BINARY_MAGIC "FLXB" /* 4 bytes, without the terminating 0 */

enum { FLXI_BINARY_MAGIC_SIZE = 4, FLXI_BINARY_VERSION = 2, FLXI_BINARY_HEADER_SIZE = 24 };

#endif
