/* SPDX-License-Identifier: Apache-2.0 */
/* pickle.h: reads the pickles in files of PyTorch. A pickle is a program for a machine with a stack, which may call any
   function of Python. This machine calls none: it knows the operations that build dicts, lists, tuples, texts and
   numbers, and a few names that stand for tensors and their storages; everything else is an error. */
#ifndef FLXI_PICKLE_H
#define FLXI_PICKLE_H

#include "format/file.h"

#include <fluxion/tensor.h>

typedef enum {
    FLXI_PICKLE_NONE,
    FLXI_PICKLE_NUMBER, /* floats too: no tensor needs their values */
    FLXI_PICKLE_TEXT,
    FLXI_PICKLE_TUPLE,
    FLXI_PICKLE_LIST,
    FLXI_PICKLE_DICT, /* items: key, value, key, value … */
    FLXI_PICKLE_NAME, /* something of a module of Python */
    FLXI_PICKLE_STORAGE,
    FLXI_PICKLE_TENSOR
} flxi_pickle_kind;

/* The elements of an entry of the archive. */
typedef struct {
    int32_t dtype; /* FLX_DTYPE_NONE: bytes, whose dtype the tensor has */
    const char *entry;
    size_t entry_size;
    int64_t count; /* elements; bytes where there is no dtype */
} flxi_pickle_storage;

/* A view of a storage; all its elements are within `count` of it, and there are no more of them. */
typedef struct {
    const flxi_pickle_storage *storage;
    flx_type type;
    int64_t offset;                /* elements */
    int64_t strides[FLX_MAX_RANK]; /* elements */
} flxi_pickle_tensor;

typedef struct flxi_pickle_value flxi_pickle_value;
struct flxi_pickle_value {
    flxi_pickle_kind kind;
    int position; /* NAME: in the table of names */
    int64_t number;
    const char *text; /* in the bytes of the pickle, not terminated */
    size_t size;
    FLXI_VEC(const flxi_pickle_value *) items;
    flxi_pickle_storage *storage;
    flxi_pickle_tensor *tensor;
};

typedef struct {
    flxi_arena arena;
    FLXI_VEC(flxi_pickle_value *) all; /* every value, so that their items can be freed */
    const flxi_pickle_value *root;
} flxi_pickle;

/* Runs the pickle; values refer to its bytes. On failure *offset is the byte that is wrong. Free in any case. */
flx_code flxi_pickle_read(flxi_pickle *p, const flxi_allocator *mem, const unsigned char *bytes, size_t size,
                          size_t *offset, flx_error *err);
void flxi_pickle_free(flxi_pickle *p);

#endif
