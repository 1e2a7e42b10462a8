/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_writer.h: the walk over one kernel that writes its text; shared by these files:.

   kernel_emit.c       what surrounds the statements, and the public function
   kernel_statement.c  statements
   kernel_value.c      expressions
   kernel_opaque.c     extensions
   kernel_threads.c    targets whose invocations are threads: the function around the statements
   kernel_interval.c   serial targets: barriers and subgroup ops cut the text into loops over invocations
   kernel_survey.c     analysis before the first line

   Names: bN buffer, nN its length, vN variable, tN temporary, eN end of a loop, mN mask, cN async copy, fN function;
   i0 l0 w0 q0 (per axis): invocation, local and workgroup id, workgroups in the grid; lane, lanes: of the subgroup. */
#ifndef FLXI_KERNEL_WRITER_H
#define FLXI_KERNEL_WRITER_H

#include "emit/kernel_emit.h"
#include "emit/kernel_text.h"
#include "kernel/check/kernel_uniform.h"
#include "kernel/optimise/kernel_bounds.h"

/* The beginning of files for targets that are C or C++. */
#define KTYPE_NAMES                       \
    "typedef unsigned char k_u8;\n"       \
    "typedef unsigned short k_u16;\n"     \
    "typedef unsigned int k_u32;\n"       \
    "typedef unsigned long long k_u64;\n" \
    "typedef signed char k_i8;\n"         \
    "typedef short k_i16;\n"              \
    "typedef int k_i32;\n"                \
    "typedef long long k_i64;\n"          \
    "typedef float k_f32;\n"              \
    "typedef double k_f64;\n"             \
    "typedef float k_f16, k_bf16; /* values of these formats, held in f32 */\n"

/* An array with an element for each invocation of a workgroup, for values that outlive a loop over invocations. */
typedef struct {
    char prefix; /* of its name: 'v', 't', 'm' */
    uint32_t number;
    uint8_t type;
} flxi_karray;

/* Where a loop asks whether it should end: nowhere, after each iteration, after each strip of them. */
typedef enum { KPOLL_NEVER, KPOLL_EACH, KPOLL_STRIPS } flxi_kpoll;

typedef struct flxi_kvectors flxi_kvectors; /* vector_writer.h */

struct flxi_kwriter {
    flxi_kfile *file;
    flxi_kentry *entry;
    const flxi_ktarget *target;
    const flx_kernel *k;
    flx_error *err;
    flx_code code;     /* the first failure */
    flxi_strbuf out;   /* the kernel's text so far */
    flxi_strbuf piece; /* the expression being written */
    flxi_arena facts;  /* results of the survey */
    flxi_arena words;  /* texts of expressions; emptied with each statement */
    unsigned depth;    /* of indentation */

    /* The survey. */
    flxi_kfacts known;
    flxi_kranges ranges; /* known at the current point: an access that is in range needs no guard */
    flxi_kuniform uniform;
    uint8_t *talks;                   /* by expression: contains a subgroup op */
    uint8_t *is_observed;             /* by expression: the bits of its value may be observed, if any are */
    uint8_t *is_observed_var;         /* by variable */
    uint8_t *splits;                  /* by statement, in text order: it splits the loop over invocations */
    uint8_t *steers;                  /* by variable: its value determines an address */
    uint8_t *is_written;              /* by buffer: the kernel changes it */
    uint8_t *is_accessed;             /* by buffer */
    uint8_t *atomic_kind;             /* by buffer: 1 + the op of its atomics */
    uint8_t ids[FLX_KERNEL_ID_COUNT]; /* by id: bit a: axis a is used */
    uint8_t *loop_form;               /* by variable of a loop: a flxi_kpoll */
    uint32_t *loop_work;              /* by variable of a loop: of one iteration */
    FLXI_VEC(const flxi_ks *) copies; /* starts of async copies */
    bool uses_lane, uses_lanes;       /* of the subgroup: the lane's own number, the number of lanes */
    bool observes_bits;               /* of floats: then all NaNs computed for that have the same bits */
    bool has_sync;                    /* statements that split */
    bool has_traps, has_indirect, has_returns, has_grid_barrier, is_ordered;

