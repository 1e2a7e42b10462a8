/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_training.c: a training step that is cut for a mesh, on ranks that are threads: its losses and parameters are
   those of one process, whatever is cut; state and parameters are kept in parts; checkpoints in parts are read by any
   other mesh with the same bits. */
#include "../backend/collective/local_ranks.h"
#include "format/file.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <fluxion/checkpoint.h>
#include <fluxion/fluxion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char model[] = "graph loss(x: f64[8, 4], y: f64[8, 2], param w1: f64[4, 8] ~ xavier_normal,\n"
                            "           param b1: f64[8] ~ zeros, param w2: f64[8, 2] ~ xavier_normal) {\n"
                            "  h = tanh(add(matmul(x, w1), b1))\n"
                            "  loss = reduce_mean(square(sub(matmul(h, w2), y)))\n"
                            "  worst = reduce_max(abs(sub(matmul(h, w2), y)))\n"
                            "  return loss, worst\n}\n";

enum { STEPS = 4, PARAMS = 3 };

static const char *const param_names[PARAMS] = {"w1", "b1", "w2"};

typedef struct {
    const char *mesh;
    int64_t ranks;
    int32_t zero;
    flx_sharding cuts[8];
    size_t num_cuts;
} way;

#define BATCH         \
    {"x", "data,-"},  \
    {                 \
        "y", "data,-" \
    }

static const way ways[] = {
    {"data=2", 2, 0, {BATCH}, 2},
    {"data=2", 2, 1, {BATCH}, 2},
    {"data=4", 4, 2, {BATCH}, 2},
    {"data=4", 4, 3, {BATCH}, 2},
    {"model=2", 2, 0, {{"w1", "-,model"}, {"b1", "model"}, {"w2", "model,-"}}, 3},
    {"data=2,model=2", 4, 1, {BATCH, {"w1", "-,model"}, {"b*", "model"}, {"w2", "model,-"}}, 5},
    {"data=2,model=2", 4, 3, {BATCH, {"w1", "-,model"}, {"b1", "model"}, {"w2", "model,-"}}, 5},
    {"data=2,model=2",
     4,
     1,
     {{"x", "data+model,-"}, {"y", "data+model,-"}, {"w1", "-,data+model"}, {"b1", "model"}, {"w2", "model,-"}},
     5},
};

typedef struct {
    const way *w; /* NULL: one process without a mesh */
    const char *save, *load;
    int first, steps;
    double losses[STEPS], worst;
    double params[PARAMS][32], state[32]; /* whole, of rank 0 */
    int64_t state_elements;               /* of w1, in this process */
} trained;

/* ---- One process ---- */

static flx_tensor *batch_of(flx_context *ctx, const char *name, int step, const way *w, flx_error *err)
{
    flx_type type = flx_type_make(FLX_F64, 2, (flx_dim[]){8, name[0] == 'x' ? 4 : 2});
    flx_tensor *whole = flx_tensor_new(ctx, &type, NULL, err);
    double *v = flx_tensor_data(whole);
    for (int64_t i = 0; i < flx_tensor_count(whole); i++)
        v[i] = sin((double)(i * 7 + step * 3 + name[0]));
    const char *cuts = "-,-";
    for (size_t i = 0; w && i < w->num_cuts; i++)
        cuts = strcmp(w->cuts[i].name, name) == 0 ? w->cuts[i].spec : cuts;
    flx_tensor *part = flx_mesh_part(ctx, whole, w ? w->mesh : "data=1", cuts, flx_mesh_rank(ctx), err);
    flx_tensor_release(whole);
    return part;
}

static flx_trainer *make(flx_context *ctx, const way *w, flx_error *err)
{
    flx_module *m = flx_parse(ctx, model, sizeof model - 1, "model", err);
    CHECK_MADE(m, err);
    flx_train_options o = {.struct_size = sizeof o, .optimiser = FLX_ADAMW, .rate = 0.05, .clip_norm = 0.5, .seed = 3};
    if (w) {
        o.mesh = w->mesh;
        o.data_axis = strstr(w->mesh, "data") ? "data" : NULL;
        o.shardings = w->cuts;
        o.num_shardings = w->num_cuts;
        o.zero = w->zero;
    }
    const flx_compile_options interpreted = {
        .struct_size = sizeof interpreted, .flags = FLX_COMPILE_INTERPRET, .threads = 1};
    flx_trainer *t = flx_compile_training(flx_module_main(m), &o, &interpreted, err);
    flx_module_free(m);
    return t;
}

