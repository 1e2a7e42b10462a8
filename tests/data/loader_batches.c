/* SPDX-License-Identifier: Apache-2.0 */
/* loader_batches.c: loaders: every row once in each epoch, the same order for the same seed, positions that are saved
   and restored, a thread that is one batch ahead, and rows that fail. */
#include "test.h"

#include "data/permutation.h"
#include "fault.h"

#include <fluxion/data.h>
#include <fluxion/stop.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS_MAX = 200 };

/* Column `id` is the number of the row, column `x` has it three times. */
static flx_dataset *numbered(flx_context *ctx, int64_t rows)
{
    flx_error err = {0};
    flx_dataset *d = flx_dataset_new(ctx, &err);
    CHECK_MADE(d, &err);
    const flx_type types[] = {flx_type_make(FLX_I32, 1, &rows), flx_type_make(FLX_F32, 2, (flx_dim[]){rows, 3})};
    flx_tensor *id = flx_tensor_new(ctx, &types[0], NULL, &err);
    flx_tensor *x = flx_tensor_new(ctx, &types[1], NULL, &err);
    for (int64_t i = 0; i < rows; i++) {
        ((int32_t *)flx_tensor_data(id))[i] = (int32_t)i;
        for (int k = 0; k < 3; k++)
            ((float *)flx_tensor_data(x))[3 * i + k] = (float)(i + 1000 * k);
    }
    CHECK_OK(flx_dataset_add(d, "id", id, &err), &err);
    CHECK_OK(flx_dataset_add(d, "x", x, &err), &err);
    flx_tensor_release(id);
    flx_tensor_release(x);
    return d;
}

static flx_loader *loader_of(const flx_dataset *d, uint32_t flags, int64_t batch, int64_t epochs, uint64_t seed)
{
    flx_error err = {0};
    const flx_loader_options o = {
        .struct_size = sizeof o, .flags = flags, .batch = batch, .epochs = epochs, .seed = seed};
    flx_loader *l = flx_loader_new(d, &o, &err);
    CHECK_MADE(l, &err);
    return l;
}

/* The rows of the next batch to `out`; 0 at the end. Both columns must agree. */
static int64_t take(flx_loader *l, int32_t *out)
{
    flx_error err = {0};
    const flx_feed *feeds;
    size_t n;
    CHECK_OK(flx_loader_next(l, &feeds, &n, &err), &err);
    if (!feeds) {
        CHECK_EQ_U64(n, 0);
        return 0;
    }
    CHECK_EQ_U64(n, 2);
    CHECK_EQ_STR(feeds[0].name, "id");
    CHECK_EQ_STR(feeds[1].name, "x");
    int64_t rows = flx_tensor_type(feeds[0].value)->dims[0];
    CHECK_EQ_I64(flx_tensor_type(feeds[1].value)->dims[0], rows);
    CHECK_EQ_I64(flx_tensor_count(feeds[1].value), 3 * rows);
    const int32_t *id = flx_tensor_const_data(feeds[0].value);
    const float *x = flx_tensor_const_data(feeds[1].value);
    for (int64_t i = 0; i < rows; i++)
        for (int k = 0; k < 3; k++)
            CHECK(x[3 * i + k] == (float)(id[i] + 1000 * k));
    memcpy(out, id, (size_t)rows * sizeof *id);
    return rows;
}

static void check_epochs(flx_context *ctx, int64_t rows, int64_t batch, uint32_t flags)
{
    flx_dataset *d = numbered(ctx, rows);
    flx_loader *l = loader_of(d, flags, batch, 3, 7);
    flx_dataset_free(d); /* the loader holds what it needs */
    int64_t used = flags & FLX_LOADER_DROP_LAST ? rows - rows % batch : rows;
    CHECK_EQ_I64(flx_loader_batches(l), (used + batch - 1) / batch);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        int seen[ROWS_MAX] = {0};
        bool in_order = true;
        for (int64_t done = 0; done < used;) {
            int32_t ids[ROWS_MAX];
            int64_t at_epoch, at_row;
            flx_loader_position(l, &at_epoch, &at_row);
            CHECK(at_epoch == epoch && at_row == done);
            int64_t n = take(l, ids);
            CHECK_EQ_I64(n, used - done < batch ? used - done : batch);
            for (int64_t i = 0; i < n; i++) {
                CHECK(ids[i] >= 0 && ids[i] < rows && seen[ids[i]]++ == 0);
                in_order = in_order && ids[i] == done + i;
            }
            done += n;
        }
        CHECK(in_order == !(flags & FLX_LOADER_SHUFFLE) || rows < 8);
    }
    int32_t none[1];
    CHECK_EQ_I64(take(l, none), 0);
    CHECK_EQ_I64(take(l, none), 0);
    flx_loader_free(l);
}

