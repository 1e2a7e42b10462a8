/* SPDX-License-Identifier: Apache-2.0 */
/* card_way.h: what the devices for cards share: ways to compute nodes by kernels whose text is written once, in a
   dialect that CUDA C and OpenCL C both spell (card_dialect.c), and the functions of a device that such a way needs to
   launch them. */
#ifndef FLXI_CARD_WAY_H
#define FLXI_CARD_WAY_H

#include "backend/backend.h"
#include "base/strbuf.h"

/* ---- Texts ---- */

typedef enum { FLXI_CARD_CUDA, FLXI_CARD_OPENCL } flxi_card_language;

/* A text for each of some variants, compiled when it is first used and kept by the device. */
typedef struct {
    void (*write)(flxi_card_language language, int32_t variant, flxi_strbuf *out);
    int32_t num_variants;
} flxi_card_text;

/* The beginning of a text in the dialect. */
void flxi_card_add_dialect(flxi_card_language language, flxi_strbuf *out);
/* The text once for each of the first sizes of an element from 1 to 16 bytes, with W for a word of that size and
   NAMED(x) for x_1, x_2, x_4, x_8, x_16. */
void flxi_card_add_for_words(const char *text, int sizes, flxi_strbuf *out);
/* Which of these names belongs to elements of that many bytes. */
int flxi_card_word(uint32_t size);

extern const flxi_card_text flxi_card_running_text, flxi_card_sort_text, flxi_card_keys_text, flxi_card_window_text,
    flxi_card_combine_text, flxi_card_group_keys_text, flxi_card_grouped_text, flxi_card_fourier_text,
    flxi_card_along_text, flxi_card_index_text, flxi_card_sum_text, flxi_card_product_text, flxi_card_conv_text;

/* ---- Launching ---- */

/* How an argument is passed: its bytes; an address of the device's memory; a structure that the text calls FORM, of
   which a kernel has at most one. */
typedef enum { FLXI_BY_VALUE, FLXI_BY_ADDRESS, FLXI_BY_FORM } flxi_card_passing;

typedef struct {
    const void *at; /* of the value, of the variable with the address, of the structure */
    size_t size;
    flxi_card_passing by;
} flxi_card_argument;

/* clang-format off */
#define FLXI_VALUE(x) {&(x), sizeof(x), FLXI_BY_VALUE}
#define FLXI_ADDRESS(x) {&(x), sizeof(void *), FLXI_BY_ADDRESS}
#define FLXI_FORM(x) {&(x), sizeof(x), FLXI_BY_FORM}
/* clang-format on */

enum { FLXI_CARD_MOST_ARGUMENTS = 16 };

typedef struct {
    const flxi_card_text *text;
    int32_t variant;
    const char *name; /* of the kernel */
    uint64_t blocks;  /* workgroups along one axis; for none of them nothing is done */
    uint32_t wide, high;
    const flxi_card_argument *arguments;
    uint32_t num_arguments;
} flxi_card_launch;

/* Threads of a workgroup that sorts: the dialect knows it as SORTERS. */
static inline uint32_t flxi_card_sorters(flxi_card_language language)
{
    return language == FLXI_CARD_CUDA ? 512 : 256;
}

/* A launch of a program's kernel. */
typedef struct {
    void *const *data;     /* by buffer - 1; of those that have memory */
    const uint32_t *count; /* likewise, elements; NULL: as the kernel declares */
    uint32_t grid[3], lanes;
    void *status, *arrivals; /* memory of the device, for kernels that need them */
} flxi_card_dispatch;

typedef struct flxi_card_kernel flxi_card_kernel; /* card_program.h */

/* Where a run launches; devices put what is their own after it. */
typedef struct flxi_launcher flxi_launcher;
struct flxi_launcher {
    flxi_card_language language;
    uint32_t most_threads; /* of a workgroup */
    void *finding;         /* address of a flxi_card_finding, where kernels can write */
    flx_code (*launch)(const flxi_launcher *on, const flxi_card_launch *l, flx_error *err);
    flx_code (*run)(const flxi_launcher *on, const flxi_card_kernel *k, const flxi_card_dispatch *d, flx_error *err);
    flx_code (*copy)(const flxi_launcher *on, void *to, const void *from, size_t nbytes, flx_error *err);
    /* To the host, when all steps before have ended. */
    flx_code (*fetch)(const flxi_launcher *on, void *to, const void *from, size_t nbytes, flx_error *err);
    flx_code (*clear)(const flxi_launcher *on, void *to, size_t nbytes, flx_error *err);
};

/* A launch of that many threads, 256 in each workgroup. */
flx_code flxi_card_launch_line(const flxi_launcher *on, const flxi_card_text *text, int32_t variant, const char *name,
                               uint64_t threads, const flxi_card_argument *arguments, uint32_t num_arguments,
                               flx_error *err);
#define FLXI_CARD_COUNT(arguments) ((uint32_t)(sizeof(arguments) / sizeof *(arguments)))

/* ---- Findings ---- */

/* What a step found on the card. It stays until no run is active, so that every run that it may belong to fails. The
   dialect knows this layout. */
typedef struct {
    uint32_t is_set;
    uint32_t component;
    int64_t value, extent;        /* an index, and the extent of its axis; of a component of a start, its window */
    const flxi_device_node *node; /* that has it */
    uint32_t status;              /* FLX_RUN_… of fluxion/run.h */
} flxi_card_finding;

/* As the error of the definition. */
flx_code flxi_card_fail(const flxi_card_finding *t, flx_error *err);

/* ---- Ways ---- */

typedef struct {
    const char *name;                                          /* for reports */
    const char *(*refuse)(const flxi_device_node *n);          /* NULL, or why the card does not compute the node */
    size_t table_bytes;                                        /* of what prepare() fills in */
    size_t (*prepare)(const flxi_device_node *n, void *table); /* gives the bytes of scratch */
    flx_code (*run)(const flxi_launcher *on, const flxi_node_step *s, flx_error *err);
    bool needs_f64;   /* whatever the dtypes are */
    bool is_in_place; /* result 0 may be in the memory of operand 0 */
} flxi_card_way;

enum { FLXI_CARD_MOST_TABLE = 2048 }; /* bytes */

extern const flxi_card_way flxi_card_words, flxi_card_sums, flxi_card_running, flxi_card_sorting, flxi_card_windows,
    flxi_card_scatter, flxi_card_fourier, flxi_card_grouped, flxi_card_along;

/* A device's table of ways: rows of one, in which the first for an op counts. */
typedef struct {
    flxi_opcode op;
    const flxi_card_way *way;
} flxi_card_row;

const flxi_card_way *flxi_card_way_of(const flxi_card_row *rows, size_t n, flxi_opcode op);
bool flxi_card_route(const flxi_card_row *rows, size_t n, size_t i, const char **op, const char **name);
/* accept_node() and prepare_node() of a device; `lacks`: what the way needs and this device has not, or NULL. */
void flxi_card_accept(const flxi_card_way *w, const char *lacks, const flxi_device_node *n, flxi_node_way *way);
flx_code flxi_card_prepare(const flxi_device_node *n, const flxi_node_way *way, void *table, const flxi_allocator *mem,
                           flx_error *err);

#endif