static void read_whole(flx_context *ctx, flx_trainer *t, const way *w, const char *name, double *out, flx_error *err)
{
    flx_tensor *part = flx_trainer_param(t, name, err);
    CHECK_MADE(part, err);
    flx_tensor *whole = w ? flx_mesh_whole(ctx, part, w->mesh, flx_trainer_cut(t, name), err) : flx_tensor_retain(part);
    CHECK_MADE(whole, err);
    if (flx_mesh_rank(ctx) == 0)
        memcpy(out, flx_tensor_const_data(whole), flx_tensor_nbytes(whole));
    flx_tensor_release(whole);
    flx_tensor_release(part);
}

static void train(flx_context *ctx, trained *r, flx_error *err)
{
    flx_trainer *t = make(ctx, r->w, err);
    CHECK_MADE(t, err);
    bool tells = flx_mesh_rank(ctx) == 0;
    if (r->load)
        CHECK_OK(flx_trainer_load_parts(t, NULL, r->load, err), err);
    for (int i = r->first; i < r->first + r->steps; i++) {
        flx_feed feeds[] = {{"x", batch_of(ctx, "x", i, r->w, err)}, {"y", batch_of(ctx, "y", i, r->w, err)}};
        double loss;
        CHECK_OK(flx_trainer_step(t, feeds, 2, &loss, err), err);
        if (tells)
            r->losses[i] = loss;
        for (int k = 0; k < 2; k++)
            flx_tensor_release((flx_tensor *)(uintptr_t)feeds[k].value);
    }
    if (r->save)
        CHECK_OK(flx_trainer_save_parts(t, NULL, r->save, err), err);
    for (int k = 0; k < PARAMS; k++)
        read_whole(ctx, t, r->w, param_names[k], r->params[k], err);
    read_whole(ctx, t, r->w, "state_w1_m", r->state, err);
    if (tells) {
        r->state_elements = flx_tensor_count(flx_params_find(flx_trainer_state(t), "state_w1_m"));
        if (r->steps)
            r->worst = flx_tensor_get(flx_trainer_output(t, "worst"), 0);
    }
    flx_trainer_free(t);
}

static void train_rank(local_rank *r)
{
    train(r->ctx, r->user, &r->err);
}

static void run(trained *r)
{
    if (r->w) {
        local_ranks_run(r->w->ranks, r->w->mesh, 60, train_rank, r);
        return;
    }
    flx_error err = {0};
    flx_context *ctx = flx_context_new(NULL);
    train(ctx, r, &err);
    flx_context_free(ctx);
}

/* ---- The same as one process ---- */

static bool are_near(const double *a, const double *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs(a[i] - b[i]) <= 1e-9))
            return false;
    return true;
}

TEST(mesh_training_is_that_of_one_process)
{
    trained want = {.steps = STEPS};
    run(&want);
    CHECK(want.losses[STEPS - 1] < want.losses[0] && want.worst > 0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        test_fail_context("way %zu: %s, zero %d", i, ways[i].mesh, (int)ways[i].zero);
        trained got = {.w = &ways[i], .steps = STEPS};
        run(&got);
        CHECK(are_near(got.losses, want.losses, STEPS) && fabs(got.worst - want.worst) < 1e-9);
        for (int k = 0; k < PARAMS; k++)
            CHECK_MSG(are_near(got.params[k], want.params[k], 32), "%s differs", param_names[k]);
        CHECK(are_near(got.state, want.state, 32));
        int64_t parts = (strstr(ways[i].mesh, "model") ? 2 : 1) *
                        (ways[i].zero ? ways[i].ranks / (strstr(ways[i].mesh, "model") ? 2 : 1) : 1);
        CHECK_EQ_I64(got.state_elements, 32 / parts);
        test_count_case();
    }
}

/* ---- Checkpoints ---- */

static void folder_begin(char *folder, size_t size)
{
    snprintf(folder, size, "%s/parts", test_temp_dir());
    CHECK(mkdir(folder, 0700) == 0);
}

static void folder_end(const char *folder)
{
    char command[600];
    snprintf(command, sizeof command, "%s/index.safetensors", folder);
    unlink(command);
    for (int number = 1; number < 9; number++)
        for (int rank = 0; rank < 4; rank++) {
            snprintf(command, sizeof command, "%s/part-%d-%d.safetensors", folder, number, rank);
            unlink(command);
        }
    CHECK_MSG(rmdir(folder) == 0, "something else is left in %s", folder);
}

