/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c: CSV: fields, dtypes, labels, and errors with line and column. */
#include "test.h"

#include "damage.h"
#include "fault.h"

#include <fluxion/data.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static flx_dataset *decode(flx_context *ctx, const char *text, const flx_csv_options *o, flx_error *err)
{
    size_t n = strlen(text);
    char *exact = malloc(n ? n : 1);
    CHECK(exact);
    memcpy(exact, text, n);
    flx_dataset *d = flx_csv_decode(ctx, exact, n, o, err);
    free(exact);
    return d;
}

static double value(const flx_dataset *d, const char *name, int64_t row, int64_t i)
{
    flx_error err = {0};
    flx_tensor *t = flx_dataset_gather(d, name, &row, 1, &err);
    CHECK_MADE(t, &err);
    double x = flx_tensor_get(t, i);
    flx_tensor_release(t);
    return x;
}

static int32_t dtype_of(const flx_dataset *d, size_t i)
{
    return flx_dataset_type(d, i)->dtype;
}

TEST(dataset_shuffle_keeps_rows_together)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    const flx_csv_options o = {.struct_size = sizeof o, .label = "k"};
    flx_dataset *d = decode(ctx, "a,k\n0,u\n1,u\n2,u\n3,u\n4,v\n5,v\n6,v\n7,v\n", &o, &err);
    CHECK_MADE(d, &err);
    flx_dataset *mixed = flx_dataset_shuffle(d, 3, &err);
    flx_dataset *part = flx_dataset_slice(mixed, 2, 8, &err);
    CHECK_MADE(part, &err);
    CHECK(flx_dataset_use_classes(part, "k", (const char *const[]){"v", "u"}, 2, &err) == FLX_OK);
    unsigned seen = 0, moved = 0;
    for (int64_t i = 0; i < 8; i++) {
        double a = value(mixed, "a", i, 0);
        CHECK(value(mixed, "k", i, 0) == (a >= 4));
        if (i >= 2)
            CHECK(value(part, "a", i - 2, 0) == a && value(part, "k", i - 2, 0) == (a < 4));
        seen |= 1u << (unsigned)a;
        moved += a != (double)i;
    }
    CHECK(seen == 255 && moved > 0);
    flx_dataset_free(part);
    flx_dataset_free(mixed);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

TEST(csv_features_are_found_by_their_names)
{
    static const char *const order[] = {"a", "b"};
    const flx_csv_options o = {.struct_size = sizeof o, .label = "k", .features = "x", .order = order, .num_order = 2};
    static const char *const wrong[] = {"a,k\n", "a,b,c,k\n", "a,b,b,k\n"};
    static const flx_code codes[] = {FLX_E_NAME, FLX_E_SHAPE, FLX_E_DUP_NAME};
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_dataset *d = decode(ctx, "b,k,a\n2,0,1\n4,1,3\n", &o, &err);
    CHECK_MADE(d, &err);
    CHECK(value(d, "x", 0, 0) == 1 && value(d, "x", 0, 1) == 2 && value(d, "x", 1, 0) == 3 && value(d, "x", 1, 1) == 4);
    flx_dataset *part = flx_dataset_slice(d, 1, 2, &err);
    CHECK_MADE(part, &err);
    CHECK(flx_dataset_features(part) == 2 && !flx_dataset_feature(part, 2));
    CHECK_EQ_STR(flx_dataset_feature(part, 0), "a");
    CHECK_EQ_STR(flx_dataset_feature(part, 1), "b");
    flx_dataset_free(part);
    flx_dataset_free(d);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(!decode(ctx, wrong[i], &o, &err) && err.code == (int32_t)codes[i]);
    flx_context_free(ctx);
}

