/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_export_types.c: operations of ONNX have fewer types than our ops. A node of another dtype is written in one that
   holds all numbers of it, and its results are cast back: floats are then rounded once, as here, and integers wrap
   around at the same places. */
#include "onnx/export/onnx_writer.h"

#include "graph/type/type.h"
#include "onnx/syntax/onnx_elements.h"

enum { MAX_OPERANDS = 16 };

/* Dtypes that hold all numbers of `from`, the preferred one first; FLX_DTYPE_NONE ends them. */
static const flx_dtype *carriers_of(int32_t from)
{
    static const flx_dtype none[] = {FLX_DTYPE_NONE}, single[] = {FLX_F32, FLX_DTYPE_NONE},
                           small[] = {FLX_I32, FLX_I64, FLX_DTYPE_NONE}, wide[] = {FLX_I64, FLX_DTYPE_NONE};
    switch (from) {
    case FLX_F16:
    case FLX_BF16: return single;
    case FLX_I8:
    case FLX_I16:
    case FLX_U8:
    case FLX_U16:
    case FLX_BOOL: return small;
    case FLX_I32:
    case FLX_U32: return wide;
    default: return none;
    }
}

static flx_dtype carrier_of(int32_t from, uint32_t types)
{
    const flx_dtype *c = carriers_of(from);
    while (*c != FLX_DTYPE_NONE && !(types >> *c & 1))
        c++;
    return *c;
}

onnx_label flxi_onnx_put_cast(onnx_writer *w, onnx_label x, flx_dtype to)
{
    onnx_label y = flxi_onnx_fresh(w);
    flxi_onnx_put(w, "Cast", &x, 1, &y, 1, &ONNX_INT("to", flxi_onnx_element_of((int32_t)to)), 1);
    return y;
}

static void write_carried(const onnx_export_row *row, onnx_source *n, int32_t from, flx_dtype to)
{
    onnx_label in[MAX_OPERANDS], out[MAX_OPERANDS];
    flx_type in_types[MAX_OPERANDS], out_types[MAX_OPERANDS];
    for (uint32_t i = 0; i < n->nin; i++) {
        in[i] = flxi_onnx_in(n, i);
        in_types[i] = *flxi_onnx_in_type(n, i);
        if (in_types[i].dtype != from)
            continue;
        in[i] = flxi_onnx_put_cast(n->w, in[i], to);
        in_types[i].dtype = (int32_t)to;
    }
    for (uint32_t i = 0; i < n->nout; i++) {
        out_types[i] = *flxi_onnx_out_type(n, i);
        bool is_carried = out_types[i].dtype == from;
        out[i] = is_carried ? flxi_onnx_fresh(n->w) : flxi_onnx_out(n, i);
        out_types[i].dtype = is_carried ? (int32_t)to : out_types[i].dtype;
    }
    const onnx_carried carried = {in, out, in_types, out_types};
    onnx_source inside = *n;
    inside.carried = &carried;
    row->write(&inside);
    for (uint32_t i = 0; i < n->nout; i++) {
        onnx_label y = flxi_onnx_out(n, i);
        if (flxi_onnx_out_type(n, i)->dtype == from)
            flxi_onnx_put(n->w, "Cast", &out[i], 1, &y, 1, &ONNX_INT("to", flxi_onnx_element_of(from)), 1);
    }
}

void flxi_onnx_write_by(const onnx_export_row *row, const onnx_source *n)
{
    onnx_source s = *n;
    s.to = row->to;
    int32_t dtype = n->nin ? flxi_onnx_in_type(n, 0)->dtype : FLX_F32;
    if (row->types >> dtype & 1) {
        row->write(&s);
        return;
    }
    flx_dtype to = carrier_of(dtype, row->types);
    if (to == FLX_DTYPE_NONE || n->nin > MAX_OPERANDS || n->nout > MAX_OPERANDS)
        flxi_onnx_refuse(n, flx_dtype_name((flx_dtype)dtype));
    else
        write_carried(row, &s, dtype, to);
}
