/* SPDX-License-Identifier: Apache-2.0 */
/* hlo_parser.h: what the files of the StableHLO parser share: the text being read, and the stacks things are gathered
   on.

   The parser reads characters, not tokens: `tensor<4x5xf32>`, `[0:4:2]` and `e8m10` would be different tokens in
   different contexts. Lists are gathered on stacks of the parser and copied to the arena of the module when they are
   complete, so that a function which fails has nothing to free. */
#ifndef FLXI_STABLEHLO_PARSER_H
#define FLXI_STABLEHLO_PARSER_H

#include "base/error.h"
#include "base/hash.h"
#include "stablehlo/syntax/syntax.h"

enum { HLO_MAX_DEPTH = 256 };     /* of types, attributes and regions within each other */
enum { HLO_MOST_ENTRIES = 4096 }; /* in a dictionary, so that looking for the same name among them stays cheap */

/* The current position of the parser; saved and restored to read something twice. */
typedef struct {
    const char *at;
    const char *line_start;
    uint32_t line;
} hlo_cursor;

/* A part of the text, such as an identifier (letters, digits, _ $ .); length 0 when none comes next. */
typedef struct {
    const char *at;
    size_t length;
} hlo_span;

/* A value that is used, and where. */
typedef struct {
    const hlo_value *value;
    hlo_location at;
} hlo_use;

/* The results that one name represents: %0:2 are two, none where the name is not visible. */
typedef struct {
    const hlo_value *const *values;
    size_t num_values;
} hlo_group;

/* A name left of the `=`, before its values exist. */
typedef struct {
    size_t name; /* number in names */
    size_t num_values;
    hlo_location at;
} hlo_target;

/* What a text represents: #name = …, !name = …, a tensor type by its text, or the data of a resource. */
typedef enum { HLO_ALIAS_ATTR, HLO_ALIAS_TYPE, HLO_ALIAS_RESOURCE, HLO_ALIAS_LOCATION } hlo_alias_kind;
typedef struct {
    hlo_alias_kind kind;
    const char *text;
    size_t length;
    const hlo_attr *attr; /* of a resource: once it was read */
    const hlo_type *type;
    hlo_cursor data; /* of a resource and of a location: where it is */
} hlo_alias;

/* An argument whose location is an alias, which may be defined later. */
typedef struct {
    hlo_value *argument;
    hlo_span alias;
} hlo_reference;

typedef struct {
    const char *end; /* of the text */
    const char *text;
    hlo_cursor c;
    const char *file;
    const flxi_allocator *mem;
    flxi_arena *arena; /* of the module */
    flx_error *err;
    int depth;

    flxi_strings names;          /* texts that stay: names of values, operations, attributes */
    FLXI_VEC(hlo_group) visible; /* by number of the name */
    FLXI_VEC(size_t) scope;      /* names to take back, innermost last */
    uint32_t num_values;         /* of the function being read */
    FLXI_VEC(hlo_alias) aliases;
    flxi_index alias_index;
    bool has_resources; /* they are among the aliases */

    FLXI_VEC(const void *) items;
    FLXI_VEC(hlo_entry) entries;
    FLXI_VEC(int64_t) ints;
    FLXI_VEC(double) reals;
    FLXI_VEC(hlo_use) uses;
    FLXI_VEC(hlo_region) regions;
    FLXI_VEC(hlo_target) targets;
    FLXI_VEC(hlo_reference) references;
    FLXI_VEC(hlo_function) functions;
    FLXI_VEC(hlo_named_mesh) meshes;
    flxi_index symbols; /* of functions, by the hash of their names */
} hlo_parser;

/* Adds to a stack of the parser; fails with OOM from the function that uses it. */
#define HLO_PUSH(p, stack, x)                       \
    do {                                            \
        if (!flxi_push((p)->mem, &(p)->stack, (x))) \
            return flxi_hlop_oom(p);                \
    } while (0)

/* Moves the part of a stack above `base` to the arena; NULL with the error set when memory is exhausted. */
void *flxi_hlop_take(hlo_parser *p, const void *items, size_t count, size_t size);
#define HLO_TAKE(p, T, stack, base, count)                    \
    (*(count) = (p)->stack.n - (base), (p)->stack.n = (base), \
     (const T *)flxi_hlop_take((p), (p)->stack.at ? (p)->stack.at + (base) : NULL, *(count), sizeof(T)))

/* ---- hlo_module.c ---- */

/* #sdy.mesh<["x"=2]> of this name; other attributes are no meshes. */
flx_code flxi_hlop_add_mesh(hlo_parser *p, hlo_location at, const hlo_attr *name, const hlo_attr *mesh);

