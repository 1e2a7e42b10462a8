/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_text.h: a file of kernel text under construction: targets, templates and the functions that it needs.

   Everything that differs between C, CUDA C and OpenCL C is in a flxi_ktarget: the spelling of types, ops, pointers and
   threads. What they share is in kernel_text.c. Spellings are templates; a template that begins with '{' is the body of
   a function, which is written into the file once for each type it is used with. So a file contains exactly the
   functions that its kernels call, and several kernels can share one file.

   No text of a program ever enters a file: names are made from numbers, so quotes, newlines or code in the name of a
   buffer cannot get in. The texts of a registered extension do: they are the host's own code. */
#ifndef FLXI_KERNEL_TEXT_H
#define FLXI_KERNEL_TEXT_H

#include "base/strbuf.h"
#include "kernel/program/kernel_scalar.h"

/* ---- Targets ---- */

/* How an op is written, by the kind of its operands; NULL: as in the shared table. */
typedef struct {
    const char *of_bool, *of_unsigned, *of_signed, *of_float;
    const char *of_word; /* of u32 and u64, where C defines the op; NULL: as other unsigned types */
    bool is_exact;       /* a 16-bit float's result needs no rounding */
} flxi_kspelling;

/* A function of the file: its whole text. A name that ends in '*' matches all names with this prefix. `by` says what
   its name includes: the operand's type, the result's … */
typedef struct {
    const char *name;
    unsigned by; /* KBY_… */
    const char *text;
} flxi_khelper;

enum { KBY_TYPE = 1, KBY_RESULT = 2, KBY_SPACE = 4 };

/* Address spaces. */
typedef enum { KADDRESS_STORAGE, KADDRESS_WORKGROUP, KADDRESS_PRIVATE, KADDRESS_COUNT } flxi_kaddress;

typedef struct flxi_kwriter flxi_kwriter;

/* Targets whose invocations are threads, for kernel_threads.c. */
typedef struct {
    const char *kernel;                   /* before the name; takes the workgroup's size */
    const char *place_parameter;          /* the first one: which invocation of which workgroup it is; or NULL */
    const char *restricts;                /* of a pointer */
    const char *shared;                   /* of a workgroup's array */
    size_t most_shared;                   /* bytes of all; more are one array, of which the launch gives the size … */
    const char *dynamic;                  /* … and this declares it; NULL: there is no such limit */
    const char *ids[FLX_KERNEL_ID_COUNT]; /* before the axis … */
    const char *axes, *id_end;            /* … and the names of the axes, and the text after them */
    const char *lanes_parameter;          /* the width of subgroups, or NULL */
    const char *declare_lanes[4]; /* lines, until NULL: lane, lanes, arguments of subgroup ops; from l and size */
    const char *lanes_memory;     /* an array of `size` elements for subgroup ops, or NULL */
} flxi_kthreads;

typedef struct {
    const char *name;
    size_t spelling;                                 /* of extensions: offset in flx_kernel_extension */
    uint32_t abilities;                              /* FLX_KERNEL_HAS_… */
    uint64_t max_workgroup_bytes, max_private_bytes; /* 0: the usual limits */
    bool is_serial;      /* a function runs whole workgroups; invocations are loops in the text */
    bool has_words;      /* 4-bit elements are accessed in words of 32 bits, not in bytes */
    const char *heading; /* first lines of a file; the next two follow where f64, or atomics of 64 bits, are used */
    const char *heading_f64, *heading_wide_atomics;
    const char *function;                /* qualifiers of a function of the file */
    const char *space[KADDRESS_COUNT];   /* qualifiers of what a pointer points to */
    const char *suffix[KADDRESS_COUNT];  /* in the names of functions that take such a pointer; "" where one fits all */
    const char *u64_suffix, *i64_suffix; /* of literals */
    const char *f32_suffix;              /* of mathematical functions */
    const char *atomic32, *atomic64;     /* prefixes of atomic functions */
    const flxi_kspelling *unaries, *binaries; /* by op; NULL: none differ */
    const flxi_kspelling *strict;             /* binaries by op, unless contraction is permitted; or NULL */
    const char *fma;
    unsigned native_atomics, native_float_atomics; /* bit o: op o is the helper fetch_…, else atomic_… */
    const char *barrier;                           /* the statement */
    const char *subgroup_arguments; /* that come first in calls of subgroup_add …; serial targets have none */
    const flxi_kthreads *threads;   /* NULL: serial */
    void (*write)(flxi_kwriter *w); /* writes the kernel's function around its statements */
    const flxi_khelper *helpers;    /* ends with a row of zeros; come before the shared ones */
} flxi_ktarget;

extern const flxi_ktarget flxi_target_c, flxi_target_cuda, flxi_target_opencl;

/* The same as CUDA, but a kernel is a function of the file that computes one invocation, whose place is its first
   argument, a k_place: for texts that call kernels in a loop of their own. Such kernels have no barriers and no memory
   of the workgroup, and their subgroups are warps of the caller. */
extern const flxi_ktarget flxi_target_cuda_part;

const flxi_ktarget *flxi_ktarget_find(const char *name); /* NULL if there is none */

/* ---- A file under construction ---- */

typedef struct flxi_vector_options flxi_vector_options;     /* vector_emit.h */
typedef struct flxi_kvector_spelling flxi_kvector_spelling; /* below */

/* A dispatch that is known when the text is written. Its kernel is a static function of its buffers, which runs all
   workgroups in order, does not ask whether to stop, and relies on <math.h>. */
