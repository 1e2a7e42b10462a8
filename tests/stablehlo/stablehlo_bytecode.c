/* SPDX-License-Identifier: Apache-2.0 */
/* stablehlo_bytecode.c: portable artifacts are read into the tree of their text. The programs are in
   bytecode/programs.zip (written by bytecode/make_programs.py with JAX), each as bytes and as the text that MLIR prints
   for these bytes. Damaged files give errors and take no more memory than they justify. */
#include "fault.h"
#include "format/zip.h"
#include "stablehlo/bytecode/bytecode.h"
#include "stablehlo_tree.h"

#include <fluxion/stablehlo.h>

/* ---- The programs ---- */

typedef struct {
    char *name; /* without the suffix */
    char *bytes, *text;
    size_t size, text_size;
} program;

typedef struct {
    program *at;
    size_t n;
} program_list;

static char *content_of(const flxi_zip *z, const flxi_zip_entry *e, size_t *size)
{
    flxi_source content;
    void *block = NULL;
    flx_error err = {0};
    CHECK_OK(flxi_zip_content(z, e, 0, &content, &block, &err), &err);
    *size = (size_t)content.size;
    char *copy = malloc(*size + 1);
    CHECK(copy != NULL);
    CHECK_OK(flxi_source_read(&content, 0, copy, *size, &err), &err);
    copy[*size] = 0;
    if (block)
        flxi_free(&plain_memory, block, *size, 1);
    return copy;
}

/* Entries come in pairs: NAME.mlirbc and NAME.mlir. */
static program_list load_programs(void)
{
    char path[512];
    flxi_source source;
    flxi_zip z;
    flx_error err = {0};
    program_list list = {calloc(1000, sizeof *list.at), 0};
    snprintf(path, sizeof path, "%s/tests/stablehlo/bytecode/programs.zip", test_source_dir());
    CHECK(list.at != NULL);
    CHECK_OK(flxi_source_open(&source, &plain_memory, path, 0, &err), &err);
    CHECK_OK(flxi_zip_open(&z, &plain_memory, &source, &err), &err);
    size_t at = 0;
    for (;;) {
        flxi_zip_entry bytes;
        flxi_zip_entry text;
        bool more;
        CHECK_OK(flxi_zip_next(&z, &at, &bytes, &more, &err), &err);
        if (!more)
            break;
        CHECK_OK(flxi_zip_next(&z, &at, &text, &more, &err), &err);
        CHECK(more && list.n < 1000 && bytes.name_size == text.name_size + 2);
        program *p = &list.at[list.n++];
        p->name = strndup(bytes.name, bytes.name_size - strlen(".mlirbc"));
        p->bytes = content_of(&z, &bytes, &p->size);
        p->text = content_of(&z, &text, &p->text_size);
    }
    flxi_zip_close(&z);
    flxi_source_close(&source);
    return list;
}

static void free_programs(program_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->at[i].name);
        free(list->at[i].bytes);
        free(list->at[i].text);
    }
    free(list->at);
}

static const program *find_program(const program_list *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i].name, name) == 0)
            return &list->at[i];
    CHECK_MSG(false, "programs.zip has no %s", name);
    return NULL;
}

/* ---- Trees ---- */

static char *tree_of_bytes(const char *bytes, size_t size, const char *name)
{
    hlo_module m;
    flx_error err = {0};
    char *printed = NULL;
    size_t printed_size = 0;
    flx_code code = flxi_hlo_read_bytecode(&plain_memory, bytes, size, name, &m, &err);
    CHECK_MSG(code == FLX_OK, "%s: %s", err.where, err.message);
    FILE *o = open_memstream(&printed, &printed_size);
    CHECK(o != NULL);
    tree_module(o, &m);
    CHECK(fclose(o) == 0);
    flxi_hlo_module_free(&m);
    return printed;
}