/* A parser of no text, whose arena is that of the module. */
void flxi_hlop_init(hlo_parser *p, const flxi_allocator *mem, flxi_arena *arena, const char *file, flx_error *err);
void flxi_hlop_set_text(hlo_parser *p, const char *text, size_t length);
void flxi_hlop_free(hlo_parser *p); /* the stacks: what was parsed stays in the arena */
flx_code flxi_hlop_add_function(hlo_parser *p, const hlo_function *f);
/* The values that are returned are those the function declares. */
flx_code flxi_hlop_check_return(hlo_parser *p, const hlo_function *f);
/* What the attributes of the generic form say about a function: those above `base`. */
flx_code flxi_hlop_describe_function(hlo_parser *p, size_t base, hlo_function *f);

/* ---- hlo_lexer.c ---- */

hlo_location flxi_hlop_position(hlo_parser *p); /* of what comes next */
flx_code flxi_hlop_fail_at(hlo_parser *p, hlo_location at, flx_code code, const char *hint, const char *fmt, ...)
    FLX_PRINTF(5, 6);
flx_code flxi_hlop_oom(hlo_parser *p);
/* "expected X, found Y" here. */
flx_code flxi_hlop_expected(hlo_parser *p, const char *what);

void flxi_hlop_skip_space(hlo_parser *p);
char flxi_hlop_peek(hlo_parser *p); /* the next character, 0 at the end */
bool flxi_hlop_eat(hlo_parser *p, const char *punctuation);
bool flxi_hlop_eat_word(hlo_parser *p, const char *word);
bool flxi_hlop_at_word(hlo_parser *p, const char *word);
flx_code flxi_hlop_expect(hlo_parser *p, const char *punctuation);
flx_code flxi_hlop_expect_word(hlo_parser *p, const char *word);

hlo_span flxi_hlop_word(hlo_parser *p);
hlo_span flxi_hlop_peek_word(hlo_parser *p);
hlo_span flxi_hlop_suffix(hlo_parser *p); /* after % @ # ! ^: 12, name, a-b; no space before it */
bool flxi_hlop_is(hlo_span s, const char *text);
const char *flxi_hlop_keep(hlo_parser *p, hlo_span s); /* the text with a 0 at its end; NULL with the error set */

/* "…": as written between the quotes, and with escapes resolved; neither ends with a 0. */
flx_code flxi_hlop_raw_string(hlo_parser *p, hlo_span *out);
flx_code flxi_hlop_string(hlo_parser *p, hlo_span *out);

flx_code flxi_hlop_enter(hlo_parser *p); /* one level deeper */
void flxi_hlop_leave(hlo_parser *p);
/* Skips everything up to the bracket that closes the one just read. */
flx_code flxi_hlop_skip_balanced(hlo_parser *p, char close);
flx_code flxi_hlop_skip_location(hlo_parser *p); /* loc(…), where there is one */
/* The same; *name is that of loc("name") and loc("name"(…)), *alias that of loc(#alias); both may be absent. */
flx_code flxi_hlop_location(hlo_parser *p, const char **name, hlo_span *alias);

/* ---- hlo_type.c ---- */

flx_code flxi_hlop_type(hlo_parser *p, const hlo_type **out);
/* Comma-separated types on `items` up to `close`, which is consumed. */
flx_code flxi_hlop_types_until(hlo_parser *p, const char *close);
/* (a, b) -> c, (a) -> (b, c) */
flx_code flxi_hlop_function_type(hlo_parser *p, const hlo_type **out);
/* The type of an alias. It may be used often, also in other aliases, so its size is bounded: otherwise a short text
   could describe a type too large to compare. */
flx_code flxi_hlop_alias_type(hlo_parser *p, const hlo_type **out);
bool flxi_hlop_at_type(hlo_parser *p);
bool flxi_hlop_same_type(const hlo_type *a, const hlo_type *b);
hlo_type *flxi_hlop_new_type(hlo_parser *p, hlo_type_kind kind);
/* tensor<dims x element>; NULL with the error set. */
const hlo_type *flxi_hlop_tensor_of(hlo_parser *p, hlo_element element, int rank, const int64_t *dims);
const hlo_type *flxi_hlop_scalar_of(hlo_parser *p, hlo_element element);

/* #stablehlo.bounds<4, ?> and the older type_extensions; other encodings say nothing about values. */
flx_code flxi_hlop_encoding(hlo_parser *p, hlo_location at, const hlo_attr *a, hlo_type *t);
/* Whether the axis of quantised elements is one of the tensor. */
flx_code flxi_hlop_check_quantised(hlo_parser *p, hlo_location at, const hlo_type *t);

