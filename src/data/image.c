/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: images of any format, and files as bytes. */
#include "data/image.h"

#include "base/context.h"
#include "base/error.h"
#include "format/file.h"

flx_tensor *flx_image_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    if (!ctx || (!bytes && size)) {
        flxi_fail(err, FLX_E_USAGE, "flx_image_decode: context and bytes must not be NULL");
        return NULL;
    }
    const unsigned char *p = size ? bytes : (const unsigned char *)"";
    return flxi_is_png(p, size) ? flxi_png_decode(ctx, p, size, err) : flxi_pnm_decode(ctx, p, size, err);
}

static flx_tensor *decode_bytes(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    const flx_type type = flx_type_make(FLX_U8, 1, (flx_dim[]){(int64_t)size});
    return flx_tensor_new(ctx, &type, bytes, err);
}

static flx_tensor *read_with(flx_context *ctx, const char *path, const char *function,
                             flx_tensor *(*decode)(flx_context *, const void *, size_t, flx_error *), flx_error *err)
{
    flxi_file_bytes file;
    flx_tensor *t = NULL;
    if (!ctx || !path) {
        flxi_fail(err, FLX_E_USAGE, "%s: context and path must not be NULL", function);
        return NULL;
    }
    if (flxi_file_read(&file, flxi_context_mem(ctx), path, flxi_context_limit(ctx), err) == FLX_OK) {
        t = decode(ctx, file.bytes, file.size, err);
        flxi_file_free(&file);
    }
    if (!t)
        flxi_at(err, "%s", path);
    return t;
}

flx_tensor *flx_image_read(flx_context *ctx, const char *path, flx_error *err)
{
    return read_with(ctx, path, "flx_image_read", flx_image_decode, err);
}

flx_tensor *flx_bytes_read(flx_context *ctx, const char *path, flx_error *err)
{
    return read_with(ctx, path, "flx_bytes_read", decode_bytes, err);
}