TEST(loader_gives_every_row_once_in_each_epoch)
{
    static const int64_t sizes[][2] = {{1, 1}, {2, 1}, {5, 2}, {5, 5}, {64, 16}, {100, 7}, {101, 32}, {199, 50}};
    flx_context *ctx = flx_context_new(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t flags = 0; flags < 8; flags++) {
            test_fail_context("%lld rows, batches of %lld, flags %u", (long long)sizes[i][0], (long long)sizes[i][1],
                              flags);
            check_epochs(ctx, sizes[i][0], sizes[i][1], flags);
        }
    flx_context_free(ctx);
}

/* All rows of an epoch. */
static void take_epoch(flx_loader *l, int32_t *out, int64_t rows)
{
    for (int64_t done = 0; done < rows;)
        done += take(l, out + done);
}

TEST(loader_order_depends_on_seed_and_epoch_alone)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dataset *d = numbered(ctx, 100);
    int32_t a[3][100], b[3][100], c[100];
    flx_loader *first = loader_of(d, FLX_LOADER_SHUFFLE, 10, 0, 1);
    flx_loader *second = loader_of(d, FLX_LOADER_SHUFFLE | FLX_LOADER_PREFETCH, 33, 0, 1);
    flx_loader *other = loader_of(d, FLX_LOADER_SHUFFLE, 10, 0, 2);
    for (int i = 0; i < 3; i++) {
        take_epoch(first, a[i], 100);
        take_epoch(second, b[i], 100);
        CHECK(memcmp(a[i], b[i], sizeof a[i]) == 0);
        CHECK(i == 0 || memcmp(a[i], a[i - 1], sizeof a[i]) != 0);
    }
    take_epoch(other, c, 100);
    CHECK(memcmp(a[0], c, sizeof c) != 0);
    flx_loader_free(first);
    flx_loader_free(second);
    flx_loader_free(other);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

/* Stops after every number of batches, saves the position, and continues in a new loader with that position, with and
   without a thread, and with another size of batches: the rows are those of the loader that did not stop. */
static void check_resumed(const flx_dataset *d, uint32_t flags, int64_t batches, int64_t other_batch)
{
    enum { ROWS = 53, ALL = 3 * ROWS };
    int32_t whole[ALL], resumed[ALL + 64];
    int64_t n = 0, epoch, row;
    flx_loader *l = loader_of(d, flags, 8, 3, 5);
    take_epoch(l, whole, ALL);
    flx_loader_free(l);
    l = loader_of(d, flags, 8, 3, 5);
    for (int64_t i = 0; i < batches; i++)
        n += take(l, resumed + n);
    flx_loader_position(l, &epoch, &row);
    flx_loader_free(l);
    CHECK_EQ_I64(epoch * ROWS + row, n);
    l = loader_of(d, flags, other_batch, 3, 5);
    CHECK_OK(flx_loader_seek(l, epoch, row, NULL), NULL);
    for (int64_t k; n < ALL; n += k) {
        k = take(l, resumed + n);
        CHECK(k > 0);
    }
    CHECK_EQ_I64(take(l, resumed + n), 0);
    flx_loader_free(l);
    CHECK(memcmp(whole, resumed, sizeof whole) == 0);
}

TEST(loader_position_is_saved_and_restored)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dataset *d = numbered(ctx, 53);
    for (int64_t batches = 0; batches <= 21; batches++)
        for (uint32_t thread = 0; thread < 2; thread++) {
            uint32_t flags = FLX_LOADER_SHUFFLE | (thread ? FLX_LOADER_PREFETCH : 0);
            test_fail_context("after %lld batches, flags %u", (long long)batches, flags);
            check_resumed(d, flags, batches, 8);
            check_resumed(d, flags, batches, 5);
        }
    flx_dataset_free(d);
    flx_context_free(ctx);
}

