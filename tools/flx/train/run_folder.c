/* SPDX-License-Identifier: Apache-2.0 */
/* run_folder.c: see run_folder.h. */
#include "train/run_folder.h"

#include "args.h"
#include "io/output.h"
#include "report.h"
#include "train/data/share.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fluxion/checkpoint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char checkpoint_name[] = "checkpoint.safetensors", weights_name[] = "weights.safetensors";
static const char log_name[] = "log.csv", parts_name[] = "parts", index_name[] = "parts/index.safetensors";

/* All that a training writes; the checkpoint first, without which nothing is resumed. */
static const char *const written[] = {checkpoint_name, weights_name,   "model.flx", "settings.train",
                                      "classes.txt",   "features.txt", log_name,    "tokeniser.json",
                                      "report.html",   "log.tfevents"};
enum { WRITTEN = sizeof written / sizeof *written };

/* Runs `write` on FOLDER/NAME. */
static int with_path(const char *folder, const char *name, int (*write)(const char *path, const void *user),
                     const void *user)
{
    char *path = path_in(folder, name);
    int status = path ? write(path, user) : fail_memory();
    free(path);
    return status;
}

/* ---- The folder ---- */

static int find_file(const char *path, const void *is_there)
{
    *(bool *)(uintptr_t)is_there = access(path, F_OK) == 0;
    return STATUS_OK;
}

static int has_file(const char *folder, const char *name, bool *is_there)
{
    *is_there = false;
    return with_path(folder, name, find_file, is_there);
}

/* Of one process, or in parts. */
static int has_checkpoint(const char *folder, bool *is_there)
{
    int status = has_file(folder, checkpoint_name, is_there);
    return status || *is_there ? status : has_file(folder, index_name, is_there);
}

static int check_no_checkpoint(const char *folder)
{
    bool is_there;
    int status = has_checkpoint(folder, &is_there);
    if (status || !is_there)
        return status;
    status = fail(FLX_E_USAGE, "%s has a checkpoint of an earlier training", folder);
    hint("--resume continues it, --overwrite begins again, --out DIR writes elsewhere");
    return status;
}

int run_folder_need_checkpoint(const char *folder)
{
    bool is_there;
    int status = has_checkpoint(folder, &is_there);
    if (status || is_there)
        return status;
    status = fail(FLX_E_USAGE, "%s has no checkpoint to resume from", folder);
    hint("train without --resume, or name the folder of a training: --out DIR");
    return status;
}

/* The folder may be one of the user's, and the file the model or the data of this training. */
static int check_no_file(const char *path, const void *folder)
{
    if (access(path, F_OK) != 0)
        return STATUS_OK;
    int status =
        fail(FLX_E_USAGE, "%s would be overwritten: %s has no checkpoint of a training", path, (const char *)folder);
    hint("--out DIR writes elsewhere, --overwrite replaces it");
    return status;
}

static int write_text(const char *path, const void *text)
{
    const flx_buffer bytes = {.data = (char *)(uintptr_t)text, .size = strlen(text)};
    return output_write(path, &bytes);
}

/* A mark says that the files in the folder are those of a training, which may have ended before its first
   checkpoint. */
int run_folder_make(const char *folder, bool may_have_checkpoint)
{
    static const char mark[] = ".training", says[] = "flx train writes to this folder\n";
    bool is_ours = false;
    int status = may_have_checkpoint ? STATUS_OK : check_no_checkpoint(folder);
    if (!status)
        status = has_file(folder, mark, &is_ours);
    for (size_t i = 0; !status && !may_have_checkpoint && !is_ours && i < WRITTEN; i++)
        status = with_path(folder, written[i], check_no_file, folder);
    if (!status)
        status = output_make_folder(folder);
    return status ? status : with_path(folder, mark, write_text, says);
}

/* The lock is on the folder itself and ends with the process, however that ends. Where a file system has no locks,
   there is none. */
int run_folder_lock(const char *folder, int *lock)
{
    *lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0)
        return fail(FLX_E_IO, "cannot open %s: %s", folder, strerror(errno));
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return STATUS_OK;
    int status = fail(FLX_E_USAGE, "another training is writing to %s", folder);
    hint("wait for its end, or give --out DIR");
    return status;
}

static int remove_file(const char *path, const void *unused)
{
    (void)unused;
    if (unlink(path) == 0 || errno == ENOENT)
        return STATUS_OK;
    return fail(FLX_E_IO, "cannot remove %s: %s", path, strerror(errno));
}

static int make_folder(const char *path, const void *unused)
{
    (void)unused;
    return output_make_folder(path);
}

