/* SPDX-License-Identifier: Apache-2.0 */
/* standalone.h: a program as one C file that needs nothing but a C compiler.

   A graph is compiled to a program of steps as for any device (compile/program.h), for a device that only writes text
   (standalone_device.c). Then every routine becomes a C function (write_routine.c) that calls a static function for
   each of its steps: a kernel, by the writer of kernels (src/emit), or a part (parts.def), which writes loops for one
   node with its extents as literals. Equal functions are written once. Everything that the functions work in is the
   arena that the plan of memory laid out, so that the file allocates nothing.

   Files: build_c.c         the public function: which functions a file has, and its text as a whole
          write_interface.c the struct of a model, its header, init, and the functions of the user
          write_routine.c   routines: steps in order; write_control.c: loops, branches and calls
          write_dispatch.c  kernels of the user;  write_threads.c: steps by several threads
          write_kernel.c    kernels in plain C;  write_data.c: constants;  write_loader.c: parameters of a file
          borrow.c          functions of src/numeric as text;  write_equations.c: comments
          tidy/             texts as one would write them by hand
          parts/            parts by family, with the table parts.def; tiles/: those of targets with vectors */
#ifndef FLXI_STANDALONE_H
#define FLXI_STANDALONE_H

#include "compile/program.h"
#include "emit/kernel_text.h"
#include "standalone/borrow.h"

#include <fluxion/build.h>

/* Not in the table of devices: nothing can run there. */
extern const flxi_device flxi_device_standalone, flxi_device_standalone_vectors;
/* The same for files with threads: each has scratch memory of its own. */
extern const flxi_device flxi_device_standalone_threads, flxi_device_standalone_vectors_threads;

/* ---- A file under construction ---- */

/* A static function, known by its text without its name. */
typedef struct {
    uint64_t hash;
    const char *text; /* NAME_ is where its name goes */
    const char *name;
} flxi_sa_static;

typedef struct {
    uint64_t hash;
    const void *data;
    size_t nbytes;
    uint32_t storage; /* the type of its elements */
    const char *name;
} flxi_sa_constant;

/* A size, and the room that it has in an arena that is planned for all extents (symbolic_plan.c). */
typedef struct {
    size_t bytes, padded;
    bool is_body; /* the arenas of a step's bodies, by the largest of them for this sample */
} flxi_sa_pad;

/* A table that init makes, before the arena: equal keys of a part are the same table. */
typedef struct {
    int64_t key[3];
    size_t bytes; /* 0: the node needs none */
    size_t at;    /* from the beginning of all tables */
    const struct flxi_sa_part *part;
    const flxi_device_node *n; /* a node that reads it */
} flxi_sa_table;

struct flxi_sa_file {
    flx_context *ctx;
    const flxi_allocator *mem;
    flxi_arena arena;
    const char *prefix; /* of the names that others see */
    flxi_kfile kernels; /* has the functions that kernels and parts call */
    flxi_strbuf data;   /* constants */
    flxi_strbuf code;   /* static functions, each before those that call it */
    flxi_strbuf entries;
    flxi_strings names; /* of static functions and constants */
    FLXI_VEC(flxi_sa_static) statics;
    FLXI_VEC(flxi_sa_constant) constants;
    unsigned vector_bytes;           /* of the target; 0: no vectors */
    bool fuses;                      /* the target has fused multiply-adds */
    int32_t threads;                 /* a flx_build_threads */
    bool shares;                     /* some step is computed by several threads */
    struct flxi_sa_library *library; /* borrow.c; NULL: nothing is borrowed yet */
    const char *const *symbols;      /* names of extents that are arguments */
    size_t num_symbols;
    FLXI_VEC(flxi_sa_pad) pads;
    FLXI_VEC(flxi_sa_table) tables; /* that init makes */
    size_t table_bytes;             /* of the memory, before the arena */
    size_t constant_bytes;
    bool failed; /* memory is exhausted */
};

void flxi_sa_file_init(flxi_sa_file *f, flx_context *ctx);
void flxi_sa_file_free(flxi_sa_file *f);
void flxi_sa_library_free(flxi_sa_file *f);
/* The room of that many bytes in an arena; of the bodies of a step, whose largest arena has that many bytes. */
size_t flxi_sa_padded(const flxi_sa_file *f, size_t bytes);
size_t flxi_sa_body_room(const flxi_sa_file *f, size_t bytes);

/* Text in the file's arena; "" and f->failed when memory is exhausted. */
const char *flxi_sa_text(flxi_sa_file *f, const char *fmt, ...) FLX_PRINTF(2, 3);
/* A name of the file that nothing has yet: this one as a C identifier after the prefix, perhaps with a number. */
const char *flxi_sa_name(flxi_sa_file *f, const char *wanted);
/* The name of the static function with this text, where NAME_ is its placeholder. A function that is new is added to
   the code as it is `shown`, under a name made from `wanted`, after a comment. */