TEST(loader_seeks_back_and_forth)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dataset *d = numbered(ctx, 40);
    flx_loader *plain = loader_of(d, FLX_LOADER_SHUFFLE | FLX_LOADER_DROP_LAST, 7, 4, 3);
    flx_loader *ahead = loader_of(d, FLX_LOADER_SHUFFLE | FLX_LOADER_DROP_LAST | FLX_LOADER_PREFETCH, 7, 4, 3);
    uint64_t state = test_seed();
    for (int i = 0; i < 200; i++) {
        int64_t epoch = (int64_t)(test_random(&state) % 5), row = (int64_t)(test_random(&state) % 41);
        CHECK_OK(flx_loader_seek(plain, epoch, row, NULL), NULL);
        CHECK_OK(flx_loader_seek(ahead, epoch, row, NULL), NULL);
        for (int k = (int)(test_random(&state) % 4); k >= 0; k--) {
            int32_t a[40], b[40];
            int64_t n = take(plain, a);
            CHECK_EQ_I64(take(ahead, b), n);
            CHECK(memcmp(a, b, (size_t)n * sizeof *a) == 0);
        }
    }
    flx_error err = {0};
    CHECK_CODE(flx_loader_seek(plain, -1, 0, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_loader_seek(plain, 0, 41, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_loader_seek(plain, 0, -1, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_loader_seek(NULL, 0, 0, &err), FLX_E_USAGE, &err);
    flx_loader_free(plain);
    flx_loader_free(ahead);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

TEST(loader_options_out_of_range_are_refused)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_error err = {0};
    flx_dataset *d = numbered(ctx, 10), *empty = flx_dataset_new(ctx, NULL), *none = numbered(ctx, 0);
    flx_loader_options o = {.struct_size = sizeof o, .flags = 8};
    CHECK(!flx_loader_new(d, &o, &err) && err.code == FLX_E_USAGE);
    o = (flx_loader_options){.struct_size = sizeof o, .batch = -1};
    CHECK(!flx_loader_new(d, &o, &err) && err.code == FLX_E_USAGE);
    o = (flx_loader_options){.struct_size = sizeof o, .epochs = -1};
    CHECK(!flx_loader_new(d, &o, &err) && err.code == FLX_E_USAGE);
    o = (flx_loader_options){.struct_size = sizeof o, .flags = FLX_LOADER_DROP_LAST, .batch = 11};
    CHECK(!flx_loader_new(d, &o, &err) && err.code == FLX_E_SIZE);
    CHECK_EQ_STR(err.message, "the dataset has 10 rows, fewer than a batch of 11");
    CHECK(!flx_loader_new(empty, NULL, &err) && err.code == FLX_E_SIZE);
    CHECK(!flx_loader_new(none, NULL, &err) && err.code == FLX_E_SIZE);
    CHECK(!flx_loader_new(NULL, NULL, &err) && err.code == FLX_E_USAGE);
    flx_loader *l = loader_of(d, 0, INT64_MAX, 1, 0); /* all rows in one batch, and no memory for more */
    int32_t ids[10];
    CHECK_EQ_I64(take(l, ids), 10);
    const flx_feed *feeds;
    size_t n;
    CHECK_CODE(flx_loader_next(NULL, &feeds, &n, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_loader_next(l, NULL, &n, &err), FLX_E_USAGE, &err);
    CHECK_CODE(flx_loader_next(l, &feeds, NULL, &err), FLX_E_USAGE, &err);
    CHECK_EQ_I64(flx_loader_batches(NULL), 0);
    flx_loader_position(NULL, NULL, NULL);
    flx_loader_free(NULL);
    flx_loader_free(l);
    flx_dataset_free(d);
    flx_dataset_free(empty);
    flx_dataset_free(none);
    flx_context_free(ctx);
}

TEST(loader_tensors_may_outlive_it)
{
    flx_context *ctx = flx_context_new(NULL);
    flx_dataset *d = numbered(ctx, 10);
    flx_loader *l = loader_of(d, FLX_LOADER_PREFETCH, 7, 1, 0);
    flx_tensor *kept[2];
    for (int i = 0; i < 2; i++) { /* a whole batch, and a part of one */
        const flx_feed *feeds;
        size_t n;
        CHECK_OK(flx_loader_next(l, &feeds, &n, NULL), NULL);
        kept[i] = flx_tensor_retain((flx_tensor *)(uintptr_t)feeds[0].value);
    }
    flx_loader_free(l);
    flx_dataset_free(d);
    CHECK(flx_tensor_count(kept[0]) == 7 && flx_tensor_get(kept[0], 6) == 6.0);
    CHECK(flx_tensor_count(kept[1]) == 3 && flx_tensor_get(kept[1], 2) == 9.0);
    flx_tensor_release(kept[0]);
    flx_tensor_release(kept[1]);
    flx_context_free(ctx);
}

/* ---- Rows that are made ---- */

typedef struct {
    atomic_int calls;
    atomic_int bad; /* the row that fails; -1: none */
    int delay_ms;
} maker;

static flx_code make_row(void *user, int64_t row, void *out, flx_error *err)
{
    maker *m = user;
    atomic_fetch_add(&m->calls, 1);
    if (m->delay_ms)
        nanosleep(&(struct timespec){.tv_nsec = m->delay_ms * 1000000}, NULL);
    if (row == atomic_load(&m->bad)) {
        err->code = FLX_E_IO;
        strcpy(err->message, "the disk is gone");
        return FLX_E_IO;
    }
    *(int16_t *)out = (int16_t)(3 * row);
    return FLX_OK;
}

static flx_dataset *made(flx_context *ctx, maker *m, int64_t rows)
{
    flx_error err = {0};
    const flx_type row = flx_type_make(FLX_I16, 0, NULL);
    flx_dataset *d = flx_dataset_new(ctx, &err);
    CHECK_OK(flx_dataset_add_rows(d, "y", &row, rows, make_row, m, &err), &err);
    CHECK_OK(flx_dataset_convert(d, "y", FLX_F32, 0.5, 1, &err), &err);
    return d;
}

/* The next batch, whose rows begin at `row`. */
static flx_code next_made(flx_loader *l, int64_t row, int64_t expected, flx_error *err)
{
    const flx_feed *feeds;
    size_t n;
    flx_code code = flx_loader_next(l, &feeds, &n, err);
    if (code != FLX_OK) {
        CHECK(!feeds && n == 0);
        return code;
    }
    CHECK(feeds && n == 1);
    CHECK_EQ_I64(flx_tensor_count(feeds[0].value), expected);
    for (int64_t i = 0; i < expected; i++)
        CHECK(((const float *)flx_tensor_const_data(feeds[0].value))[i] == (float)(3 * (row + i)) * 0.5f + 1);
    return code;
}

TEST(loader_error_comes_with_the_batch_it_concerns)
{
    for (uint32_t flags = 0; flags <= FLX_LOADER_PREFETCH; flags += FLX_LOADER_PREFETCH) {
        flx_context *ctx = flx_context_new(NULL);
        flx_error err = {0};
        maker m = {.bad = 9};
        flx_dataset *all = made(ctx, &m, 40);
        flx_dataset *d = flx_dataset_slice(all, 2, 22, &err); /* row 9 is number 7 here */
        CHECK_MADE(d, &err);
        flx_loader *l = loader_of(d, flags, 4, 2, 0);
        int64_t epoch, row;
        CHECK_OK(next_made(l, 2, 4, &err), &err);
        for (int i = 0; i < 3; i++) { /* as often as it is tried */
            err = (flx_error){0};
            CHECK_CODE(next_made(l, 6, 4, &err), FLX_E_IO, &err);
            CHECK_EQ_STR(err.message, "column 'y', row 9: the disk is gone");
            flx_loader_position(l, &epoch, &row);
            CHECK(epoch == 0 && row == 4);
        }
        atomic_store(&m.bad, -1);
        for (int64_t at = 6; at < 22; at += 4)
            CHECK_OK(next_made(l, at, 4, &err), &err);
        CHECK_OK(next_made(l, 2, 4, &err), &err);
        flx_loader_free(l);
        flx_dataset_free(d);
        flx_dataset_free(all);
        flx_context_free(ctx);
    }
}

TEST(loader_ends_while_its_thread_works)
{
    flx_context *ctx = flx_context_new(NULL);
    maker m = {.bad = -1, .delay_ms = 1};
    flx_dataset *d = made(ctx, &m, 1000);
    for (int i = 0; i < 20; i++) {
        flx_loader *l = loader_of(d, FLX_LOADER_PREFETCH, 3, 0, 0);
        for (int k = 0; k < i % 3; k++)
            CHECK_OK(next_made(l, 3 * k, 3, NULL), NULL);
        flx_loader_free(l);
    }
    flx_dataset_free(d);
    flx_context_free(ctx);
    CHECK(atomic_load(&m.calls) < 1000); /* two batches ahead at most */
}

TEST(loader_thread_is_one_batch_ahead)
{
    flx_context *ctx = flx_context_new(NULL);
    maker m = {.bad = -1};
    flx_dataset *d = made(ctx, &m, 1000);
    flx_loader *l = loader_of(d, FLX_LOADER_PREFETCH, 10, 0, 0);
    for (int k = 0; k < 5; k++)
        CHECK_OK(next_made(l, 10 * k, 10, NULL), NULL);
    for (int wait = 0; wait < 2000 && atomic_load(&m.calls) < 60; wait++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    CHECK_EQ_I64(atomic_load(&m.calls), 60);
    flx_loader_free(l);
    flx_dataset_free(d);
    flx_context_free(ctx);
}

TEST(loader_call_is_stopped_and_continues_later)
{
    for (uint32_t flags = 0; flags <= FLX_LOADER_PREFETCH; flags += FLX_LOADER_PREFETCH) {
        flx_context *ctx = flx_context_new(NULL);
        flx_error err = {0};
        maker m = {.bad = -1, .delay_ms = 2};
        flx_dataset *d = made(ctx, &m, 100);
        flx_loader *l = loader_of(d, flags, 10, 0, 0);
        flx_stop *stop = flx_stop_new(ctx, 0, &err);
        flx_stop_request(stop);
        flx_stop_use(stop);
        flx_code code = next_made(l, 0, 10, &err);
        flx_stop_use(NULL);
        CHECK_EQ_I64(code, FLX_E_CANCELLED);
        CHECK_OK(next_made(l, 0, 10, &err), &err);
        CHECK_OK(next_made(l, 10, 10, &err), &err);
        flx_stop_free(stop);
        flx_loader_free(l);
        flx_dataset_free(d);
        flx_context_free(ctx);
    }
}

/* ---- Memory ---- */

/* Makes a dataset and takes batches; whatever fails must say so and leave nothing over. */
static void use_with(fault *f, uint32_t flags)
{
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = f});
    flx_error err = {0};
    if (!ctx)
        return;
    const flx_type type = flx_type_make(FLX_U8, 1, (flx_dim[]){50});
    flx_tensor *t = flx_tensor_new(ctx, &type, NULL, &err);
    flx_dataset *d = t ? flx_dataset_windows(ctx, t, 4, 1, &err) : NULL;
    const flx_loader_options o = {.struct_size = sizeof o, .flags = flags, .batch = 7, .epochs = 2};
    flx_loader *l = d ? flx_loader_new(d, &o, &err) : NULL;
    const flx_feed *feeds = NULL;
    size_t n, batches = 0;
    flx_code code = FLX_OK;
    do {
        code = l ? flx_loader_next(l, &feeds, &n, &err) : FLX_E_OOM;
        if (code != FLX_OK) {
            CHECK_EQ_I64(code, FLX_E_OOM);
            code = l ? flx_loader_next(l, &feeds, &n, &err) : FLX_E_OOM; /* again */
        }
        batches += feeds != NULL;
    } while (code == FLX_OK && feeds);
    CHECK(code != FLX_OK || batches == 14);
    flx_loader_free(l);
    flx_dataset_free(d);
    flx_tensor_release(t);
    flx_context_free(ctx);
}

TEST(loader_survives_failing_allocations)
{
    for (uint32_t flags = 0; flags < 8; flags += 5) { /* 0, and shuffled with a thread */
        fault whole = {0};
        use_with(&whole, flags);
        CHECK(whole.calls > 10 && fault_is_clean(&whole));
        for (size_t at = 1; at <= whole.calls; at++)
            for (int forever = 0; forever < 2; forever++) {
                fault f = {.fail_at = at, .forever = forever};
                test_fail_context("allocation %zu of %zu fails, flags %u", at, whole.calls, flags);
                use_with(&f, flags);
                CHECK(fault_is_clean(&f));
            }
    }
}

TEST(loader_allocates_nothing_for_whole_batches)
{
    fault f = {0};
    flx_context *ctx = flx_context_new(&(flx_context_options){.alloc = fault_alloc, .alloc_user = &f});
    flx_dataset *d = numbered(ctx, 64);
    flx_loader *l = loader_of(d, FLX_LOADER_SHUFFLE | FLX_LOADER_PREFETCH, 16, 0, 0);
    int32_t ids[16];
    size_t before = f.calls;
    for (int i = 0; i < 50; i++)
        CHECK_EQ_I64(take(l, ids), 16);
    CHECK_EQ_U64(f.calls, before);
    flx_loader_free(l);
    flx_dataset_free(d);
    flx_context_free(ctx);
    CHECK(fault_is_clean(&f));
}

/* ---- Permutations ---- */

static void check_bijection(uint64_t n, uint32_t *table)
{
    flxi_permutation p;
    unsigned char *seen = calloc(n, 1);
    CHECK(seen);
    uint64_t fixed = 0, neighbours = 0, last = 0;
    flxi_permutation_begin(&p, n, 11, 3, table);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t row = flxi_permutation_at(&p, i);
        CHECK(row < n && !seen[row]);
        seen[row] = 1;
        fixed += row == i;
        neighbours += i > 0 && (row == last + 1 || row + 1 == last);
        last = row;
    }
    free(seen);
    if (n > 60000) /* of a random order: 1 and 2 on average */
        CHECK_MSG(fixed < 12 && neighbours < 15, "%llu fixed, %llu neighbours", (unsigned long long)fixed,
                  (unsigned long long)neighbours);
}

TEST(permutation_is_a_bijection_of_any_size)
{
    static uint32_t table[FLXI_PERMUTATION_TABLE];
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 100, 1000, 4095, 65535, 65536};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_bijection(sizes[i], table);
        check_bijection(sizes[i], NULL);
    }
    check_bijection(65537, NULL);
    check_bijection(100003, NULL);
    check_bijection(1 << 18, NULL);
}