/* Removes what the two forms write in different ways: how the text writes padding, and shardings, which are notes. */
static void normalise(char *line)
{
    char *padding = strstr(line, "padding = ");
    char *end = padding ? strstr(padding, "xi64>") : NULL;
    if (end)
        memmove(padding, end, strlen(end) + 1);
    if (strstr(line, " = sdy."))
        line[strcspn(line, "{")] = 0;
}

static void expect_same_trees(const char *name, char *a, char *b)
{
    char *rest_a = a;
    char *rest_b = b;
    while (rest_a && rest_b) {
        char *line_a = strsep(&rest_a, "\n");
        char *line_b = strsep(&rest_b, "\n");
        normalise(line_a);
        normalise(line_b);
        if (strcmp(line_a, line_b) == 0)
            continue;
        EXPECT_MSG(false, "%s:\n  bytes %.600s\n  text  %.600s", name, line_a, line_b);
        return;
    }
    EXPECT_MSG(!rest_a && !rest_b, "%s: one of the trees is longer", name);
}

TEST(stablehlo_bytecode_is_the_tree_of_its_text)
{
    program_list list = load_programs();
    EXPECT_MSG(list.n >= 400, "%zu programs", list.n);
    for (size_t i = 0; i < list.n; i++) {
        char *bytes = tree_of_bytes(list.at[i].bytes, list.at[i].size, list.at[i].name);
        char *text = tree_of(list.at[i].text);
        expect_same_trees(list.at[i].name, bytes, text);
        free(bytes);
        free(text);
    }
    free_programs(&list);
}

/* ---- Graphs ---- */

static void expect_same_graphs(flx_context *ctx, const program *p)
{
    flx_error err_bytes = {0};
    flx_error err_text = {0};
    flx_buffer bytes = {0};
    flx_buffer text = {0};
    flx_module *a = flx_import_stablehlo(ctx, p->bytes, p->size, "t", &err_bytes);
    flx_module *b = flx_import_stablehlo(ctx, p->text, p->text_size, "t", &err_text);
    EXPECT_MSG(err_bytes.code == err_text.code, "%s: %s, but of the text: %s", p->name, err_bytes.message,
               err_text.message);
    if (a && b && strncmp(p->name, "rng_uniform", 11) != 0) { /* its stream is its place in the file */
        CHECK_OK(flx_module_print(a, &bytes, &err_bytes), &err_bytes);
        CHECK_OK(flx_module_print(b, &text, &err_text), &err_text);
        EXPECT_MSG(strcmp(bytes.data, text.data) == 0, "%s: the graphs differ", p->name);
    }
    flx_buffer_free(&bytes);
    flx_buffer_free(&text);
    flx_module_free(a);
    flx_module_free(b);
}

/* One program in four, others for other seeds. */
TEST(stablehlo_bytecode_is_imported_as_its_text)
{
    program_list list = load_programs();
    flx_context *ctx = flx_context_new(NULL);
    CHECK(ctx != NULL);
    for (size_t i = test_seed() % 4; i < list.n; i += 4)
        expect_same_graphs(ctx, &list.at[i]);
    flx_context_free(ctx);
    free_programs(&list);
}

/* ---- Constants and sources ---- */

static const hlo_op *find_op(const hlo_module *m, const char *name)
{
    for (const hlo_op *op = m->functions[0].body.first; op; op = op->next)
        if (strcmp(op->name, name) == 0)
            return op;
    return NULL;
}

TEST(stablehlo_bytecode_keeps_large_constants_in_the_file)
{
    program_list list = load_programs();
    const program *p = find_program(&list, "literal_large");
    hlo_module m;
    flx_error err = {0};
    CHECK_OK(flxi_hlo_read_bytecode(&plain_memory, p->bytes, p->size, "t", &m, &err), &err);
    const hlo_op *constant = find_op(&m, "stablehlo.constant");
    CHECK(constant != NULL);
    const hlo_attr *value = flxi_hlo_attr(constant, "value");
    CHECK(value->kind == HLO_A_DENSE && value->num_bytes == 48000);
    const char *bytes = value->bytes;
    CHECK(bytes > p->bytes && bytes + value->num_bytes < p->bytes + p->size);
    CHECK(m.arena.held < 20000);
    CHECK(constant->source && constant->source->file && strstr(constant->source->file, ".py"));
    flxi_hlo_module_free(&m);
    free_programs(&list);
}