TEST(csv_columns_have_the_dtype_of_their_fields)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_dataset *d = decode(ctx,
                            "\xef\xbb\xbf"
                            "a,\"b \"\"x\"\"\", c ,d\r\n"
                            "1,2.5,-3, 1e3\r\n\r\n"
                            "\"4\",5,6\t,-.5\n",
                            NULL, &err);
    CHECK_MADE(d, &err);
    CHECK(flx_dataset_rows(d) == 2 && flx_dataset_columns(d) == 4);
    CHECK_EQ_STR(flx_dataset_name(d, 0), "a");
    CHECK_EQ_STR(flx_dataset_name(d, 1), "b \"x\"");
    CHECK_EQ_STR(flx_dataset_name(d, 2), "c");
    CHECK(dtype_of(d, 0) == FLX_I64 && dtype_of(d, 1) == FLX_F32 && dtype_of(d, 2) == FLX_I64 &&
          dtype_of(d, 3) == FLX_F32);
    CHECK(value(d, "a", 0, 0) == 1 && value(d, "a", 1, 0) == 4 && value(d, "b \"x\"", 0, 0) == 2.5);
    CHECK(value(d, "c", 0, 0) == -3 && value(d, "c", 1, 0) == 6);
    CHECK(value(d, "d", 0, 0) == 1000 && value(d, "d", 1, 0) == -0.5);
    flx_dataset_free(d);
    d = decode(ctx, "a,b\n", NULL, &err); /* no rows */
    CHECK(d && flx_dataset_rows(d) == 0 && flx_dataset_columns(d) == 2);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

TEST(csv_label_and_features)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_csv_options o = {.struct_size = sizeof o, .label = "kind", .features = "x", .separator = ';'};
    flx_dataset *d = decode(ctx, "a;kind;b\n1;pear;2\n3;\"apple; \"\"red\"\"\";4\n5;pear;6.5\n7;fig;8\n", &o, &err);
    CHECK_MADE(d, &err);
    CHECK(flx_dataset_rows(d) == 4 && flx_dataset_columns(d) == 2 && flx_dataset_classes(d) == 3);
    CHECK_EQ_STR(flx_dataset_class(d, 0), "apple; \"red\"");
    CHECK_EQ_STR(flx_dataset_class(d, 1), "fig");
    CHECK_EQ_STR(flx_dataset_class(d, 2), "pear");
    static const double labels[] = {2, 0, 2, 1};
    for (int64_t i = 0; i < 4; i++) {
        CHECK(value(d, "kind", i, 0) == labels[i]);
        CHECK(value(d, "x", i, 0) == (double)(2 * i + 1));
    }
    CHECK(value(d, "x", 2, 1) == 6.5 && flx_dataset_type(d, 0)->dims[1] == 2);
    flx_dataset *part = flx_dataset_slice(d, 1, 2, &err);
    CHECK(part && flx_dataset_classes(part) == 3 && value(part, "kind", 0, 0) == 0);
    flx_dataset_free(part);
    flx_dataset_free(d);
    o = (flx_csv_options){.struct_size = sizeof o, .flags = FLX_CSV_NO_HEADER, .label = "c1"};
    d = decode(ctx, "0.5,7\n1.5,-1\n", &o, &err);
    CHECK_MADE(d, &err);
    CHECK(flx_dataset_classes(d) == 0 && dtype_of(d, 1) == FLX_I32 && value(d, "c1", 1, 0) == -1);
    CHECK(value(d, "c0", 0, 0) == 0.5);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