const char *flxi_sa_static_of(flxi_sa_file *f, const flxi_strbuf *text, const flxi_strbuf *shown, const char *wanted,
                              const char *comment);

/* ---- Names and types ---- */

const char *flxi_sa_capitals(flxi_sa_file *f); /* the prefix in capitals */

/* The C type of elements in memory: of complex numbers, that of their parts. */
const char *flxi_sa_type(int32_t dtype);
/* A C identifier close to the name. */
const char *flxi_sa_identifier(flxi_sa_file *f, const char *name);
/* Whether the name is a word of C or C++, or is that of a function, type or macro of the C library. */
bool flxi_sa_is_reserved(const char *name);
/* Rewrites identifiers: `rename` gives the new one, or NULL to keep it. Numbers and comments are left alone. */
typedef const char *(*flxi_sa_rename)(const void *user, const char *name, size_t n);
void flxi_sa_rewrite(flxi_strbuf *out, const char *text, size_t n, flxi_sa_rename rename, const void *user);
/* Removes lines that only compute a constant that nothing uses: compilers complain about them. */
void flxi_sa_drop_unused(flxi_sa_file *f, flxi_strbuf *text);
/* Makes the text of a kernel plainer (tidy/tidy.h); of a part, its indices alone. */
void flxi_sa_tidy(flxi_sa_file *f, flxi_strbuf *text);
void flxi_sa_tidy_part(flxi_sa_file *f, flxi_strbuf *text);
/* Cuts long lines. */
void flxi_sa_wrap(flxi_strbuf *text);
/* Adds functions in one line with a line for each statement. */
void flxi_sa_spread(const flxi_strbuf *text, flxi_strbuf *out);
/* Adds those of the functions that the code or one that is kept calls; each is defined before its callers. */
void flxi_sa_keep_used(flxi_sa_file *f, const flxi_strbuf *functions, const flxi_strbuf *code, flxi_strbuf *out);
/* What a name of the kernel writer is in plain C; NULL: the same. */
const char *flxi_sa_word(const char *name, size_t n);
/* Whether the identifier is in the text. */
bool flxi_sa_mentions(const flxi_strbuf *text, const char *name);
/* A comment's text: without the sequence that ends one. */
void flxi_sa_add_comment(flxi_strbuf *out, const char *text);

/* ---- Constants ---- */

/* The name of the array with these elements. */
const char *flxi_sa_constant_of(flxi_sa_file *f, const void *data, const flx_type *type, const char *wanted);

/* ---- Parts: nodes that are not kernels ---- */

typedef struct {
    flxi_sa_file *f;
    const flxi_device_node *n;
    flxi_strbuf *out;
    int depth;                       /* of indentation */
    size_t body_at;                  /* in scratch: memory of the graphs that a part calls */
    int64_t units;                   /* the function computes [from, to) of that many; 0: all at once */
    struct flxi_sa_routine *routine; /* that the part is for, … */
    const flxi_step *step;           /* … and its step */
    flx_code code;                   /* of graphs that could not be written */
    const char *table; /* the address of the node's table, which the function gets as `prepared`; NULL: it has none */
} flxi_sa_writer;

/* How several threads compute a node: each some of its units, with memory of its own. Parts write `own` for the
   latter, where all offsets are as in the scratch memory of one thread. After the last unit, the range [units, units +
   1) is what is left to do by one thread. */
typedef struct {
    int64_t units;        /* less than 2: one thread computes it */
    int64_t terms;        /* multiplications, of which few are not worth threads; 0: they are worth it */
    size_t common, bytes; /* of the scratch memory: what all threads share, which comes first; with that of one */
    bool has_end;
} flxi_sa_cuts;

/* One way to compute a node. Operands are x0, x1 … in the text, results y0, y1 …, and memory of its own `scratch`. */
typedef struct flxi_sa_part {
    flxi_opcode op;
    const char *name;
    const char *(*applies)(const flxi_device_node *n); /* NULL: it does; else why not */
    size_t (*scratch)(const flxi_device_node *n);
    void (*write)(flxi_sa_writer *w);                           /* the statements of the function */
    bool can_fail;                                              /* the function returns a code: 0, or a flxi_sa_code */
    bool calls_bodies;                                          /* the graphs of the node are functions that it calls */
    bool needs_vectors;                                         /* it is for targets with vectors */
    flxi_sa_cuts (*cuts)(const flxi_device_node *n);            /* NULL: one thread computes it */
    void (*table)(const flxi_device_node *n, flxi_sa_table *t); /* sets its key and bytes; NULL: no table */
    void (*fill)(flxi_sa_writer *w);                            /* statements of init, with w->table */
} flxi_sa_part;