    /* The current point of the walk. */
    size_t statement; /* the number of the next statement */
    uint32_t next_temp, next_mask, next_label, next_trap, next_indirect;
    const flxi_ks
        *decided; /* an `if` whose body always runs, or, if that returns, never: the enclosing loop guarantees it */
    bool in_function;
    bool binds;    /* loads and atomics of this statement are bound in order, because it changes memory */
    bool steering; /* the current expression determines an address */

    /* Serial targets, kernel_interval.c. */
    bool is_rehearsal;                            /* the first of two walks, which finds what outlives an interval */
    bool is_open;                                 /* inside a loop over invocations */
    bool is_splitting;                            /* in a statement with a subgroup op */
    bool label_used, end_used;                    /* a goto to the end of the interval, of the workgroup */
    bool needs_live;                              /* an invocation may have returned while others continue */
    uint32_t interval;                            /* number of the loop */
    size_t interval_at;                           /* offset in the text where it begins … */
    uint8_t seen[FLX_KERNEL_ID_COUNT], seen_lane; /* … and the ids that were used since */
    uint32_t mask;                                /* invocations that take part; 0: all */
    uint32_t *home;                               /* by variable: interval it was declared in */
    uint8_t *outlives;                            /* by variable: it is an array */
    FLXI_VEC(flxi_karray) arrays;
    const char *lane; /* index of the invocation in arrays: "l", or "0" for values that are the same for all */

    flxi_kvectors *vectors; /* the kernel is written in vectors; NULL: it is not */
};

/* ---- Lines ---- */

void flxi_kw_fail(flxi_kwriter *w, const char *code, const char *hint, const char *fmt, ...) FLX_PRINTF(4, 5);
/* One line; pieces below 512 bytes. */
void flxi_kw_line(flxi_kwriter *w, const char *fmt, ...) FLX_PRINTF(2, 3);
/* The parts of a longer one. */
void flxi_kw_begin(flxi_kwriter *w);
void flxi_kw_add(flxi_kwriter *w, const char *text);
void flxi_kw_addf(flxi_kwriter *w, const char *fmt, ...) FLX_PRINTF(2, 3);
void flxi_kw_end(flxi_kwriter *w);
void flxi_kw_open(flxi_kwriter *w);  /* "{" on the line that was begun, and deeper */
void flxi_kw_close(flxi_kwriter *w); /* "}" */
/* Writes one of the lists of an if: its else branch, or the other. */
typedef void (*flxi_kw_body_fn)(flxi_kwriter *w, const flxi_ks *s, bool in_else);
/* "if (condition) { … } else { … }" */
void flxi_kw_branches(flxi_kwriter *w, const flxi_ks *s, const char *condition, flxi_kw_body_fn write);
/* The beginning of a loop, block or region, whatever form its body has. */
void flxi_kw_open_loop(flxi_kwriter *w, const flxi_ks *s, const char *from, const char *to);
void flxi_kw_close_loop(flxi_kwriter *w, const flxi_ks *s);
void flxi_kw_open_block(flxi_kwriter *w, const flxi_ks *s);

/* ---- Survey ---- */

flx_code flxi_kw_survey(flxi_kwriter *w);

static inline flxi_kaddress flxi_kw_address(const flxi_kwriter *w, uint32_t buffer)
{
    uint8_t access = w->k->buffers[buffer].access;
    return access == FLX_KERNEL_WORKGROUP ? KADDRESS_WORKGROUP
           : access == FLX_KERNEL_PRIVATE ? KADDRESS_PRIVATE
                                          : KADDRESS_STORAGE;
}

/* ---- Values ---- */

/* The text of an expression, valid until the next statement; may first write lines that bind parts of it. */
const char *flxi_kw_value(flxi_kwriter *w, uint32_t expr);
const char *flxi_kw_root(flxi_kwriter *w, uint32_t expr);  /* if the whole is not part of more text */
const char *flxi_kw_index(flxi_kwriter *w, uint32_t expr); /* an index, which determines an address */
const char *flxi_kw_element(flxi_kwriter *w, uint32_t buffer, uint32_t index); /* an element, of an index in range */
const char *flxi_kw_effect(flxi_kwriter *w, uint32_t expr);                    /* an atomic whose result is not used */
/* The same, in arrays of the invocation or in a constant. */
const char *flxi_kw_bind(flxi_kwriter *w, uint32_t type, const char *text);
const char *flxi_kw_text(flxi_kwriter *w, const char *fmt, ...) FLX_PRINTF(2, 3); /* kept with the words */
void flxi_kw_name_var(flxi_kwriter *w, uint32_t var, char name[24]);              /* its spelling here */
const char *flxi_kw_pointer(flxi_kwriter *w, uint32_t buffer);                    /* to its first element */
const char *flxi_kw_length(flxi_kwriter *w, uint32_t buffer);                     /* its number of elements */
const char *flxi_kw_bytes(flxi_kwriter *w, uint32_t buffer);                      /* its size */