/* ---- hlo_attr.c ---- */

flx_code flxi_hlop_attr(hlo_parser *p, const hlo_attr **out);
/* {a = 1, b}: the entries on `entries`; the brace has been read already. */
flx_code flxi_hlop_dict_entries(hlo_parser *p, const char *close);
hlo_attr *flxi_hlop_new_attr(hlo_parser *p, hlo_attr_kind kind, hlo_location at);
flx_code flxi_hlop_add_attr(hlo_parser *p, const char *name, const hlo_attr *value);
/* [1, 2]: a list of i64 (of i1 where it holds true and false). */
flx_code flxi_hlop_int_list(hlo_parser *p, const hlo_attr **out);
flx_code flxi_hlop_int(hlo_parser *p, hlo_element element, const hlo_attr **out);
flx_code flxi_hlop_word_attr(hlo_parser *p, const hlo_attr **out);
flx_code flxi_hlop_define_alias(hlo_parser *p, char mark);
hlo_alias *flxi_hlop_find_alias(const hlo_parser *p, hlo_alias_kind kind, hlo_span name);
flx_code flxi_hlop_add_alias(hlo_parser *p, hlo_alias a);
flx_code flxi_hlop_struct(hlo_parser *p, const char *name, const hlo_attr **out); /* <a = 1, …> */
/* [b, 0, f]x[0, i, o]->[b, 0, f] */
flx_code flxi_hlop_conv_dims(hlo_parser *p, const hlo_attr **out);
/* Converts older spellings of an attribute to the current one: dense<…> of one axis into a list, strings into words. */
flx_code flxi_hlop_modernise(hlo_parser *p, hlo_entry *e);

/* dense<[0, 1]> : tensor<2xi64> became array<i64: 0, 1>. */
flx_code flxi_hlop_dense_to_list(hlo_parser *p, const hlo_attr *dense, const hlo_attr **out);

/* ---- hlo_literal.c ---- */

/* The literal of a type, stored as in hexadecimal data: *a keeps these bytes where they need no conversion. */
flx_code flxi_hlop_literal(hlo_parser *p, hlo_location at, const hlo_type *type, const unsigned char *bytes,
                           size_t num_bytes, hlo_attr *a);

flx_code flxi_hlop_dense(hlo_parser *p, hlo_location at, const hlo_attr **out);          /* after the word dense */
flx_code flxi_hlop_dense_resource(hlo_parser *p, hlo_location at, const hlo_attr **out); /* after dense_resource */

/* ---- hlo_op.c ---- */

/* An operation while it is read: where its parts begin on the stacks. */
typedef struct {
    const char *name;
    hlo_location at;
    size_t uses, entries, regions;
    const hlo_type *const *types; /* of the results */
    size_t num_types;
} hlo_draft;

flx_code flxi_hlop_use(hlo_parser *p);  /* %a or %a#1, on `uses` */
flx_code flxi_hlop_uses(hlo_parser *p); /* none or several with commas between */
/* A value, and the name it is known by from here on. */
hlo_value *flxi_hlop_new_value(hlo_parser *p, const char *name, const hlo_type *type);
flx_code flxi_hlop_define(hlo_parser *p, hlo_target target, const hlo_value *const *values);
flx_code flxi_hlop_target(hlo_parser *p, hlo_target *out); /* %name */
/* Compares the operands with the types they are declared to have. */
flx_code flxi_hlop_check_operands(hlo_parser *p, const hlo_draft *d, const hlo_type *const *types, size_t n);
/* {…}: a region. Its arguments are on `items` above `args`, unless a label names them; what became visible above
   `scope` is hidden at its end. */
flx_code flxi_hlop_region(hlo_parser *p, size_t scope, size_t args, hlo_region *out);
flx_code flxi_hlop_argument(hlo_parser *p, hlo_value **out); /* %a: type */
/* The name of an argument from its location, where there is one. */
flx_code flxi_hlop_name_argument(hlo_parser *p, hlo_value *argument);
void flxi_hlop_close_scope(hlo_parser *p, size_t base); /* hides what became visible since */
bool flxi_hlop_is_terminator(const char *name);
flx_code flxi_hlop_optional_dict(hlo_parser *p, const hlo_draft *d); /* {…} on `entries` */

/* ---- hlo_pretty.c ---- */

/* The part after the name, for operations written without quotes. */
flx_code flxi_hlop_pretty(hlo_parser *p, hlo_draft *d);

#endif
