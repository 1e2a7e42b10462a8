/* SPDX-License-Identifier: Apache-2.0 */
/* part_direct.c: convolutions of real floats over one or two spatial axes, for targets with vectors. The definition
   leaves out terms that meet padding, and tiles compute them with zeros: an operand with infinities or NaN, with which
   that would make a difference, is computed term by term (part_conv.c). */
#include "standalone/tiles/part_direct.h"

enum { MOST_PHASES = 16, MIN_SHARED = 4096 /* elements that threads are worth */ };

static flxi_sa_direct_form form_of(const flxi_device_node *n)
{
    flxi_sa_direct_form f = {.d = flxi_order_of_conv(n)};
    f.sum = flxi_conv_sum_dtype(f.d.p.dtype);
    f.real = f.sum == FLX_F64 ? "double" : "float";
    f.size = f.sum == FLX_F64 ? 8 : 4;
    return f;
}

const char *flxi_sa_direct_applies(const flxi_device_node *n)
{
    const char *why = flxi_order_is_direct(n);
    if (why)
        return why;
    flxi_direct_conv d = flxi_order_of_conv(n);
    if (!d.to_weight && flxi_conv_phases(&d.p.axis[0]) * flxi_conv_phases(&d.p.axis[1]) > MOST_PHASES)
        return "the input is spread too wide for vectors";
    return NULL;
}

size_t flxi_sa_direct_scratch(const flxi_device_node *n)
{
    flxi_sa_direct_form f = form_of(n);
    return f.d.to_weight ? flxi_sa_weight_bytes(&f) : flxi_sa_gather_bytes(&f);
}

flxi_sa_cuts flxi_sa_direct_cuts(const flxi_device_node *n)
{
    flxi_sa_direct_form f = form_of(n);
    if (flxi_sa_count(n->out_types[0]) + flxi_sa_count(n->in_types[0]) < MIN_SHARED)
        return (flxi_sa_cuts){0};
    return f.d.to_weight ? flxi_sa_weight_cuts(&f) : flxi_sa_gather_cuts(&f);
}

/* By the thread that has the first unit. */
static void write_terms_apart(const flxi_sa_direct_form *f)
{
    flxi_sa_writer *w = f->w;
    int operand = f->d.is_turned ? 0 : 1;
    long long count = flxi_sa_long(flxi_sa_count(w->n->in_types[operand]));
    int32_t dtype = f->d.p.dtype;
    if (dtype == f->sum) {
        flxi_sa_open(w, "if (!%s(x%d, %lld))", flxi_sa_finite(w, dtype), operand, count);
    } else {
        const char *exponent = dtype == FLX_F16 ? "0x7c00u" : "0x7f80u";
        flxi_sa_line(w, "int is_finite = 1;");
        flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", count);
        flxi_sa_line(w, "    is_finite &= (x%d[i] & %s) != %s;", operand, exponent, exponent);
        flxi_sa_open(w, "if (!is_finite)");
    }
    if (w->units > 1)
        flxi_sa_open(w, "if (from == 0)");
    flxi_sa_conv_apart(w);
    if (w->units > 1)
        flxi_sa_close(w);
    flxi_sa_line(w, "return;");
    flxi_sa_close(w);
}

void flxi_sa_direct(flxi_sa_writer *w)
{
    flxi_sa_direct_form f = form_of(w->n);
    f.w = w;
    f.shape = flxi_sa_shape_of(w->f, f.sum);
    if (f.d.has_zeros)
        write_terms_apart(&f);
    (f.d.to_weight ? flxi_sa_weight_tiles : flxi_sa_gather_tiles)(&f);
}