/* ---- Extensions ---- */

/* Writes an opaque part, with the texts of its operands, as its extension spells it; `type` is 0 for a statement. */
void flxi_kw_opaque(flxi_kwriter *w, flxi_strbuf *out, uint32_t opaque, uint32_t type, const char *const *args);

/* ---- Statements ---- */

void flxi_kw_list(flxi_kwriter *w, flxi_klist list);
void flxi_kw_plain(flxi_kwriter *w, const flxi_ks *s); /* one that does not split */
/* Before the body of an `if` or loop: learns what is known inside about ranges; after it, return to the mark. */
flxi_kranges_mark flxi_kw_enter(flxi_kwriter *w, const flxi_ks *s, bool in_else);

/* ---- Frames: what surrounds the statements ---- */

static inline bool flxi_kw_is_bound(const flxi_kwriter *w, uint32_t buffer)
{
    return flxi_kw_address(w, buffer) == KADDRESS_STORAGE;
}

/* Private buffers and the state of copies, as variables of the invocation. */
void flxi_kw_declare_private(flxi_kwriter *w);
/* Elements of the array that holds a workgroup or private buffer. */
uint64_t flxi_kw_array_count(const flxi_kwriter *w, uint32_t buffer);
/* Before each walk over the body: restarts the numbering. */
void flxi_kw_restart(flxi_kwriter *w);
void flxi_kw_write_threads(flxi_kwriter *w); /* the `write` of targets with threads */
/* C: workgroups along an axis, as text. */
const char *flxi_kw_grid(flxi_kwriter *w, unsigned axis);

/* The value of a variable that is never assigned. */
const flxi_kx *flxi_kw_meaning(const flxi_kwriter *w, uint32_t expr);
/* Whether a NaN that the operation gives must have the bits of all others. */
bool flxi_kw_is_canonical(const flxi_kwriter *w, const flxi_kx *e);
/* If the kernel is a frame `if (i < end)`, sets `decided` to it. */
void flxi_kw_find_end(flxi_kwriter *w, uint32_t *end);

/* ---- Vectors: vector_frame.c ---- */

bool flxi_vw_begin(flxi_kwriter *w); /* false: the kernel needs the scalar form */
void flxi_vw_comment(flxi_kwriter *w);
void flxi_vw_write(flxi_kwriter *w);
const char *flxi_vw_subgroup(flxi_kwriter *w, const flxi_kx *e); /* a subgroup op whose result is the same for all */

/* ---- Loops that can be ended early: kernel_poll.c ---- */

void flxi_kw_survey_polls(flxi_kwriter *w);
void flxi_kw_declare_ticks(flxi_kwriter *w, flxi_klist list);
void flxi_kw_poll(flxi_kwriter *w, const flxi_ks *s); /* at the end of each iteration of a loop of another form */

/* ---- Intervals ---- */

void flxi_kw_split(flxi_kwriter *w, const flxi_ks *s); /* a statement that splits */
void flxi_kw_open_interval(flxi_kwriter *w);
void flxi_kw_close_interval(flxi_kwriter *w);
/* Loops over all invocations, or the active ones: for work that the text itself does for each. */
void flxi_kw_each(flxi_kwriter *w, bool active_only);
const char *flxi_kw_active(flxi_kwriter *w, const char *lane); /* a condition, or "" for all */
uint32_t flxi_kw_array(flxi_kwriter *w, char prefix, uint32_t number, uint8_t type);
/* A subgroup op on arrays; operands and result are names of arrays. */
const char *flxi_kw_subgroup(flxi_kwriter *w, const flxi_kx *e);

#endif
