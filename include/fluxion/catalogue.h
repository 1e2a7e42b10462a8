/* SPDX-License-Identifier: Apache-2.0 */
/* fluxion/catalogue.h: the op table as data, for tools and bindings. Everything here is static and read-only. */
#ifndef FLUXION_CATALOGUE_H
#define FLUXION_CATALOGUE_H

#include <fluxion/types.h>

FLX_BEGIN_DECLS

/* How a rule of an op is obtained. */
enum {
    FLX_RULE_NONE = 0,      /* there is none; using it is NO_RULE */
    FLX_RULE_OWN = 1,       /* the op's own rule */
    FLX_RULE_DECOMPOSE = 2, /* through the op's decomposition */
    FLX_RULE_ZERO = 3,      /* zero by definition */
    FLX_RULE_UNDEFINED = 4, /* undefined, for the reason given */
    FLX_RULE_LOOP = 5       /* batching only: a loop over the examples */
};

typedef struct flx_op_view {
    const char *name;
    const char *family;   /* the file in src/ops that holds it */
    const char *operands; /* "x, [beta]", "x..." ; suffixes :index :pred :key :any :int :pair give roles */
    const char *results;  /* "values, indices"; "..." as many as the op says */
    const char *doc;
    uint32_t dtypes;                    /* bit 1 << flx_dtype for each the op takes */
    int32_t min_operands, max_operands; /* max -1: any number */
    uint32_t num_attrs;
    int32_t vjp, jvp, vmap, order2; /* FLX_RULE_… */
    const char *reason;             /* why undefined, or "" */
} flx_op_view;

typedef struct flx_attr_view {
    const char *name;
    const char *kind;   /* "int", "ints", "bool", "real", "word", "dtype", "graph" … */
    const char *words;  /* the words of an enumeration, separated by spaces, or "" */
    int32_t required;   /* 1: must be given */
    int32_t positional; /* 1: written without its name in text */
    char fallback[48];  /* the default as text; "" when the attribute must be given */
} flx_attr_view;

FLX_API size_t flx_op_count(void);
/** Op i; FLX_E_NAME when `i` is out of range. Here and below, NULL for a name or for `out` is FLX_E_USAGE. */
FLX_API flx_code flx_op_at(size_t i, flx_op_view *out);
/** By name or synonym; FLX_E_NAME when there is no such op. */
FLX_API flx_code flx_op_find(const char *name, flx_op_view *out);
FLX_API flx_code flx_op_attr(const char *op, uint32_t i, flx_attr_view *out);
/** Synonym i and the op it means; FLX_E_NAME when `i` is out of range. */
FLX_API flx_code flx_op_synonym(size_t i, const char **synonym, const char **name);

/* ---- Names of other frameworks ---- */

typedef struct flx_foreign_view {
    const char *name;       /* as the framework spells it, without its module */
    const char *frameworks; /* "PyTorch, NumPy" */
    const char *ours;       /* an op, or a function of fluxion/nn.h ("flx_nn_lstm"); "": neither */
    const char *note;       /* how it is written here; "": just as there, under its name here */
} flx_foreign_view;

/** Row i of the table, sorted by name; FLX_E_NAME when `i` is out of range. */
FLX_API flx_code flx_foreign_name(size_t i, flx_foreign_view *out);
/** The row of a name, compared without case, underscores and what comes before the last dot ("torch.nn.MaxPool2d");
    FLX_E_NAME when there is none. */
FLX_API flx_code flx_foreign_find(const char *name, flx_foreign_view *out);

FLX_END_DECLS
#endif
