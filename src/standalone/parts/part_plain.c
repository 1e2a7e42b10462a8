/* SPDX-License-Identifier: Apache-2.0 */
/* part_plain.c: nodes that copy their operands, packed blocks of numbers, checks, and functions of complex numbers that
   <complex.h> has. */
#include "graph/op/eval.h"
#include "numeric/gguf_block.h"
#include "ops/opcode.h"
#include "standalone/parts/parts.h"

static size_t bytes_of(const flx_type *t)
{
    size_t bytes = 0;
    flxi_static_bytes(t, &bytes);
    return bytes;
}

/* ---- Copies ---- */

const char *flxi_sa_copy_applies(const flxi_device_node *n)
{
    for (uint32_t k = 0; k < n->nout; k++)
        if (k >= n->nin || bytes_of(n->in_types[k]) != bytes_of(n->out_types[k]))
            return "operands and results have other sizes";
    return NULL;
}

void flxi_sa_copy(flxi_sa_writer *w)
{
    for (uint32_t k = 0; k < w->n->nout; k++)
        if (bytes_of(w->n->out_types[k]))
            flxi_sa_line(w, "memcpy(y%u, x%u, %zu);", k, k, bytes_of(w->n->out_types[k]));
}

/* More operands than a kernel takes. */
void flxi_sa_concat(flxi_sa_writer *w)
{
    const flx_type *y = w->n->out_types[0];
    int axis = (int)flxi_sa_int(w->n, "axis");
    int64_t outer = flxi_static_extent(y, 0, axis), numbers = flxi_is_complex(y->dtype) ? 2 : 1, at = 0;
    int64_t row = numbers * flxi_static_extent(y, axis, y->rank);
    if (!bytes_of(y))
        return;
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++) {", (long long)outer);
    for (uint32_t k = 0; k < w->n->nin; k++) {
        const flx_type *x = w->n->in_types[k];
        int64_t part = numbers * flxi_static_extent(x, axis, x->rank);
        if (part)
            flxi_sa_line(w, "    memcpy(y0 + %lld * i + %lld, x%u + %lld * i, %zu);", (long long)row, (long long)at, k,
                         (long long)part, bytes_of(x) / (size_t)outer);
        at += part;
    }
    flxi_sa_line(w, "}");
}

/* ---- Packed blocks ---- */

const char *flxi_sa_gguf_applies(const flxi_device_node *n)
{
    int64_t scheme = flxi_sa_int(n, "scheme");
    bool has_table = (scheme >= FLXI_GGUF_iq4_nl && scheme <= FLXI_GGUF_iq1_m) || scheme == FLXI_GGUF_mxfp4;
    return has_table ? "the codes of these blocks are positions in tables that C files do not have" : NULL;
}

/* Rows of blocks become columns of matrices, as decoded by numeric/gguf_block.c. */
void flxi_sa_gguf(flxi_sa_writer *w)
{
#define GGUF_NAME(name, count, nbytes) "decode_" #name,
#define GGUF_SIZE(name, count, nbytes) {count, nbytes},
    static const char *const names[] = {FLXI_GGUF_MAP(GGUF_NAME)};
    static const int sizes[][2] = {FLXI_GGUF_MAP(GGUF_SIZE)};
#undef GGUF_NAME
#undef GGUF_SIZE
    int64_t scheme = flxi_sa_int(w->n, "scheme");
    const flx_dim *d = w->n->out_types[0]->dims;
    long long k = (long long)d[1], n = (long long)d[2], rows = (long long)d[0] * n;
    if (flxi_sa_count(w->n->out_types[0]) == 0)
        return;
    const char *decode = flxi_sa_borrow(w->f, "gguf_block.c", names[scheme]);
    flxi_sa_line(w, "double numbers[%d];", sizes[scheme][0]);
    flxi_sa_open(w, "for (int64_t row = 0; row < %lld; row++)", rows);
    flxi_sa_line(w, "float *const to = y0 + row / %lld * %lld + row %% %lld;", n, k * n, n);
    flxi_sa_open(w, "for (int64_t p = 0; p < %lld; p += %d)", k, sizes[scheme][0]);
    flxi_sa_line(w, "%s(x0 + (row * %lld + p / %d) * %d, numbers);", decode, k / sizes[scheme][0], sizes[scheme][0],
                 sizes[scheme][1]);
    flxi_sa_line(w, "for (int i = 0; i < %d; i++)", sizes[scheme][0]);
    flxi_sa_line(w, "    to[(p + i) * %lld] = (float)numbers[i];", n);
    flxi_sa_close(w);
    flxi_sa_close(w);
}