static size_t count_parts(const char *folder, int number)
{
    size_t n = 0;
    for (int rank = 0; rank < 8; rank++) {
        char path[600];
        snprintf(path, sizeof path, "%s/part-%d-%d.safetensors", folder, number, rank);
        n += access(path, F_OK) == 0;
    }
    return n;
}

TEST(mesh_training_resumes_on_other_meshes)
{
    char folder[500];
    folder_begin(folder, sizeof folder);
    trained whole = {.steps = STEPS};
    run(&whole);
    trained first = {.w = &ways[7], .steps = 2, .save = folder};
    run(&first);
    CHECK_EQ_I64(count_parts(folder, 1), 4);
    for (size_t i = 0; i <= sizeof ways / sizeof *ways; i++) {
        const way *w = i ? &ways[i - 1] : NULL;
        test_fail_context("resumed as way %zu", i);
        trained same = {.w = w, .load = folder};
        run(&same);
        CHECK(memcmp(same.params, first.params, sizeof first.params) == 0);
        CHECK(memcmp(same.state, first.state, sizeof first.state) == 0);
        trained rest = {.w = w, .load = folder, .first = 2, .steps = STEPS - 2};
        run(&rest);
        CHECK(are_near(rest.losses + 2, whole.losses + 2, STEPS - 2));
        test_count_case();
    }
    trained again = {.w = &ways[2], .load = folder, .save = folder};
    run(&again);
    CHECK_EQ_I64(count_parts(folder, 1), 0); /* replaced */
    CHECK_EQ_I64(count_parts(folder, 2), 4);
    trained alone = {.load = folder};
    run(&alone);
    CHECK(memcmp(alone.params, first.params, sizeof first.params) == 0);
    folder_end(folder);
}

/* ---- Damage ---- */

static void change_byte(const char *path, long from_end)
{
    FILE *f = fopen(path, "r+b");
    CHECK_MSG(f != NULL, "%s", path);
    CHECK(fseek(f, -from_end, SEEK_END) == 0);
    int c = fgetc(f);
    CHECK(c != EOF && fseek(f, -from_end, SEEK_END) == 0 && fputc(c ^ 1, f) != EOF);
    CHECK(fclose(f) == 0);
}

/* A bit of a part is wrong: nothing is taken of any part. */
TEST(mesh_training_notices_damaged_parts)
{
    char folder[500], part[600];
    flx_error err = {0};
    folder_begin(folder, sizeof folder);
    trained first = {.w = &ways[6], .steps = 2, .save = folder};
    run(&first);
    for (int rank = 0; rank < 4; rank++) {
        snprintf(part, sizeof part, "%s/part-1-%d.safetensors", folder, rank);
        flx_context *ctx = flx_context_new(NULL);
        flx_trainer *t = make(ctx, NULL, &err);
        CHECK_MADE(t, &err);
        double before[32], after[32];
        read_whole(ctx, t, NULL, "w1", before, &err);
        change_byte(part, 1);
        CHECK_CODE(flx_trainer_load_parts(t, NULL, folder, &err), FLX_E_SYNTAX, &err);
        CHECK_MSG(strstr(err.message, "checksum") && strstr(err.where, "part-1-"), "%s: %s", err.where, err.message);
        read_whole(ctx, t, NULL, "w1", after, &err);
        CHECK(memcmp(before, after, sizeof before) == 0);
        change_byte(part, 1);
        CHECK_OK(flx_trainer_load_parts(t, NULL, folder, &err), &err);
        flx_trainer_free(t);
        flx_context_free(ctx);
    }
    folder_end(folder);
}

/* A part of another checkpoint, intact and with the right name. */
TEST(mesh_training_notices_parts_of_other_checkpoints)
{
    char folder[500], part[600], aside[600];
    flx_error err = {0};
    folder_begin(folder, sizeof folder);
    snprintf(part, sizeof part, "%s/part-1-0.safetensors", folder);
    snprintf(aside, sizeof aside, "%s/aside", folder);
    trained first = {.steps = 1, .save = folder}, second = {.steps = 2, .save = folder};
    run(&first);
    CHECK(rename(part, aside) == 0);
    char index[600];
    snprintf(index, sizeof index, "%s/index.safetensors", folder);
    CHECK(unlink(index) == 0);
    run(&second);
    CHECK(rename(aside, part) == 0);
    flx_context *ctx = flx_context_new(NULL);
    flx_trainer *t = make(ctx, NULL, &err);
    CHECK_MADE(t, &err);
    CHECK_CODE(flx_trainer_load_parts(t, NULL, folder, &err), FLX_E_SYNTAX, &err);
    CHECK_MSG(strstr(err.message, "part-1-0.safetensors: the checkpoint is damaged: this part is of another one") &&
                  strstr(err.where, "part-1-0"),
              "%s: %s", err.where, err.message);
    flx_trainer_free(t);
    flx_context_free(ctx);
    folder_end(folder);
}

