/* SPDX-License-Identifier: Apache-2.0 */
/* write_data.c: constants as arrays. Floats are the shortest decimals that read back to the same bits. */
#include "base/hash.h"
#include "base/number.h"
#include "graph/op/eval.h"
#include "ops/express/express.h"
#include "standalone/standalone.h"

#include <math.h>
#include <stdio.h>

static void add_float(flxi_strbuf *out, double x, bool is_double)
{
    char text[FLXI_NUMBER_MAX];
    if (x != x || isinf(x)) {
        flxi_add_text(out, x != x ? "NAN" : x < 0 ? "-INFINITY" : "INFINITY");
        return;
    }
    flxi_write_double(text, x, is_double ? 53 : 24);
    flxi_add_text(out, text);
    if (!strpbrk(text, ".e"))
        flxi_add_text(out, ".0");
    if (!is_double)
        flxi_add_char(out, 'f');
}

static void add_signed(flxi_strbuf *out, int64_t x)
{
    if (x == INT64_MIN)
        flxi_add_text(out, "-INT64_C(9223372036854775807) - 1");
    else if (x == INT32_MIN)
        flxi_add_text(out, "-2147483647 - 1");
    else if (x > INT32_MAX || x < INT32_MIN)
        flxi_addf(out, "INT64_C(%lld)", (long long)x);
    else
        flxi_addf(out, "%lld", (long long)x);
}

static void add_element(flxi_strbuf *out, uint32_t storage, const void *data, size_t i)
{
    switch (storage) {
    case FLX_F64: add_float(out, ((const double *)data)[i], true); break;
    case FLX_F32: add_float(out, (double)((const float *)data)[i], false); break;
    case FLX_F16:
    case FLX_BF16:
    case FLX_U16: flxi_addf(out, "%uu", ((const uint16_t *)data)[i]); break;
    case FLX_I64: add_signed(out, ((const int64_t *)data)[i]); break;
    case FLX_I32: add_signed(out, ((const int32_t *)data)[i]); break;
    case FLX_I16: add_signed(out, ((const int16_t *)data)[i]); break;
    case FLX_I8: add_signed(out, ((const int8_t *)data)[i]); break;
    case FLX_U64: flxi_addf(out, "UINT64_C(%llu)", (unsigned long long)((const uint64_t *)data)[i]); break;
    case FLX_U32: flxi_addf(out, "%uu", ((const uint32_t *)data)[i]); break;
    default: flxi_addf(out, "%u", ((const uint8_t *)data)[i]);
    }
}

static void add_array(flxi_sa_file *f, const flxi_sa_constant *c, const flx_type *type)
{
    enum { WIDTH = 108 };
    flxi_type_text shown;
    size_t size = flx_dtype_size((flx_dtype)c->storage), n = c->nbytes / size, start = 0;
    flxi_addf(&f->data, "\n/* %s */\nstatic const %s %s[%zu] = {", flxi_type_str(f->ctx, type, &shown),
              flxi_sa_type((int32_t)c->storage), c->name, n ? n : 1);
    for (size_t i = 0; i < n; i++) {
        if (n > 4 && (i == 0 || f->data.n - start > WIDTH)) {
            flxi_add_text(&f->data, "\n    ");
            start = f->data.n;
        } else if (i) {
            flxi_add_char(&f->data, ' ');
        }
        add_element(&f->data, c->storage, c->data, i);
        flxi_add_text(&f->data, i + 1 < n ? "," : "");
    }
    flxi_add_text(&f->data, n == 0 ? "0};\n" : n > 4 ? "\n};\n" : "};\n");
}

const char *flxi_sa_constant_of(flxi_sa_file *f, const void *data, const flx_type *type, const char *wanted)
{
    flxi_sa_constant c = {.data = data, .storage = flxi_kernel_storage(type->dtype)};
    flxi_static_bytes(type, &c.nbytes);
    c.hash = flxi_hash_bytes(FLXI_HASH_SEED, data, c.nbytes);
    for (size_t i = 0; i < f->constants.n; i++) {
        const flxi_sa_constant *have = &f->constants.at[i];
        if (have->hash == c.hash && have->nbytes == c.nbytes && have->storage == c.storage &&
            memcmp(have->data, data, c.nbytes) == 0)
            return have->name;
    }
    c.name = flxi_sa_name(f, wanted);
    if (!flxi_push(f->mem, &f->constants, c)) {
        f->failed = true;
        return "";
    }
    f->constant_bytes += c.nbytes;
    add_array(f, &c, type);
    return c.name;
}