typedef struct {
    const char *name;      /* of the function */
    const uint32_t *count; /* elements of the buffers whose length the kernel does not say, by buffer - 1; or NULL */
    uint32_t grid[3], lanes;
    bool is_cut;     /* the function runs the units [begin, end), its last arguments, of flxi_kentry.units */
    bool is_for_any; /* its text must not depend on what a count leaves after vectors */
} flxi_kplain;

typedef struct {
    const flxi_ktarget *target;
    const flxi_allocator *mem;
    flxi_arena arena;
    flxi_strings written; /* names of the functions that are in `functions` */
    flxi_strbuf functions, kernels;
    uint32_t num_kernels;
    uint32_t flags;                               /* of the current kernel: FLX_KERNEL_CONTRACT … */
    const flxi_vector_options *vector;            /* how to vectorise it; NULL: not at all */
    const char *vector_reason;                    /* why the last kernel was not vectorised */
    const flxi_kvector_spelling *vector_spelling; /* of functions on vectors; NULL in a file without vectors */
    unsigned vector_bytes;                        /* of a vector; the same for all kernels of a file */
    bool uses_f64, uses_wide_atomics;
    bool may_alias;           /* set by the caller: buffers may share memory, element by element */
    const flxi_kplain *plain; /* set by the caller: C alone: the kernel is a function for one dispatch; or NULL */
    const char *before_loop;  /* likewise: a line for the compiler before each loop, or NULL */
    bool aligns;              /* likewise: buffers of whole multiples of 16 bytes begin at such addresses (CUDA) */
    bool writes_first;        /* likewise: memory of a workgroup is written before it is read, so it is not zeroed */
    bool failed;              /* memory is exhausted, or a template is wrong */
} flxi_kfile;

void flxi_kfile_init(flxi_kfile *f, const flxi_ktarget *target, const flxi_allocator *mem);
void flxi_kfile_free(flxi_kfile *f);
/* The whole text: heading, functions, kernels. */
flx_code flxi_kfile_text(flxi_kfile *f, flxi_strbuf *out, flx_error *err);

/* ---- Templates ----

   $a $b $c   operands                      $T $R   types of operand and result
   $U $S $X   of the operand's width (as it is held): unsigned, signed, what arithmetic is done in without a sign
   $f $g      "f" for f32; "" or "d" for f64     $w $m   its bits, and one less
   $L $M      least and largest integer of the result's type; $l $h: these as floats of the operand's type, $h one more
   $E $Q      type of an element in memory, qualifiers of the pointer
   $D $V $C   element i of b as a value, likewise not to be read twice, and v as an element in memory
   $K         4-bit elements in one unit of memory
   $N         the new value of an atomic, of `old` and `v`    $o      its op     $p      how its function begins
   $Z         the neutral element of addition
   $F $n      qualifiers and name of the function being defined
   @name      a function of the file, for the same types; @name:f32 for another one (or :U :X :R)
   %1name     a function of the C library of that many doubles

   In functions on vectors, where @name is also a function on vectors:
   $v $q      vectors of the operand's type and of the result's       $B      masks of the kernel
   $i $u      of the operand's width: signed, unsigned                $e      elements as stored in memory
   $G $H      values of the elements r, elements of the values a      $k      lanes in a vector
   $A $I $J   a, a, … and 0, 1, … and 0, 2, … for all lanes          $j      integers as wide as elements
   $t $d      vectors of half as many lanes: f32, f64                 @/name  a function on these */
typedef struct {
    const char *x[3];
    uint32_t type, result;
    flxi_kaddress space;
    uint8_t atomic;
    unsigned lanes;   /* of a vector; 0: one value */
    const char *name; /* of the function being defined */
} flxi_ksubject;

/* How functions on vectors are written: the table of the vector writer, which sets it in its files. */
struct flxi_kvector_spelling {
    const char *function; /* qualifiers of a function */
    /* The row of a function for the subject's type; NULL: it is an op, or does not exist. */
    const flxi_khelper *(*find)(const char *name, const flxi_ksubject *s);
    /* Writes an op that has no row as a function. */
    void (*define)(flxi_kfile *f, flxi_strbuf *out, const char *name, flxi_ksubject *s);
    /* Codes of templates for vectors. */
    void (*expand)(flxi_kfile *f, flxi_strbuf *out, char code, const flxi_ksubject *s);
};

void flxi_kfile_expand(flxi_kfile *f, flxi_strbuf *out, const char *text, const flxi_ksubject *s);
/* Writes the name of a function into `out` and makes sure that the file contains it. */
void flxi_kfile_name(flxi_kfile *f, flxi_strbuf *out, const char *name, const flxi_ksubject *s);

/* The name of a type in the file: "k_f32"; in memory: "k_u16" for f16. */
const char *flxi_ktext_type(uint32_t type);
const char *flxi_ktext_element(const flxi_ktarget *t, uint32_t element);
/* Writes the literal with these bits. */
void flxi_ktext_literal(flxi_kfile *f, flxi_strbuf *out, uint32_t type, uint64_t bits);

/* ---- Ops on texts ---- */

void flxi_ktext_unary(flxi_kfile *f, flxi_strbuf *out, flxi_kunary op, uint32_t type, const char *x);
void flxi_ktext_binary(flxi_kfile *f, flxi_strbuf *out, flxi_kbinary op, uint32_t type, const char *x, const char *y);
void flxi_ktext_fma(flxi_kfile *f, flxi_strbuf *out, uint32_t type, const char *const x[3]);
void flxi_ktext_cast(flxi_kfile *f, flxi_strbuf *out, uint32_t to, uint32_t from, const char *x);
void flxi_ktext_bitcast(flxi_kfile *f, flxi_strbuf *out, uint32_t to, uint32_t from, const char *x);

#endif