/* The folder of the parts with all that it has, the index first. */
static int remove_parts(const char *path, const void *unused)
{
    (void)unused;
    char *index = path_in(path, "index.safetensors");
    int status = index ? remove_file(index, NULL) : fail_memory();
    DIR *dir = status ? NULL : opendir(path);
    for (const struct dirent *e; !status && dir && (e = readdir(dir));)
        if (strncmp(e->d_name, "part-", 5) == 0)
            status = with_path(path, e->d_name, remove_file, NULL);
    if (dir)
        closedir(dir);
    if (!status)
        rmdir(path);
    free(index);
    return status;
}

int run_folder_clear(const char *folder)
{
    int status = with_path(folder, parts_name, remove_parts, NULL);
    for (size_t i = 0; !status && i < WRITTEN; i++)
        status = with_path(folder, written[i], remove_file, NULL);
    return status;
}

/* Writes the text, or finds out that the file has another one. */
static int describe(const char *folder, const char *name, const flx_buffer *text, bool is_there, const char *what)
{
    file_bytes old = {0};
    char *path = path_in(folder, name);
    int status = !path ? fail_memory() : is_there ? file_read(path, &old) : output_write(path, text);
    if (!status && is_there && (old.size != text->size || memcmp(old.data, text->data, old.size) != 0)) {
        status = fail(FLX_E_USAGE, "%s is of a training with another %s", path, what);
        hint("a training is resumed with the model and the data that it began with");
    }
    free(old.data);
    free(path);
    return status;
}

/* A line for each name: what would end a line is a blank. */
static int describe_names(const char *folder, const char *file, bool is_there, const char *what, const flx_dataset *d,
                          size_t n, const char *(*name_at)(const flx_dataset *d, size_t i))
{
    size_t size = 0;
    flx_buffer text = {0};
    for (size_t i = 0; i < n; i++)
        size += strlen(name_at(d, i)) + 1;
    char *lines = malloc(size + 1), *at = lines;
    if (!lines)
        return fail_memory();
    for (size_t i = 0; i < n; i++) {
        for (const char *c = name_at(d, i); *c; c++)
            *at++ = *c == '\n' || *c == '\r' ? ' ' : *c;
        *at++ = '\n';
    }
    text.data = lines;
    text.size = size;
    int status = n ? describe(folder, file, &text, is_there, what) : STATUS_OK;
    free(lines);
    return status;
}

static int describe_classes(const char *folder, const train_plan *p, bool is_there)
{
    const flx_dataset *d = p->data.data;
    int status = describe_names(folder, "classes.txt", is_there, "list of classes", d, flx_dataset_classes(d),
                                flx_dataset_class);
    if (status || !p->data.has_names)
        return status;
    return describe_names(folder, "features.txt", is_there, "list of columns", d, flx_dataset_features(d),
                          flx_dataset_feature);
}

int run_folder_describe(const char *folder, const train_plan *p, bool is_there)
{
    flx_buffer graphs = {0}, tokeniser = {0};
    flx_error err = {0};
    flx_code code = flx_module_print(p->model.module, &graphs, &err);
    if (code == FLX_OK && p->data.tokeniser)
        code = flx_tokeniser_print(p->data.tokeniser, &tokeniser, &err);
    int status = code == FLX_OK ? describe(folder, "model.flx", &graphs, is_there, "model") : report(&err, NULL);
    if (!status && p->data.tokeniser)
        status = describe(folder, "tokeniser.json", &tokeniser, is_there, "text");
    if (!status)
        status = describe_classes(folder, p, is_there);
    flx_buffer_free(&graphs);
    flx_buffer_free(&tokeniser);
    return status;
}

int run_folder_write_settings(const char *folder, const train_plan *p)
{
    return with_path(folder, "settings.train", write_text, p->settings.text);
}

/* ---- Checkpoints ---- */

static flx_code fill(flx_checkpoint *c, const train_plan *p, const flx_trainer *t, const run_position *at,
                     flx_error *err)
{
    const struct {
        const char *key;
        int64_t number;
    } numbers[] = {{"step", at->step},
                   {"epoch", at->epoch},
                   {"row", at->row},
                   {"best_epoch", at->best_epoch},
                   {"validation_is_due", at->is_due},
                   {"seed", p->seed},
                   {"batch", p->batch},
                   {"rows", flx_dataset_rows(p->data.data)}};
    char best[40];
    snprintf(best, sizeof best, "%a", at->best);
    flx_code code = p->options.mesh ? FLX_OK : flx_trainer_store(t, NULL, c, err); /* else the parts have it */
    if (code == FLX_OK)
        code = flx_checkpoint_set(c, "best", best, err);
    if (code == FLX_OK)
        code = flx_checkpoint_set(c, "optimiser", flx_optimiser_name(p->options.optimiser), err);
    if (code == FLX_OK)
        code = flx_checkpoint_set(c, "split", p->split, err);
    for (size_t i = 0; code == FLX_OK && i < sizeof numbers / sizeof *numbers; i++)
        code = flx_checkpoint_set_number(c, numbers[i].key, numbers[i].number, err);
    return code;
}