enum { FLXI_SA_MAX_THREADS = 8, FLXI_SA_MIN_TERMS = 1 << 20 /* that threads are worth: they sleep between steps */ };
/* The scratch memory of all threads. */
size_t flxi_sa_cuts_bytes(const flxi_sa_cuts *c);
/* How threads compute a node; units 0: one does. */
flxi_sa_cuts flxi_sa_cuts_of(const flxi_sa_part *p, const flxi_device_node *n);
/* The same in a file, where extents that are arguments decide while it runs whether threads are worth it. */
flxi_sa_cuts flxi_sa_cuts_in(const flxi_sa_file *f, const flxi_sa_part *p, const flxi_device_node *n);

/* What parts return when they fail; the header of a file has the same numbers. */
typedef enum {
    SA_BAD_INDEX = 5,
    SA_SINGULAR = 6,
    SA_CHECK_FAILED = 7,
    SA_BAD_LOGITS = 8,
    SA_TRAPPED = 9,
    SA_BAD_EXTENT = 10,
    SA_NO_THREADS = 11
} flxi_sa_code;

/* The name of a code in the file. */
const char *flxi_sa_code_of(flxi_sa_file *f, flxi_sa_code code);
/* The name of the i-th code after the prefix in capitals; NULL: there are no more. */
const char *flxi_sa_code_name(size_t i);

const flxi_sa_part *flxi_sa_part_find(const flxi_device_node *n, bool has_vectors, const char **why);

/* What a step computes: equations in lines. */
const char *flxi_sa_equations(flxi_sa_file *f, const flxi_routine *l, const flxi_step *s);

/* Whether the result may be in the memory of the first operand. */
bool flxi_sa_part_is_in_place(const flxi_sa_part *p);

/* Lines of the function. `open` ends its line with a brace, and what follows is deeper until `close`. */
void flxi_sa_line(flxi_sa_writer *w, const char *fmt, ...) FLX_PRINTF(2, 3);
void flxi_sa_open(flxi_sa_writer *w, const char *fmt, ...) FLX_PRINTF(2, 3);
void flxi_sa_close(flxi_sa_writer *w);

/* ---- Routines ---- */

/* The static function of a kernel for one dispatch. In files with threads it takes a range of its units. */
typedef struct {
    const char *name;
    bool has_scratch, can_be_shared; /* ranges may be computed at the same time */
    const char *units;               /* a number, or a product of numbers */
} flxi_sa_kernel_function;
flx_code flxi_sa_kernel(flxi_sa_file *f, const flxi_program *m, const flxi_routine *l, const flxi_step *s,
                        flxi_sa_kernel_function *out, flx_error *err);
/* The bytes of scratch that a kernel needs; is_call: a user wrote it. */
flx_code flxi_sa_kernel_scratch(const flx_kernel *k, bool is_call, const flxi_allocator *mem, size_t *bytes,
                                flx_error *err);

/* The static function of a kernel of the user. Subgroups are as wide as those of the interpreter. */
enum { FLXI_SA_SUBGROUP = 32 };
typedef struct {
    const char *name;
    bool has_scratch, has_status; /* its last arguments: the status, then scratch */
} flxi_sa_user_function;
flx_code flxi_sa_user_kernel(flxi_sa_file *f, const flxi_step *s, flxi_sa_user_function *out, flx_error *err);

/* A routine being written. */
typedef struct flxi_sa_routine {
    flxi_sa_writer w;
    const flxi_program *m;
    const flxi_routine *l;
    const char **slots;  /* the text of the address of each */
    bool *is_declared;   /* by slot: its variable exists, or it needs none */
    flxi_strings names;  /* taken in this function */
    const char **bodies; /* by number of the routine: the name of its function; NULL before it is written */
    bool *body_fails;    /* likewise: it returns a code */
    bool can_fail;       /* some statement so far returns a code */
    flx_error *err;
} flxi_sa_routine;

/* Steps of a routine. The addresses of inputs and outputs are set in r->slots; those of others are made here. */
flx_code flxi_sa_steps(flxi_sa_routine *r, uint32_t from, uint32_t to);
/* A step that runs a kernel of the user (write_dispatch.c). */
flx_code flxi_sa_dispatch(flxi_sa_routine *r, const flxi_step *s);
/* A step that runs bodies. */
flx_code flxi_sa_control(flxi_sa_routine *r, const flxi_step *s);
/* The address of the table of a step of the main routine; NULL: it has none. Tables are found before anything is
   written. */