/* An index whose numbers no trainer writes is damage, for those who read and for those who replace it. */
TEST(mesh_training_notices_damaged_indices)
{
    static const struct {
        const char *mesh, *number, *cut;
    } cases[] = {{"data=1", "9223372036854775807", "-"},
                 {"data=1", "0", "-"},
                 {"data=1", "-4", "-"},
                 {"data=1", "1e3", "-"},
                 {"data=9999999", "1", "-"},
                 {"", "1", "-"},
                 {"data=2", "1", "data"},
                 {"data=2,data=2", "1", "-"}};
    char folder[500], path[600];
    flx_error err = {0};
    folder_begin(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/index.safetensors", folder);
    flx_context *ctx = flx_context_new(NULL);
    flx_trainer *t = make(ctx, NULL, &err);
    CHECK_MADE(t, &err);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_fail_context("case %zu", i);
        flx_checkpoint *c = flx_checkpoint_new(ctx, &err);
        CHECK_MADE(c, &err);
        CHECK_OK(flx_checkpoint_set(c, "parts.mesh", cases[i].mesh, &err), &err);
        CHECK_OK(flx_checkpoint_set(c, "parts.number", cases[i].number, &err), &err);
        CHECK_OK(flx_checkpoint_set(c, "cut.w1", cases[i].cut, &err), &err);
        CHECK_OK(flx_checkpoint_write(c, path, &err), &err);
        flx_checkpoint_free(c);
        CHECK(flx_trainer_load_parts(t, NULL, folder, &err) != FLX_OK && err.code != FLX_E_INTERNAL);
        CHECK_OK(flx_trainer_save_parts(t, NULL, folder, &err), &err);
        CHECK_OK(flx_trainer_load_parts(t, NULL, folder, &err), &err);
    }
    flx_trainer_free(t);
    flx_context_free(ctx);
    folder_end(folder);
}

/* The index is in its place, but the system says that it failed; or it cannot be read now. */
static int rename_and_fail(const char *from, const char *to)
{
    int code = rename(from, to);
    return strstr(to, "index") ? -1 : code;
}

static int fail_to_open(const char *path, int flags, mode_t mode)
{
    errno = EIO;
    return strstr(path, "index") && (flags & O_ACCMODE) == O_RDONLY ? -1 : open(path, flags, mode);
}

TEST(mesh_training_keeps_parts_that_an_index_names)
{
    const flxi_file_calls usual = flxi_file_system;
    char folder[500];
    flx_error err = {0};
    folder_begin(folder, sizeof folder);
    flx_context *ctx = flx_context_new(NULL);
    flx_trainer *t = make(ctx, NULL, &err);
    CHECK_MADE(t, &err);
    CHECK_OK(flx_trainer_save_parts(t, NULL, folder, &err), &err);
    flxi_file_system.rename = rename_and_fail;
    CHECK_CODE(flx_trainer_save_parts(t, NULL, folder, &err), FLX_E_IO, &err);
    flxi_file_system = usual;
    CHECK_OK(flx_trainer_load_parts(t, NULL, folder, &err), &err);
    flxi_file_system.open = fail_to_open;
    CHECK_CODE(flx_trainer_save_parts(t, NULL, folder, &err), FLX_E_IO, &err);
    flxi_file_system = usual;
    CHECK_OK(flx_trainer_load_parts(t, NULL, folder, &err), &err);
    CHECK_OK(flx_trainer_save_parts(t, NULL, folder, &err), &err);
    CHECK_EQ_I64(count_parts(folder, 3), 1);
    flx_trainer_free(t);
    flx_context_free(ctx);
    CHECK_EQ_I64(count_parts(folder, 2), 0);
    folder_end(folder);
}

