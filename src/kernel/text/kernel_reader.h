/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_reader.h: the state of reading kernel text, its errors, tokens and names; shared by kernel_parse.c (functions
   and statements), kernel_parse_decl.c (the header, metadata and buffers) and kernel_parse_expr.c (expressions). */
#ifndef FLXI_KERNEL_READER_H
#define FLXI_KERNEL_READER_H

#include "kernel/program/kernel.h"
#include "kernel/text/kernel_lex.h"

/* What a name currently denotes; buffers, functions and variables do not shadow each other. */
typedef struct {
    uint32_t var, buffer, fn;
} flxi_ksymbol;

typedef enum { NODE_SOFT = 1, NODE_REAL = 2, NODE_SOFT_PEERS = 4 } flxi_knode_flags;

/* A node of the expression being read. Nodes are in postorder: operands before their users. */
typedef struct {
    uint8_t kind; /* a flxi_kx_kind */
    uint8_t op;
    uint8_t order;
    uint8_t flags;  /* NODE_… */
    uint8_t type;   /* of its value, 0: soft or ill-typed */
    uint8_t join;   /* the type its peers share */
    uint8_t demand; /* the type its context demands, 0: none */
    uint8_t depth;
    uint32_t ref;
    uint32_t kids; /* index of its first operand in the list of kids */
    uint32_t num_kids;
    uint32_t expr;       /* once built */
    flxi_knumber number; /* of a literal */
    const char *at;
    size_t n;
} flxi_knode;

/* An operator that waits for its right operand, or an open bracket. */
typedef struct {
    uint8_t form; /* a frame_form of kernel_parse_expr.c */
    uint8_t kind, op, order, type;
    uint8_t strength;
    uint32_t ref;
    uint32_t base;     /* number of waiting values when it was opened */
    uint32_t num_args; /* of a call: arguments read, including those that are not expressions */
    const char *args;  /* of a call: the arguments it takes */
    const char *at;
    size_t n;
} flxi_kwaiting;

/* An unknown name: reported at its own position with the nearest known name, in place of the finding of validation. */
typedef struct {
    uint32_t statement; /* source position of its statement … */
    uint32_t position;  /* … and its own */
    flx_error err;
} flxi_knote;

/* The first few only: the search for near names takes time. */
typedef struct {
    flxi_knote *at;
    size_t n, room;
} flxi_knotes;

typedef struct {
    flx_context *ctx;
    const flxi_allocator *mem;
    const char *file;
    flx_error *err;
    flxi_klexer x;
    flxi_kb *b;
    FLXI_VEC(flxi_ksymbol) symbols; /* by number of the name in b->texts */
    FLXI_VEC(struct {
        size_t symbol;
        uint32_t var;
    })
    hidden;                    /* what names denoted outside of the open scopes */
    FLXI_VEC(uint8_t) unbound; /* by buffer: 1 where the text gives no binding */
    FLXI_VEC(flxi_knode) nodes;
    FLXI_VEC(uint32_t) kids;
    FLXI_VEC(uint32_t) values; /* nodes that no operator has taken yet */
    FLXI_VEC(flxi_kwaiting) waiting;
    FLXI_VEC(char) scratch; /* an unescaped string */
    flxi_knotes notes;
} flxi_kparser;

/* ---- Errors ---- */

/* FLX_E_SYNTAX at a position in the text. */
flx_code flxi_kfail_at(flxi_kparser *p, const char *at, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);
/* FLX_E_KERNEL with a K code, at a position in the text. */
flx_code flxi_kfail_rule(flxi_kparser *p, const char *at, const char *rule, const char *hint, const char *fmt, ...)
    FLX_PRINTF(5, 6);
flx_code flxi_kfail_memory(flxi_kparser *p);
/* "expected …, found …" at the current token. */
flx_code flxi_kexpected(flxi_kparser *p, const char *what);
/* A hint for what is found instead of `what`, or for a function that does not exist, where other languages have it;
   NULL if there is none. The hint may be in the buffer. */