/* ---- Damage ---- */

static flx_code read_damaged(const char *bytes, size_t size, size_t of)
{
    fault f = {0};
    const flxi_allocator mem = {fault_alloc, &f};
    hlo_module m;
    flx_error err = {0};
    flx_code code = flxi_hlo_read_bytecode(&mem, bytes, size, "t", &m, &err);
    if (code == FLX_OK)
        flxi_hlo_module_free(&m);
    else
        EXPECT_MSG(err.message[0] && strncmp(err.where, "t:", 2) == 0, "'%s' at '%s'", err.message, err.where);
    EXPECT_MSG(code != FLX_E_INTERNAL && f.peak_bytes < 4096 * (of + 64), "%zu bytes of memory for %zu", f.peak_bytes,
               of);
    CHECK(fault_is_clean(&f));
    return code;
}

static const char *const damaged[] = {"scan", "sort_key_value", "conv_groups", "linalg_cholesky",
                                      "convert_float8_e5m2"};
enum { num_damaged = sizeof damaged / sizeof *damaged };

TEST(stablehlo_bytecode_that_is_cut_off_is_an_error)
{
    program_list list = load_programs();
    for (size_t k = 0; k < num_damaged; k++) {
        const program *p = find_program(&list, damaged[k]);
        for (size_t n = 0; n < p->size; n++) {
            char *part = malloc(n + 1); /* of its own, so that a sanitizer sees reads past the end */
            CHECK(part != NULL);
            memcpy(part, p->bytes, n);
            EXPECT_MSG(read_damaged(part, n, p->size) != FLX_OK, "%s cut to %zu bytes is accepted", p->name, n);
            free(part);
        }
    }
    free_programs(&list);
}

TEST(stablehlo_bytecode_with_changed_bytes_does_no_harm)
{
    static const unsigned char changes[] = {0x01, 0x80, 0xff};
    program_list list = load_programs();
    for (size_t k = 0; k < num_damaged; k++) {
        const program *p = find_program(&list, damaged[k]);
        for (size_t i = 0; i < p->size; i++) {
            unsigned char *byte = (unsigned char *)&p->bytes[i];
            unsigned char before = *byte;
            *byte ^= changes[i % sizeof changes];
            read_damaged(p->bytes, p->size, p->size);
            *byte = before;
        }
    }
    free_programs(&list);
}

TEST(stablehlo_bytecode_survives_want_of_memory)
{
    program_list list = load_programs();
    const program *p = find_program(&list, "scan");
    for (size_t i = 1;; i++) {
        fault f = {.fail_at = i};
        const flxi_allocator mem = {fault_alloc, &f};
        hlo_module m;
        flx_error err = {0};
        flx_code code = flxi_hlo_read_bytecode(&mem, p->bytes, p->size, "t", &m, &err);
        if (code == FLX_OK)
            flxi_hlo_module_free(&m);
        EXPECT_MSG(code == (f.failed ? FLX_E_OOM : FLX_OK), "allocation %zu: %s", i, err.message);
        CHECK(fault_is_clean(&f));
        if (!f.failed)
            break;
    }
    free_programs(&list);
}

/* ---- Files that are refused ---- */