/* ---- Checks ---- */

/* x where everything in ok is true; NaN is not. */
void flxi_sa_check(flxi_sa_writer *w)
{
    const flx_type *ok = w->n->in_types[1];
    int32_t dtype = ok->dtype;
    flxi_sa_line(w, "for (int64_t i = 0; i < %lld; i++)", (long long)flxi_sa_count(ok));
    if (flxi_is_complex(dtype))
        flxi_sa_line(w, "    if ((x1[2 * i] == 0 && x1[2 * i + 1] == 0) || x1[2 * i] != x1[2 * i] || "
                        "x1[2 * i + 1] != x1[2 * i + 1])");
    else if (flxi_is_float(dtype))
        flxi_sa_line(w, "    if (!(%s < 0 || %s > 0))", flxi_sa_load(w, dtype, "x1[i]"),
                     flxi_sa_load(w, dtype, "x1[i]"));
    else
        flxi_sa_line(w, "    if (x1[i] == 0)");
    flxi_sa_line(w, "        return %s;", flxi_sa_code_of(w->f, SA_CHECK_FAILED));
    if (bytes_of(w->n->out_types[0]))
        flxi_sa_line(w, "memcpy(y0, x0, %zu);", bytes_of(w->n->out_types[0]));
}

/* ---- Complex functions ---- */

const char *flxi_sa_complex_applies(const flxi_device_node *n)
{
    for (uint32_t k = 0; k < n->nin; k++)
        if (!flxi_is_complex(n->in_types[k]->dtype))
            return "real numbers have kernels";
    return NULL;
}

static const char *library_name(flxi_opcode op)
{
    switch (op) {
    case OP_sin: return "csin";
    case OP_cos: return "ccos";
    case OP_tan: return "ctan";
    case OP_asin: return "casin";
    case OP_acos: return "cacos";
    case OP_atan: return "catan";
    case OP_sinh: return "csinh";
    case OP_cosh: return "ccosh";
    case OP_tanh: return "ctanh";
    case OP_asinh: return "casinh";
    case OP_acosh: return "cacosh";
    default: return "catanh";
    }
}

/* A complex number is an array of its parts: C99, 6.2.5. */
void flxi_sa_complex(flxi_sa_writer *w)
{
    const char *part = flxi_sa_type(w->n->out_types[0]->dtype);
    flxi_sa_open(w, "for (int64_t i = 0; i < %lld; i++)", (long long)flxi_sa_count(w->n->out_types[0]));
    flxi_sa_line(w, "double _Complex z;");
    flxi_sa_line(w, "double parts[2];");
    flxi_sa_line(w, "parts[0] = x0[2 * i];");
    flxi_sa_line(w, "parts[1] = x0[2 * i + 1];");
    flxi_sa_line(w, "memcpy(&z, parts, sizeof z);");
    flxi_sa_line(w, "z = %s(z);", library_name(w->n->op));
    flxi_sa_line(w, "memcpy(parts, &z, sizeof z);");
    flxi_sa_line(w, "y0[2 * i] = (%s)parts[0];", part);
    flxi_sa_line(w, "y0[2 * i + 1] = (%s)parts[1];", part);
    flxi_sa_close(w);
}