/* Rank 1 cannot write. */
static void fail_rank(local_rank *r)
{
    const char *folder = r->user;
    flx_trainer *t = make(r->ctx, &ways[2], &r->err);
    CHECK_MADE(t, &r->err);
    CHECK_OK(flx_trainer_save_parts(t, NULL, folder, &r->err), &r->err);
    CHECK_CODE(flx_trainer_save_parts(t, NULL, r->rank == 1 ? "/nowhere" : folder, &r->err), FLX_E_IO, &r->err);
    CHECK_MSG(strncmp(r->err.message, "rank 1: /nowhere: ", 18) == 0, "%s", r->err.message);
    char part[600];
    snprintf(part, sizeof part, "%s/part-2-1.safetensors", folder);
    if (r->rank == 1)
        CHECK(mkdir(part, 0700) == 0); /* in the way of its file */
    CHECK_CODE(flx_trainer_save_parts(t, NULL, folder, &r->err), FLX_E_IO, &r->err);
    CHECK_MSG(strncmp(r->err.message, "rank 1: ", 8) == 0, "%s", r->err.message);
    flx_trainer_free(t);
}

TEST(mesh_training_keeps_the_checkpoint_before)
{
    char folder[500], part[600];
    folder_begin(folder, sizeof folder);
    local_ranks_run(4, "data=4", 60, fail_rank, folder);
    CHECK_EQ_I64(count_parts(folder, 1), 4);
    CHECK_EQ_I64(count_parts(folder, 2), 1); /* what is in the way */
    snprintf(part, sizeof part, "%s/part-2-1.safetensors", folder);
    rmdir(part);
    trained alone = {.load = folder};
    run(&alone);
    folder_end(folder);
}

/* ---- A full disk ---- */

static _Thread_local bool is_disk_full;
static ssize_t (*write_before)(int fd, const void *data, size_t n);

static ssize_t write_until_full(int fd, const void *data, size_t n)
{
    if (!is_disk_full)
        return write_before(fd, data, n);
    errno = ENOSPC;
    return -1;
}

/* The disk of rank 1 is full in step 3. */
static void fill_disk_of_rank(local_rank *r)
{
    const char *folder = r->user;
    flx_trainer *t = make(r->ctx, &ways[2], &r->err);
    CHECK_MADE(t, &r->err);
    CHECK_OK(flx_trainer_load_parts(t, NULL, folder, &r->err), &r->err);
    flx_mesh_set_step(r->ctx, 3);
    is_disk_full = r->rank == 1;
    CHECK_CODE(flx_trainer_save_parts(t, NULL, folder, &r->err), FLX_E_IO, &r->err);
    is_disk_full = false;
    CHECK_MSG(strncmp(r->err.message, "rank 1, step 3: ", 16) == 0 && strstr(r->err.message, strerror(ENOSPC)), "%s",
              r->err.message);
    flx_trainer_free(t);
}

TEST(mesh_training_survives_a_full_disk)
{
    char folder[500];
    folder_begin(folder, sizeof folder);
    trained first = {.w = &ways[2], .save = folder, .steps = 2};
    run(&first);
    write_before = flxi_file_system.write;
    flxi_file_system.write = write_until_full;
    local_ranks_run(4, "data=4", 60, fill_disk_of_rank, folder);
    flxi_file_system.write = write_before;
    CHECK_EQ_I64(count_parts(folder, 1), 4);
    CHECK_EQ_I64(count_parts(folder, 2), 0);
    trained rest = {.w = &ways[2], .load = folder, .save = folder};
    run(&rest);
    CHECK(memcmp(rest.params, first.params, sizeof first.params) == 0);
    CHECK_EQ_I64(count_parts(folder, 2), 4);
    folder_end(folder);
}

/* ---- What is refused ---- */

static void refuse_rank(local_rank *r)
{
    way w = ways[0];
    w.mesh = "data=4";
    CHECK(!make(r->ctx, &w, &r->err));
    CHECK_EQ_STR(r->err.message, "training: the mesh is data=4, but 2 processes are along 'data'");
    w = ways[0];
    w.cuts[0].name = "z";
    CHECK(!make(r->ctx, &w, &r->err));
    CHECK_EQ_STR(r->err.message, "training: no input, parameter or output matches the sharding 'z'");
    w = ways[0];
    w.zero = 4;
    CHECK(!make(r->ctx, &w, &r->err));
    w.mesh = "model=2";
    w.zero = 1;
    w.num_cuts = 0;
    CHECK(!make(r->ctx, &w, &r->err));
    CHECK_EQ_I64(r->err.code, FLX_E_USAGE);
}

TEST(mesh_training_refuses_wrong_meshes)
{
    local_ranks_run(2, "data=2", 60, refuse_rank, NULL);
}