TEST(stablehlo_bytecode_of_other_kinds_is_refused)
{
    static const struct {
        const char *bytes;
        size_t size;
        flx_code code;
        const char *message;
    } cases[] = {
        {"ML\xefR", 4, FLX_E_SYNTAX, "the bytes of the file end too early"},
        {"ML\xefR\x09X\0", 7, FLX_E_VERSION, "MLIR bytecode of version 4; version 6 is read"},
        {"ML\xefR\x0dX\0", 7, FLX_E_SYNTAX, "section 0 is missing"},
        {"ML\xefR\x0dX\0\x09\x01", 9, FLX_E_SYNTAX, "section 9 is unknown or appears twice"},
        {"ML\xefR\x0dX\0\x01\x7f", 9, FLX_E_SYNTAX, "the bytes of a section end too early"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        flx_context *ctx = flx_context_new(NULL);
        flx_error err = {0};
        CHECK(flx_import_stablehlo(ctx, cases[i].bytes, cases[i].size, "t", &err) == NULL);
        CHECK_CODE((flx_code)err.code, cases[i].code, &err);
        CHECK_EQ_STR(err.message, cases[i].message);
        flx_context_free(ctx);
    }
}

/* A FlatBuffer whose field 13 is the program. */
TEST(stablehlo_bytecode_is_found_in_files_of_jax_export)
{
    unsigned char file[64] = {0};
    file[0] = 36;                         /* the root table */
    file[4] = 32, file[6] = 8;            /* its fields: 14 of them, the table is 8 bytes */
    file[4 + 4 + 2 * 13] = 4;             /* field 13 */
    file[36] = 32;                        /* 32 bytes before it are its fields */
    file[40] = 4;                         /* the list follows */
    file[44] = 7;                         /* of 7 bytes */
    memcpy(file + 48, "ML\xefR\x09X", 7); /* of a version that is refused */
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    CHECK(flx_import_stablehlo(ctx, (const char *)file, sizeof file, "t", &err) == NULL);
    CHECK_CODE((flx_code)err.code, FLX_E_VERSION, &err);
    file[44] = 17; /* longer than the file */
    CHECK(flx_import_stablehlo(ctx, (const char *)file, sizeof file, "t", &err) == NULL);
    CHECK_CODE((flx_code)err.code, FLX_E_SYNTAX, &err);
    for (size_t n = 0; n < sizeof file; n++)
        flxi_hlo_exported_by_jax((const char *)file, n);
    flx_context_free(ctx);
}

/* ---- Writing ---- */

/* The bytes of a text; false when it has something that has no portable form. */
static bool write_text(const flxi_allocator *mem, const char *text, flxi_strbuf *out, flx_error *err)
{
    hlo_module m;
    flxi_strbuf_init(out, mem);
    if (flxi_hlo_parse(mem, text, strlen(text), "t", &m, err) != FLX_OK)
        return false;
    flx_code code = flxi_hlo_write_bytecode(&m, out, err);
    flxi_hlo_module_free(&m);
    return code == FLX_OK;
}

TEST(stablehlo_bytecode_is_read_as_it_was_written)
{
    program_list list = load_programs();
    size_t num_written = 0;
    for (size_t i = 0; i < list.n; i++) {
        flxi_strbuf bytes;
        flx_error err = {0};
        if (write_text(&plain_memory, list.at[i].text, &bytes, &err)) {
            char *written = tree_of_bytes(bytes.at, bytes.n, list.at[i].name);
            char *text = tree_of(list.at[i].text);
            expect_same_trees(list.at[i].name, written, text);
            free(written);
            free(text);
            num_written++;
        } else {
            EXPECT_MSG(err.code == FLX_E_UNSUPPORTED && err.message[0], "%s: %s", list.at[i].name, err.message);
        }
        flxi_strbuf_free(&bytes);
    }
    EXPECT_MSG(num_written >= 300, "%zu of %zu programs were written", num_written, list.n);
    free_programs(&list);
}

TEST(stablehlo_bytecode_is_written_without_memory)
{
    static const char text[] = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
                               "  %c = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>\n"
                               "  %0 = stablehlo.add %x, %c : tensor<2xf32>\n  return %0 : tensor<2xf32>\n}\n";
    for (size_t i = 1;; i++) {
        fault f = {.fail_at = i};
        const flxi_allocator mem = {fault_alloc, &f};
        flxi_strbuf bytes;
        flx_error err = {0};
        bool is_written = write_text(&mem, text, &bytes, &err);
        flxi_strbuf_free(&bytes);
        EXPECT_MSG(is_written == (f.failed == 0), "allocation %zu: %s", i, err.message);
        EXPECT_MSG(is_written || err.code == FLX_E_OOM, "allocation %zu: %s", i, err.message);
        CHECK(fault_is_clean(&f));
        if (!f.failed)
            break;
    }
}

TEST(stablehlo_bytecode_of_a_graph_is_imported_again)
{
    static const char text[] = "graph f(x: f32[2, 3], w: f32[3, 4]) {\n  h = tanh(matmul(x, w))\n"
                               "  s = reduce_sum(h, axes=[1])\n  return s, argmax(h, axis=1)\n}\n";
    static const char without[] = "graph f(x: f32[2]) { return erf(x) }";
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_buffer bytes = {0};
    flx_module *m = flx_parse(ctx, text, strlen(text), "t", &err);
    CHECK_MSG(m != NULL, "%s", err.message);
    CHECK_OK(flx_export_stablehlo_bytecode(flx_module_main(m), &bytes, &err), &err);
    CHECK(flxi_hlo_is_bytecode(bytes.data, bytes.size));
    flx_module *back = flx_import_stablehlo(ctx, bytes.data, bytes.size, "t", &err);
    CHECK_MSG(back != NULL, "%s: %s", err.where, err.message);
    CHECK(flx_graph_output_count(flx_module_main(back)) == 2);
    flx_module *other = flx_parse(ctx, without, strlen(without), "t", &err);
    flx_buffer_free(&bytes);
    CHECK_CODE(flx_export_stablehlo_bytecode(flx_module_main(other), &bytes, &err), FLX_E_UNSUPPORTED, &err);
    CHECK(strstr(err.message, "chlo.erf"));
    flx_module_free(other);
    flx_module_free(back);
    flx_module_free(m);
    flx_context_free(ctx);
}

TEST(stablehlo_bytecode_has_names_of_arguments)
{
    static const char *const names[] = {"w", "g", "m"};
    program_list list = load_programs();
    const program *p = find_program(&list, "adam_step");
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_module *m = flx_import_stablehlo_with(ctx, p->bytes, p->size, "t", FLX_STABLEHLO_NAMES, &err);
    CHECK_MSG(m != NULL, "%s: %s", err.where, err.message);
    const flx_graph *g = flx_module_main(m);
    CHECK(flx_graph_input_count(g) == 3);
    for (size_t i = 0; i < 3; i++)
        CHECK_EQ_STR(flx_val_name(g, flx_graph_input(g, i)), names[i]);
    flx_module_free(m);
    flx_context_free(ctx);
    free_programs(&list);
}

/* ---- Composites ---- */

TEST(stablehlo_composite_of_chlo_becomes_its_operation)
{
    static const char text[] =
        "module { func.func @main(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {\n"
        "  %0:2 = stablehlo.composite \"chlo.top_k\" %x {composite_attributes = {k = 2 : i64}, decomposition = "
        "@chlo.top_k.impl, version = 1 : i32} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)\n"
        "  return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>\n}\n"
        "func.func private @chlo.top_k.impl(%x: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) }";
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_buffer printed = {0};
    flx_module *m = flx_import_stablehlo(ctx, text, strlen(text), "t", &err);
    CHECK_MSG(m != NULL, "%s: %s", err.where, err.message);
    CHECK_OK(flx_module_print(m, &printed, &err), &err);
    CHECK_MSG(strstr(printed.data, "top_k(arg0, k=2"), "%s", printed.data);
    flx_buffer_free(&printed);
    flx_module_free(m);
    flx_context_free(ctx);
}
