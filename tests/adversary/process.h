/* SPDX-License-Identifier: Apache-2.0 */
/* process.h: starting flx from a case, with an environment of its own, and looking at what it leaves. */
#ifndef FLX_ADVERSARY_PROCESS_H
#define FLX_ADVERSARY_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { OUTPUT_ROOM = 1 << 16, MAX_ARGS = 40, MAX_ENV = 8 };

typedef struct {
    int status; /* the exit status, or 128 + the signal that ended it */
    char out[OUTPUT_ROOM], err[OUTPUT_ROOM];
} process_result;

/* Starts flx with these arguments (without its own name; the list ends with NULL) in the folder `dir`; `env` is a list
   of NAME=VALUE that ends with NULL. Output goes to files DIR/NAME.out and DIR/NAME.err. */
pid_t start_flx(const char *dir, const char *name, const char *const *args, const char *const *env);

/* Waits until it could be ended by end_flx(). After that many seconds it is interrupted, which it must not ignore: the
   case fails if it has not ended 40 seconds later. */
void wait_patiently(pid_t pid, int seconds, bool *interrupted);

/* Waits for it and reads what it wrote. */
void end_flx(pid_t pid, const char *dir, const char *name, process_result *r);

/* Both. */
void run_flx(const char *dir, const char *const *args, const char *const *env, process_result *r);

/* The same for a program that may work for long. Fails the case unless it ends as need_sane() says, or by the
   interrupt. */
void run_flx_patiently(const char *dir, const char *const *args, const char *const *env, process_result *r);

void write_file(const char *path, const void *bytes, size_t size, unsigned mode);

/* Names in a folder that begin with `prefix` ("" for all); 0 when there is no such folder. */
size_t count_names(const char *folder, const char *prefix);

/* ---- A place of its own for flx ---- */

/* The folder of the case with an object cache and a folder for temporary files, and the settings that name them. */
typedef struct {
    const char *dir;
    char cache[800], tmp[800];
    char cache_setting[900], tmp_setting[900];
    const char *env[MAX_ENV]; /* ends with NULL; more may be added */
    size_t num_env;
} scene;

void scene_begin(scene *s);
void scene_add(scene *s, const char *setting);

/* Fails the case if temporary files are left. */
void need_no_leftovers(const scene *s, const char *what);

/* ---- Answers ---- */

/* Whether it ended with one of the statuses of the command line, and without a bug: no sanitizer's report, no code
   INTERNAL. Fails the case otherwise. */
void need_sane(const process_result *r, const char *what);

#endif