TEST(permutation_of_huge_sizes_stays_in_range)
{
    static const uint64_t sizes[] = {(UINT64_C(1) << 62) - 1, UINT64_C(1) << 62, (UINT64_C(1) << 62) + 1, INT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        flxi_permutation p;
        flxi_permutation_begin(&p, sizes[i], 1, 2, NULL);
        for (uint64_t k = 0; k < 100; k++)
            CHECK(flxi_permutation_at(&p, sizes[i] - 1 - k) < sizes[i]);
    }
}

/* The order is part of what a saved position means, so it must never change, on any machine. */
TEST(permutation_is_the_same_everywhere)
{
    static uint32_t table[10];
    static const uint64_t small[10] = {6, 9, 3, 1, 2, 5, 4, 0, 7, 8},
                          large[5] = {805762, 125824, 185305, 786371, 312201};
    flxi_permutation p;
    flxi_permutation_begin(&p, 10, 42, 1, table);
    for (uint64_t i = 0; i < 10; i++)
        CHECK_EQ_U64(flxi_permutation_at(&p, i), small[i]);
    flxi_permutation_begin(&p, 1000000, 42, 1, NULL);
    for (uint64_t i = 0; i < 5; i++)
        CHECK_EQ_U64(flxi_permutation_at(&p, i), large[i]);
}

/* All 24 orders of four rows are equally frequent over the epochs: chi-squared with 23 degrees of freedom is below 60
   except once in 30,000. */
TEST(permutation_orders_are_equally_likely)
{
    enum { EPOCHS = 4800, ORDERS = 256 };
    int counts[ORDERS] = {0};
    uint32_t table[4];
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        flxi_permutation p;
        flxi_permutation_begin(&p, 4, test_seed(), epoch, table);
        counts[table[0] | table[1] << 2 | table[2] << 4 | table[3] << 6]++;
    }
    double chi = 0;
    int used = 0;
    for (int i = 0; i < ORDERS; i++)
        if (counts[i]) {
            double expected = EPOCHS / 24.0;
            chi += (counts[i] - expected) * (counts[i] - expected) / expected;
            used++;
        }
    CHECK_EQ_I64(used, 24);
    CHECK_MSG(chi < 60, "chi-squared is %g", chi);
}