TEST(csv_errors_have_line_and_column)
{
    static const struct {
        const char *text;
        flx_csv_options o;
        flx_code code;
        const char *message, *where;
    } rows[] = {
        {"", {0}, FLX_E_SYNTAX, "the table is empty", "1:1"},
        {"\n\r\n", {0}, FLX_E_SYNTAX, "the table is empty", "1:1"},
        {"a,,c\n", {0}, FLX_E_SYNTAX, "a column has no name", "1:3"},
        {"a,b\n1,2\n3\n", {0}, FLX_E_SYNTAX, "the line has 1 field, but the first has 2", "3:1"},
        {"a,b\n1,2,3\n", {0}, FLX_E_SYNTAX, "the line has 3 fields, but the first has 2", "2:1"},
        {"a,b\n1,\n", {0}, FLX_E_SYNTAX, "column 'b' has no value", "2:3"},
        {"a,b\n1,\"\"\n", {0}, FLX_E_SYNTAX, "column 'b' has no value", "2:3"},
        {"a,b\n1, nan\n", {0}, FLX_E_SYNTAX, "column 'b': 'nan' is not a number", "2:3"},
        {"a,b\n1,inf\n", {0}, FLX_E_SYNTAX, "column 'b': 'inf' is not a finite f32", "2:3"},
        {"a,b\n1,-inf\n", {.features = "x"}, FLX_E_SYNTAX, "column 'b': '-inf' is not a finite f32", "2:3"},
        {"a,b\n1e400,1\n", {.target = "a"}, FLX_E_SYNTAX, "column 'a': '1e400' is not a finite f32", "2:1"},
        {"a,b\n1,1\n1,-1e39\n", {0}, FLX_E_SYNTAX, "column 'b': '-1e39' is not a finite f32", "3:3"},
        {"a,b\n\n1,two\n", {0}, FLX_E_SYNTAX, "column 'b': 'two' is not a number", "3:3"},
        {"a,b\n\"1\n\",2\n", {0}, FLX_E_SYNTAX, "column 'a': '1?' is not a number", "2:1"},
        {"a,b\n1,\"2", {0}, FLX_E_SYNTAX, "a quoted field has no end", "2:3"},
        {"a,b\n1,\"2\"3\n", {0}, FLX_E_SYNTAX, "text follows the end of a quoted field", "2:6"},
        {"a,a\n1,2\n", {0}, FLX_E_DUP_NAME, "the table has two columns 'a'", ""},
        {"a,b,a\n1,2,3\n", {.features = "x"}, FLX_E_DUP_NAME, "the table has two columns 'a'", ""},
        {"a,b,\"a\"\n1,2,3\n", {.features = "x", .label = "a"}, FLX_E_DUP_NAME, "two columns 'a'", ""},
        {"a,b,a\n1,2,3\n", {.features = "x", .target = "a"}, FLX_E_DUP_NAME, "two columns 'a'", ""},
        {"a,b\n1,2\n", {.label = "c"}, FLX_E_NAME, "the table has no column 'c'", ""},
        {"a,b\n1,2\n1,2.5\n", {.label = "b"}, FLX_E_DTYPE, "the label 'b' has numbers that are not integers", ""},
        {"a,b\n1,99999999999\n", {.label = "b"}, FLX_E_SIZE, "the label 99999999999 does not fit", "2:3"},
        {"a,b\n1,2\n", {.label = "b", .features = "b"}, FLX_E_DUP_NAME, "a column 'b' already", ""},
        {"a", {.separator = '"'}, FLX_E_USAGE, "34 is not a separator", ""},
        {"a", {.separator = 300}, FLX_E_USAGE, "300 is not a separator", ""},
        {"a", {.flags = 2}, FLX_E_USAGE, "unknown flags", ""},
    };
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        flx_error err = {0};
        test_fail_context("%s", rows[i].text);
        CHECK(!decode(ctx, rows[i].text, &rows[i].o, &err));
        CHECK_MSG(err.code == rows[i].code && strstr(err.message, rows[i].message), "%s: %s", flx_code_name(err.code),
                  err.message);
        CHECK_EQ_STR(err.where, rows[i].where);
    }
    flx_error err = {0};
    CHECK(!decode(ctx, "a,b\n1,x\nnan,\n2,3\ny,1\n", NULL, &err));
    CHECK_EQ_STR(err.where, "2:3");
    CHECK_EQ_STR(err.hint, "write a number; a column with classes is given as the label; 3 more: 3:1, 3:5, 5:1");
    CHECK(!decode(ctx, "a\nnan\nnan\nnan\nnan\nnan\nnan\nnan\n1,2\n", NULL, &err));
    CHECK_EQ_STR(err.hint, "remove the line, or write a number; 6 more: 3:1, 4:1, 5:1, 6:1 ...");
    CHECK(!decode(ctx, "a,b,c\n1\n", NULL, &err));
    CHECK_EQ_STR(err.hint, "give a value for column 'b', or remove the line");
    CHECK(!decode(ctx, "a,b\n1,2,3\n", NULL, &err));
    CHECK_EQ_STR(err.hint, "quote a field that has the separator in it");
    CHECK(!decode(ctx, "a\tb\n1\t2\n", &(flx_csv_options){.label = "b"}, &err));
    CHECK_MSG(strstr(err.hint, "is the separator another one?"), "%s", err.hint);
    CHECK(!flx_csv_decode(ctx, "a\n1\0\n", 5, NULL, &err) && strstr(err.message, "byte 3 is zero"));
    CHECK(!flx_csv_decode(NULL, "a", 1, NULL, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_csv_decode(ctx, NULL, 1, NULL, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_csv_read(ctx, NULL, NULL, &err) && err.code == FLX_E_USAGE);
    CHECK(!flx_csv_read(ctx, test_missing_path("a.csv"), NULL, &err) && err.code == FLX_E_IO);
    CHECK_EQ_STR(err.where, test_missing_path("a.csv"));
    flx_context_free(ctx);
}

TEST(csv_file_errors_name_the_file)
{
    char path[700], where[720];
    snprintf(path, sizeof path, "%s/table.csv", test_temp_dir());
    FILE *f = fopen(path, "w");
    CHECK(f);
    fputs("a,b\n1,2\n3,x\n", f);
    fclose(f);
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    CHECK(!flx_csv_read(ctx, path, NULL, &err));
    snprintf(where, sizeof where, "%s:3:3", path);
    CHECK_EQ_STR(err.where, where);
    CHECK(!flx_csv_read(ctx, path, NULL, NULL));
    flx_csv_options o = {.struct_size = sizeof o, .label = "b"};
    flx_dataset *d = flx_csv_read(ctx, path, &o, &err);
    CHECK_MADE(d, &err);
    CHECK(flx_dataset_classes(d) == 2);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

TEST(csv_target_is_a_column_of_floats)
{
    static const char text[] = "a,price,b\n1,10,2\n3,20,4\n";
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_csv_options o = {.struct_size = sizeof o, .features = "x", .target = "price"};
    flx_dataset *d = flx_csv_decode(ctx, text, sizeof text - 1, &o, &err);
    CHECK_MADE(d, &err);
    CHECK(flx_dataset_columns(d) == 2 && flx_dataset_classes(d) == 0);
    CHECK_EQ_STR(flx_dataset_name(d, 1), "price");
    CHECK(flx_dataset_type(d, 1)->dtype == FLX_F32 && flx_dataset_type(d, 0)->dims[1] == 2);
    flx_tensor *price = flx_dataset_gather(d, "price", (const int64_t[]){1, 0}, 2, &err);
    flx_tensor *x = flx_dataset_gather(d, "x", (const int64_t[]){1}, 1, &err);
    CHECK(flx_tensor_get(price, 0) == 20 && flx_tensor_get(price, 1) == 10);
    CHECK(flx_tensor_get(x, 0) == 3 && flx_tensor_get(x, 1) == 4);
    flx_tensor_release(x);
    flx_tensor_release(price);
    flx_dataset_free(d);
    o.target = "cost";
    CHECK(!flx_csv_decode(ctx, text, sizeof text - 1, &o, &err) && err.code == FLX_E_NAME);
    o.target = o.label = "price";
    CHECK(!flx_csv_decode(ctx, text, sizeof text - 1, &o, &err) && err.code == FLX_E_USAGE);
    flx_context_free(ctx);
}

/* A table without the class `b` numbers c as 1; the data that it belongs to as 2. */
TEST(dataset_classes_are_numbered_as_in_a_list)
{
    static const char text[] = "k,v\nc,1\na,2\nc,3\n";
    static const char *const known[] = {"a", "b", "c"};
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    const flx_csv_options o = {.struct_size = sizeof o, .label = "k"};
    flx_dataset *d = flx_csv_decode(ctx, text, sizeof text - 1, &o, &err);
    CHECK_MADE(d, &err);
    CHECK(flx_dataset_use_classes(d, "k", known, 2, &err) == FLX_E_NAME); /* without c */
    CHECK(strstr(err.message, "'c'") != NULL && flx_dataset_classes(d) == 2);
    CHECK(flx_dataset_use_classes(d, "none", known, 3, &err) == FLX_E_NAME);
    CHECK(flx_dataset_use_classes(d, "v", known, 3, &err) == FLX_E_DTYPE);
    flx_dataset *part = flx_dataset_slice(d, 1, 3, &err);
    CHECK_OK(flx_dataset_use_classes(d, "k", known, 3, &err), &err);
    CHECK_OK(flx_dataset_use_classes(part, "k", known, 3, &err), &err);
    CHECK(flx_dataset_classes(d) == 3);
    CHECK_EQ_STR(flx_dataset_class(d, 1), "b");
    flx_tensor *all = flx_dataset_gather(d, "k", (const int64_t[]){0, 1, 2}, 3, &err);
    flx_tensor *two = flx_dataset_gather(part, "k", (const int64_t[]){0, 1}, 2, &err);
    CHECK(flx_tensor_get(all, 0) == 2 && flx_tensor_get(all, 1) == 0 && flx_tensor_get(all, 2) == 2);
    CHECK(flx_tensor_get(two, 0) == 0 && flx_tensor_get(two, 1) == 2);
    flx_tensor_release(two);
    flx_tensor_release(all);
    flx_dataset_free(part);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

/* For damage.h: the labels of a table. */
static flx_tensor *decode_labels(flx_context *ctx, const void *bytes, size_t size, flx_error *err)
{
    const flx_csv_options o = {.struct_size = sizeof o, .label = "k", .features = "x"};
    flx_dataset *d = flx_csv_decode(ctx, bytes, size, &o, err);
    flx_tensor *t = d ? flx_dataset_gather(d, "k", NULL, 0, err) : NULL;
    flx_dataset_free(d);
    return t;
}

TEST(csv_survives_failing_allocations)
{
    static const char text[] = "a,k,b\n1,x,2\n3,\"y\"\"\",4\n5,x,6\n";
    damage_allocations(decode_labels, text, sizeof text - 1);
}

/* Random bytes from the alphabet of tables: no crash, and all is freed. */
TEST(csv_withstands_random_text)
{
    static const char alphabet[] = "a1,\"\n\r .-e;k";
    uint64_t state = test_seed();
    int accepted = 0;
    for (int round = 0; round < 3000; round++) {
        char text[40] = "a,k\n";
        size_t n = 4 + test_random(&state) % 30;
        for (size_t i = test_random(&state) % 5; i < n; i++)
            text[i] = alphabet[test_random(&state) % (sizeof alphabet - 1)];
        fault f = {0};
        flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
        char *exact = malloc(n);
        CHECK(exact);
        memcpy(exact, text, n);
        flx_error err = {0};
        const flx_csv_options o = {.struct_size = sizeof o, .label = round % 2 ? "k" : NULL};
        flx_dataset *d = flx_csv_decode(ctx, exact, n, &o, &err);
        CHECK(d || (err.code != FLX_OK && err.code != FLX_E_INTERNAL && err.message[0]));
        accepted += d != NULL;
        flx_dataset_free(d);
        free(exact);
        flx_context_free(ctx);
        CHECK(fault_is_clean(&f));
    }
    CHECK_MSG(accepted > 50, "%d accepted", accepted);
}