int run_folder_make_parts(const char *folder)
{
    return with_path(folder, parts_name, make_folder, NULL);
}

/* All ranks write their parts; a checkpoint of one process is older then. */
static int save_parts(const char *folder, const train_plan *p, const flx_trainer *t, flx_checkpoint *c)
{
    flx_error err = {0};
    char *path = path_in(folder, parts_name);
    int status = path ? STATUS_OK : fail_memory();
    if (!status && flx_trainer_store_parts(t, c, path, &err) != FLX_OK)
        status = output_failed(path, &err);
    if (!status && share_writes(p))
        status = with_path(folder, checkpoint_name, remove_file, NULL);
    free(path);
    return status;
}

static int save_whole(const char *folder, const flx_checkpoint *c)
{
    flx_error err = {0};
    char *path = path_in(folder, checkpoint_name);
    int status = path ? STATUS_OK : fail_memory();
    if (!status && flx_checkpoint_write(c, path, &err) != FLX_OK)
        status = output_failed(path, &err);
    free(path);
    return status ? status : with_path(folder, parts_name, remove_parts, NULL);
}

int run_folder_save(const char *folder, const train_plan *p, const flx_trainer *t, const run_position *at)
{
    flx_error err = {0};
    flx_checkpoint *c = flx_checkpoint_new(p->model.ctx, &err);
    bool is_made = c && fill(c, p, t, at, &err) == FLX_OK;
    int status = !is_made ? report(&err, NULL) : p->options.mesh ? save_parts(folder, p, t, c) : save_whole(folder, c);
    flx_checkpoint_free(c);
    return status;
}

/* With another seed, batch size or number of rows the rest of the batches would not be those that are left. */
static int check_same(const flx_checkpoint *c, const char *path, const char *key, int64_t now)
{
    flx_error err = {0};
    int64_t then;
    if (flx_checkpoint_number(c, key, &then, &err) != FLX_OK)
        return report(&err, path);
    if (then == now)
        return STATUS_OK;
    return fail(FLX_E_USAGE, "%s was written with %s = %lld, but the settings have %s = %lld", path, key,
                (long long)then, key, (long long)now);
}

static int check_same_optimiser(const flx_checkpoint *c, const char *path, const train_plan *p)
{
    const char *then = flx_checkpoint_text(c, "optimiser"), *now = flx_optimiser_name(p->options.optimiser);
    if (then && strcmp(then, now) == 0)
        return STATUS_OK;
    return fail(FLX_E_USAGE, "%s was written with optimiser = %s, but the settings have optimiser = %s", path,
                then ? then : "?", now);
}

/* Another split trains on rows that were for validation. Checkpoints of versions that did not write how they split
   had the last rows for validation. */
static int check_same_split(const flx_checkpoint *c, const char *path, const train_plan *p)
{
    const char *then = flx_checkpoint_text(c, "split");
    if (then ? strcmp(then, p->split) == 0 : strncmp(p->split, "random", 6) != 0)
        return STATUS_OK;
    int status = fail(FLX_E_USAGE, "%s was written with split = %s, but the settings have split = %s", path,
                      then ? then : "last(…)", p->split);
    hint("rows for validation would be trained on: write the split as it was");
    return status;
}

static int take_position(const flx_checkpoint *c, const char *path, run_position *at)
{
    flx_error err = {0};
    flx_code code = flx_checkpoint_number(c, "step", &at->step, &err);
    if (code == FLX_OK)
        code = flx_checkpoint_number(c, "epoch", &at->epoch, &err);
    if (code == FLX_OK)
        code = flx_checkpoint_number(c, "row", &at->row, &err);
    if (code == FLX_OK)
        code = flx_checkpoint_number(c, "best_epoch", &at->best_epoch, &err);
    int64_t due = 0;
    if (code == FLX_OK)
        code = flx_checkpoint_number(c, "validation_is_due", &due, &err);
    at->is_due = due != 0;
    const char *best = flx_checkpoint_text(c, "best");
    at->best = best ? strtod(best, NULL) : INFINITY;
    return code == FLX_OK ? STATUS_OK : report(&err, path);
}

