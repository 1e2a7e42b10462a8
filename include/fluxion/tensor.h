/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/tensor.h: values in memory, and the files that hold them. */
#ifndef FLUXION_TENSOR_H
#define FLUXION_TENSOR_H

#include <fluxion/graph.h>

FLX_BEGIN_DECLS

/** A tensor of the (static) type, row-major. Copies `data`, or is zero when it is NULL. Release when done. Reference
    counts are atomic; access to the elements is not synchronised. */
FLX_API flx_tensor *flx_tensor_new(flx_context *ctx, const flx_type *type, const void *data, flx_error *err);

/* Called once, when the last hold on a tensor over the caller's memory is released, on the thread that releases it. */
typedef void (*flx_release_fn)(void *user, void *data);

/** A tensor over the caller's memory: flx_type's elements, dense and row-major, aligned to their size (complex: to that
    of a part). Nothing is copied: the memory must stay valid, and should not be written while a run reads it, until
    `release` (NULL: none) is called. On failure `release` is not called. */
FLX_API flx_tensor *flx_tensor_wrap(flx_context *ctx, const flx_type *type, void *data, flx_release_fn release,
                                    void *user, flx_error *err);

FLX_API flx_tensor *flx_tensor_retain(flx_tensor *t);
FLX_API void flx_tensor_release(flx_tensor *t); /* NULL is fine */

FLX_API const flx_type *flx_tensor_type(const flx_tensor *t);
FLX_API void *flx_tensor_data(flx_tensor *t);
FLX_API const void *flx_tensor_const_data(const flx_tensor *t);
FLX_API size_t flx_tensor_nbytes(const flx_tensor *t); /* in bytes */
FLX_API int64_t flx_tensor_count(const flx_tensor *t); /* elements */

/** Element i in row-major order as a real number (real part of a complex one); NaN when out of range. */
FLX_API double flx_tensor_get(const flx_tensor *t, int64_t i);

/** The same tensor in another dtype, converted as the op `cast` does. */
FLX_API flx_tensor *flx_tensor_cast(const flx_tensor *t, flx_dtype to, flx_error *err);

/* ---- Files. Sizes are checked against the file before anything is allocated. ---- */

/** Reads NumPy's .npy from memory or from a file. Big-endian and Fortran-ordered arrays are converted. */
FLX_API flx_tensor *flx_npy_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err);
FLX_API flx_tensor *flx_npy_read(flx_context *ctx, const char *path, flx_error *err);

/** Writes .npy; bf16, which NumPy lacks, is written as f32. The file appears whole or not at all. */
FLX_API flx_code flx_npy_write(const flx_tensor *t, const char *path, flx_error *err);

/** Reads one array of an .npz archive (stored or deflated). FLX_E_NAME when it has no such key. */
FLX_API flx_tensor *flx_npz_decode(flx_context *ctx, const void *bytes, size_t size, const char *key, flx_error *err);
FLX_API flx_tensor *flx_npz_read(flx_context *ctx, const char *path, const char *key, flx_error *err);

/** Writes an .npz archive of `count` arrays. */
FLX_API flx_code flx_npz_write(const char *path, const char *const *keys, const flx_tensor *const *tensors,
                               size_t count, flx_error *err);

/** Reads one tensor of a .safetensors file. FLX_E_NAME when the file has no such key. */
FLX_API flx_tensor *flx_safetensors_decode(flx_context *ctx, const void *bytes, size_t size, const char *key,
                                           flx_error *err);
FLX_API flx_tensor *flx_safetensors_read(flx_context *ctx, const char *path, const char *key, flx_error *err);

/** Writes a .safetensors file of `count` tensors, in that order. c128, which the format lacks, is FLX_E_UNSUPPORTED.
    The file appears whole or not at all. */
FLX_API flx_code flx_safetensors_write(const char *path, const char *const *keys, const flx_tensor *const *tensors,
                                       size_t count, flx_error *err);

/** Reads one tensor of a file of named tensors, whatever its form is: .safetensors; the index of one in parts
    (model.safetensors.index.json), which names files of its own folder; .npz; a zip archive of PyTorch (.pt, .pth,
    .bin), of which nothing but tensors is read and nothing is run: names of nested dicts and lists are joined by dots.
    The bytes of the file decide which it is. FLX_E_NAME when it has no such key. */
FLX_API flx_tensor *flx_weights_decode(flx_context *ctx, const void *bytes, size_t size, const char *key,
                                       flx_error *err);
FLX_API flx_tensor *flx_weights_read(flx_context *ctx, const char *path, const char *key, flx_error *err);

/* ---- What a file of several tensors holds ---- */

/* The keys of a file. */
typedef struct flx_keys flx_keys;

/** The keys of a file that flx_weights_read() reads, in the order of the file; no tensor is read. Free with
    flx_keys_free(). */
FLX_API flx_keys *flx_keys_read(flx_context *ctx, const char *path, flx_error *err);
FLX_API flx_keys *flx_keys_decode(flx_context *ctx, const void *bytes, size_t size, flx_error *err);
FLX_API void flx_keys_free(flx_keys *k); /* NULL is fine */
FLX_API size_t flx_keys_count(const flx_keys *k);
FLX_API const char *flx_keys_at(const flx_keys *k, size_t i); /* NULL when out of range; lives as long as `k` */

FLX_END_DECLS
#endif