const char *flxi_sa_table_of(const flxi_sa_routine *r, const flxi_step *s);
void flxi_sa_find_tables(flxi_sa_file *f, const flxi_routine *l);
/* How many steps a scan has. */
int64_t flxi_sa_scan_length(const flx_graph *g, const flxi_node *n);
/* The function of a body of the step. */
flx_code flxi_sa_body(flxi_sa_routine *r, const flxi_routine *body, const char **name);
/* A call: what is between is its arguments. The call of a function that fails ends this one. */
void flxi_sa_begin_call(flxi_sa_routine *r, const char *name, bool can_fail);
void flxi_sa_end_call(flxi_sa_routine *r, bool can_fail);
/* The address of an operand or result of a step, with its variable declared if need be. */
const char *flxi_sa_slot(flxi_sa_routine *r, const flxi_step *s, uint32_t k);
/* A step by several threads (write_threads.c): its function takes the operands and results, scratch memory, perhaps the
   number of the thread, and a range of units. */
typedef struct {
    const char *function;
    bool has_scratch, takes_thread, has_end;
    const char *units;
    int64_t work, least_work; /* less is left to one thread, where extents are arguments */
} flxi_sa_cut;
void flxi_sa_share_call(flxi_sa_routine *r, const flxi_step *s, const flxi_sa_cut *c);
/* What threads need in the file, in this order: types, functions of the user, headers, functions. */
void flxi_sa_threads_declare(flxi_sa_file *f, flxi_strbuf *out);
void flxi_sa_threads_declare_start(flxi_sa_file *f, flxi_strbuf *out);
void flxi_sa_threads_include(const flxi_sa_file *f, flxi_strbuf *out);
void flxi_sa_threads_define(flxi_sa_file *f, flxi_strbuf *out);
/* A name for a variable of this function. */
const char *flxi_sa_local(flxi_sa_routine *r, const char *wanted);

/* ---- Functions of the user ---- */

typedef enum { SA_RUN, SA_GRAD, SA_STEP } flxi_sa_kind;

/* A parameter or state of the model. */
typedef struct {
    const char *name, *field;
    const flx_type *type;
    const flx_tensor *value; /* to begin with; NULL: none is known */
    size_t nbytes, offset;   /* in the model's memory, where it is changed by steps */
    bool is_state;           /* begins as zero */
} flxi_sa_field;

typedef struct {
    flxi_sa_kind kind;
    flxi_program program;
    const char *name;
    size_t num_results;    /* outputs before those that are next values of fields */
    const size_t *updated; /* by such an output: the leaf */
    bool *is_in_place;     /* likewise: it is written where the leaf is */
    size_t num_updated, guard;
    size_t updates_at;  /* in the arena: where other next values go */
    size_t arena_bytes; /* what its calls need */
} flxi_sa_function;

typedef struct {
    flxi_sa_file f;
    const flx_build_options *o;
    const flx_graph *g;
    flxi_device device; /* that the functions are compiled for */
    flxi_sa_function functions[3];
    size_t num_functions;
    FLXI_VEC(flxi_sa_field) fields;
    bool trains;
    size_t fields_bytes;              /* of the memory, before the arena: what training changes, then tables */
    size_t arena_bytes, memory_bytes; /* the latter at least 16 */
    bool needs_memory;
    flx_error *err;
} flxi_sa_model;

/* Extents that are arguments: their names, and the numbers that stand for them in a graph of static types. */
typedef struct {
    const char *const *names;
    const int64_t *extents;
    size_t n;
} flxi_sa_symbols;

/* Compiles the functions of a graph of static types. Free the model in any case. */
flx_code flxi_sa_model_open(const flx_graph *g, const flx_build_options *o, const flxi_sa_symbols *symbols,
                            flxi_sa_model **out, flx_error *err);
void flxi_sa_model_free(flxi_sa_model *s); /* NULL is fine */
/* After its memory is planned: what its functions need; its sizes, with an arena of that many bytes; and its texts. */
void flxi_sa_model_measure(flxi_sa_model *s);
void flxi_sa_model_sizes(flxi_sa_model *s, size_t arena_bytes, flx_build_sizes *sizes);
flx_code flxi_sa_model_write(flxi_sa_model *s, flx_buffer *source, flx_buffer *header);
/* A graph with symbolic dimensions as one text for all extents (build_symbolic.c). */
flx_code flxi_sa_build_symbolic(const flx_graph *g, const flx_build_options *o, flx_buffer *source, flx_buffer *header,
                                flx_build_sizes *sizes, flx_error *err);

/* The parts of the file around its static functions (write_interface.c). */
flx_code flxi_sa_interface(flxi_sa_model *s, flxi_strbuf *declarations);
/* NAME_load() for parameters of a file. */
flx_code flxi_sa_loader(flxi_sa_model *s, flxi_strbuf *declarations, flxi_strbuf *out);
/* Bytes of the outputs that a function keeps to itself, after those of the program's arena. */
size_t flxi_sa_hidden_bytes(const flxi_sa_function *fn);

#endif
