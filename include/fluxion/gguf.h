/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/gguf.h: GGUF files (versions 2 and 3): named values, and tensors in packed blocks. Experimental. */
#ifndef FLUXION_GGUF_H
#define FLUXION_GGUF_H

#include <fluxion/tensor.h>
#include <fluxion/text.h>

FLX_BEGIN_DECLS

/* An open file, or all parts of one that was split. Threads may share it: nothing changes after it was read. */
typedef struct flx_gguf flx_gguf;

/** Reads a file by mapping it: tensors are not copied. It must not be truncated by others while it is open. A name that
    ends in -00001-of-00003.gguf is the first part of a split file, and the others are read from the same folder. Sizes
    and counts are checked against the file before anything is allocated. On failure NULL, with FILE:OFFSET in
    err->where. Free with flx_gguf_free(). */
FLX_API flx_gguf *flx_gguf_read(flx_context *ctx, const char *path, flx_error *err);
/** The same of bytes in memory, which must stay valid as long as the file and its tensors are used; `file` names them
    in errors (NULL: "gguf"). */
FLX_API flx_gguf *flx_gguf_decode(flx_context *ctx, const void *bytes, size_t size, const char *file, flx_error *err);
/** NULL is fine. Tensors of the file keep its memory until they are released. */
FLX_API void flx_gguf_free(flx_gguf *f);

/* ---- Named values ---- */

/* X(NAME, number in files, bytes; 0: none of its own) */
#define FLX_GGUF_KIND_MAP(X) \
    X(U8, 0, 1)              \
    X(I8, 1, 1)              \
    X(U16, 2, 2)             \
    X(I16, 3, 2)             \
    X(U32, 4, 4)             \
    X(I32, 5, 4)             \
    X(F32, 6, 4)             \
    X(BOOL, 7, 1)            \
    X(STRING, 8, 0)          \
    X(ARRAY, 9, 0)           \
    X(U64, 10, 8)            \
    X(I64, 11, 8)            \
    X(F64, 12, 8)

typedef enum flx_gguf_kind {
    FLX_GGUF_KIND_SIGNED = -1, /* no kind: makes the enumeration signed, like the int32_t in structs */
#define FLX_GGUF_KIND_ENUM(name, value, nbytes) FLX_GGUF_##name = value,
    FLX_GGUF_KIND_MAP(FLX_GGUF_KIND_ENUM)
#undef FLX_GGUF_KIND_ENUM
} flx_gguf_kind;

/* A named value. To write one, `data` are the elements, dense and in this machine's byte order, or for strings an array
   of `const char *`. In a pair that was read `data` is NULL: flx_gguf_number() and flx_gguf_string() return elements.
   */
typedef struct flx_gguf_pair {
    const char *key;
    int32_t kind;    /* a flx_gguf_kind */
    int32_t element; /* of an array: what its elements are; otherwise `kind` */
    uint64_t count;  /* elements; 1 unless it is an array */
    const void *data;
} flx_gguf_pair;

/** How many named values there are, and one of them: NAME when there is none. Texts live as long as the file. */
FLX_API size_t flx_gguf_pair_count(const flx_gguf *f);
FLX_API flx_code flx_gguf_pair_at(const flx_gguf *f, size_t i, flx_gguf_pair *out);
/** The position of a key; -1 when the file does not have it. */
FLX_API int64_t flx_gguf_find(const flx_gguf *f, const char *key);

/** Element `at` of value i as a number; `none` when it is not a number or out of range. */
FLX_API double flx_gguf_number(const flx_gguf *f, int64_t i, uint64_t at, double none);
/** Element `at` of value i as text, of *size bytes and without a 0 at its end; NULL when it is not a string or out of
    range. Takes time in proportion to `at` for arrays of strings. */
FLX_API const char *flx_gguf_string(const flx_gguf *f, int64_t i, uint64_t at, size_t *size);

/* ---- Tensors ---- */

typedef struct flx_gguf_tensor_info {
    uint32_t struct_size; /* sizeof(flx_gguf_tensor_info) */
    int32_t rank;
    const char *name;
    const char *type; /* as in files, in small letters: "f32", "q4_k" … */
    int64_t dims[8];  /* rows first: the last one is contiguous, other than in the file */
    uint64_t offset;  /* of its bytes in the file that has them */
    uint64_t nbytes;
    uint32_t part;  /* which file of a split one, from 0 */
    uint32_t block; /* numbers in a block, 1 where they are not packed */
} flx_gguf_tensor_info;

FLX_API size_t flx_gguf_tensor_count(const flx_gguf *f);
FLX_API flx_code flx_gguf_tensor_at(const flx_gguf *f, size_t i, flx_gguf_tensor_info *out, flx_error *err);
/** The position of a tensor by name; -1 when the file does not have it. */
FLX_API int64_t flx_gguf_find_tensor(const flx_gguf *f, const char *name);

/** Tensor i over the file's memory, without a copy. Where its type is a dtype, it is that; where it is packed in
    blocks, u8 with the bytes of a row as last extent: what the op dequant_matmul takes as w, with the scheme "gguf_"
    and its type. It must only be read. */
FLX_API flx_tensor *flx_gguf_tensor(const flx_gguf *f, size_t i, flx_error *err);
/** Tensor i as bytes, u8 with the bytes of a row as last extent, whatever its type is. */
FLX_API flx_tensor *flx_gguf_tensor_bytes(const flx_gguf *f, size_t i, flx_error *err);
/** Tensor i in f32: packed blocks are decoded. */
FLX_API flx_tensor *flx_gguf_tensor_f32(const flx_gguf *f, size_t i, flx_error *err);

/* ---- Writing ---- */

/* A tensor to write. */
typedef struct flx_gguf_source {
    const char *name;
    const char *type; /* "q4_k" …: `value` is u8 [..., bytes of a row]; NULL: what its dtype is */
    const flx_tensor *value;
} flx_gguf_source;

/** Writes a file of version 3. The key general.alignment, if it is given, decides where tensors begin; 32 otherwise.
    The file appears whole or not at all. */
FLX_API flx_code flx_gguf_write(const char *path, const flx_gguf_pair *pairs, size_t num_pairs,
                                const flx_gguf_source *tensors, size_t num_tensors, flx_error *err);

/** The packed blocks of f32 numbers, rows of the last extent: u8 with the bytes of a row as last extent. Types f16,
    bf16, q4_0, q4_1, q5_0, q5_1 and q8_0; others are UNSUPPORTED. */
FLX_API flx_tensor *flx_gguf_pack(const flx_tensor *t, const char *type, flx_error *err);

FLX_END_DECLS
#endif