const char *flxi_khabit(const flxi_kparser *p, const char *what, char *buffer, size_t size);
const char *flxi_khabit_function(const char *name);
/* Passes on the error of the builder. */
flx_code flxi_kcheck_builder(flxi_kparser *p, const char *at);
/* Writes FILE:LINE:COL to err->where. */
void flxi_kset_where(flx_error *err, const char *text, const char *file, const char *at);
/* Notes an unknown name. */
typedef enum { UNKNOWN_VAR, UNKNOWN_TARGET, UNKNOWN_BUFFER, UNKNOWN_FUNCTION } flxi_kunknown;
void flxi_kunknown_name(flxi_kparser *p, const char *at, size_t symbol, flxi_kunknown what);

/* ---- Tokens and names ---- */

void flxi_knext(flxi_kparser *p);
bool flxi_kis_mark(const flxi_kparser *p, char c);
bool flxi_ktake_mark(flxi_kparser *p, char c); /* skips it if it is there */
flx_code flxi_kneed_mark(flxi_kparser *p, char c);
bool flxi_ktake_word(flxi_kparser *p, const char *word);
bool flxi_kat_name(const flxi_kparser *p); /* a name or a string */
flx_code flxi_kread_name(flxi_kparser *p, const char *what, size_t *symbol);
flx_code flxi_kread_string(flxi_kparser *p, const char *what, const char **text); /* kept with the program */
flx_code flxi_kread_bytes(flxi_kparser *p, const char **bytes, size_t *n); /* "hex", valid until the next string */
flx_code flxi_kread_u64(flxi_kparser *p, const char *what, uint64_t most, uint64_t *out);
flx_code flxi_kread_type(flxi_kparser *p, uint32_t *type); /* one that kernels compute with */
/* One of `words` by its number, `count` if it is not one of them; skips it. */
uint32_t flxi_kread_word(flxi_kparser *p, const char *const *words, uint32_t count);
const char *flxi_ksymbol_text(const flxi_kparser *p, size_t symbol);
flxi_ksymbol *flxi_ksymbol_at(flxi_kparser *p, size_t symbol); /* NULL when memory is exhausted */
/* A buffer by its name; 0, with a note, if there is none. */
flx_code flxi_kread_buffer(flxi_kparser *p, uint32_t *buffer);
/* From here on the name denotes the variable, until the scope that began at `mark` (p->hidden.n) is closed. */
flx_code flxi_kshow_var(flxi_kparser *p, size_t symbol, uint32_t var);
void flxi_kclose_scope(flxi_kparser *p, size_t mark);
void flxi_kparser_free(flxi_kparser *p);

/* ---- kernel_parse_decl.c ---- */

/* "kernel NAME(…) {": creates the builder. */
flx_code flxi_kparse_header(flxi_kparser *p);
flx_code flxi_kparse_meta(flxi_kparser *p);
flx_code flxi_kparse_buffer(flxi_kparser *p);
/* Gives buffers without a binding the lowest free ones. */
flx_code flxi_kbind_rest(flxi_kparser *p);

/* ---- kernel_parse_expr.c ---- */

/* An expression in a context that wants type `demand`; 0: any. */
flx_code flxi_kparse_expr(flxi_kparser *p, uint32_t demand, uint32_t *out);
/* Reads an expression and keeps it as nodes … */
flx_code flxi_kparse_nodes(flxi_kparser *p);
/* … which may be the left side of a store, buf[e], … */
bool flxi_knodes_are_load(const flxi_kparser *p);
flx_code flxi_kbuild_target(flxi_kparser *p, uint32_t *buffer, uint32_t *index);
/* … or a value. */
flx_code flxi_kbuild_nodes(flxi_kparser *p, uint32_t demand, uint32_t *out);
bool flxi_kname_is_statement(const char *s, size_t n);
/* adjoint(NAME), in the adjoint of a region: the named variable. */
flx_code flxi_kread_bar(flxi_kparser *p, uint32_t *var);
/* ("extension", "hex", fingerprint, pure: returns the number of the opaque. In a statement, type 0, it may end with the
   payload. */
flx_code flxi_kread_opaque(flxi_kparser *p, uint32_t type, uint32_t *opaque);

#endif