/* Of whole values: those of one process, or the parts of this rank. */
static flx_code restore_whole(const flx_checkpoint *c, const train_plan *p, flx_trainer *t, flx_error *err)
{
    flx_params *sets[] = {flx_trainer_params(t), flx_trainer_state(t)};
    if (!p->options.mesh)
        return flx_trainer_restore(t, NULL, c, err);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < flx_params_count(sets[k]); i++) {
            const char *name = flx_params_name(sets[k], i), *cuts = flx_trainer_cut(t, name);
            const flx_tensor *whole = flx_checkpoint_tensor(c, name, err);
            if (!whole)
                return (flx_code)err->code;
            flx_tensor *part =
                cuts ? flx_mesh_part(p->model.ctx, whole, p->mesh, cuts, flx_mesh_rank(p->model.ctx), err) : NULL;
            flx_code code =
                cuts && !part ? (flx_code)err->code : flx_params_set(sets[k], name, part ? part : whole, err);
            flx_tensor_release(part);
            if (code != FLX_OK)
                return code;
        }
    return FLX_OK;
}

/* `parts` NULL: the checkpoint is one file. */
static int take_all(const flx_checkpoint *c, const char *path, const char *parts, const train_plan *p, flx_trainer *t,
                    run_position *at)
{
    flx_error err = {0};
    int status = check_same(c, path, "seed", p->seed);
    if (!status)
        status = check_same(c, path, "batch", p->batch);
    if (!status)
        status = check_same(c, path, "rows", flx_dataset_rows(p->data.data));
    if (!status)
        status = check_same_split(c, path, p);
    if (!status)
        status = check_same_optimiser(c, path, p);
    if (!status)
        status = take_position(c, path, at);
    if (status)
        return status;
    flx_code code = parts ? flx_trainer_load_parts(t, NULL, parts, &err) : restore_whole(c, p, t, &err);
    if (code == FLX_OK)
        return STATUS_OK;
    status = report(&err, parts ? parts : path);
    if (err.code != FLX_E_SYNTAX && err.code != FLX_E_IO) /* what cannot be read */
        hint("a training is resumed with the model and the optimiser that it began with");
    return status;
}

int run_folder_load(const char *folder, const train_plan *p, flx_trainer *t, run_position *at)
{
    flx_error err = {0};
    bool is_whole;
    int status = has_file(folder, checkpoint_name, &is_whole);
    if (status)
        return status;
    char *path = path_in(folder, is_whole ? checkpoint_name : index_name), *parts = path_in(folder, parts_name);
    flx_checkpoint *c = path && parts ? flx_checkpoint_read(p->model.ctx, path, &err) : NULL;
    status = !path || !parts ? fail_memory()
             : !c            ? report(&err, path)
                             : take_all(c, path, is_whole ? NULL : parts, p, t, at);
    flx_checkpoint_free(c);
    free(parts);
    free(path);
    return status;
}

static int write_weights(const char *path, const void *user)
{
    flx_error err = {0};
    return flx_params_save(user, path, &err) == FLX_OK ? STATUS_OK : output_failed(path, &err);
}

int run_folder_write_weights(const char *folder, const flx_params *weights)
{
    return with_path(folder, weights_name, write_weights, weights);
}

static int read_weights(const char *path, const void *user)
{
    flx_error err = {0};
    flx_params *weights = (flx_params *)(uintptr_t)user;
    return flx_params_load(weights, path, FLX_PARAMS_SURPLUS, &err) == FLX_OK ? STATUS_OK : report(&err, path);
}

int run_folder_read_weights(const char *folder, flx_params *weights)
{
    return with_path(folder, weights_name, read_weights, weights);
}

/* ---- The log ---- */

/* A line `series,step,time,value`; others, such as the first one, say nothing. */
static flx_code add_line(char *line, int64_t last_step, flx_report *report, flx_error *err)
{
    char *value = strrchr(line, ','), *time, *step;
    int64_t at;
    double number;
    if (!value)
        return FLX_OK;
    *value++ = 0;
    value[strcspn(value, "\r\n")] = 0;
    if (!(time = strrchr(line, ',')))
        return FLX_OK;
    *time = 0;
    if (!(step = strrchr(line, ',')))
        return FLX_OK;
    *step++ = 0;
    if (!read_i64(step, &at) || !read_number(value, &number) || at > last_step)
        return FLX_OK;
    return flx_report_add_value(report, line, at, number, err);
}

int run_folder_read_log(const char *folder, int64_t last_step, flx_report *report_to)
{
    char *path = path_in(folder, log_name), *line = NULL;
    size_t room = 0;
    flx_error err = {0};
    flx_code code = FLX_OK;
    FILE *f = path ? fopen(path, "r") : NULL; /* without one, the curves begin here */
    while (f && code == FLX_OK && getline(&line, &room, f) > 0)
        code = add_line(line, last_step, report_to, &err);
    if (f)
        fclose(f);
    free(line);
    free(path);
    return code == FLX_OK ? STATUS_OK : report(&err, NULL);
}
