/* SPDX-License-Identifier: Apache-2.0 */
/* cache_fixture.h: a folder with a cache and a folder for temporary files, both empty at first, and small things to
   compile. */
#ifndef FLX_TEST_CACHE_FIXTURE_H
#define FLX_TEST_CACHE_FIXTURE_H

#include "backend/cpu/jit/compile_c.h"
#include "backend/failing_system.h"
#include "test.h"

typedef struct {
    char dir[700];   /* the cache; not made yet */
    char temp[700];  /* $TMPDIR */
    char dummy[800]; /* an object that holds answer() with value 42 */
    char evil[800];  /* one that calls itself answer() too, gives 666, and leaves a trace when it is loaded */
    char *old_cache, *old_temp, *old_cc;
} cache_fixture;

/* Lifts any plan. The environment has no FLX_CACHE then, and FLX_CC only as given. */
void cache_fixture_begin(cache_fixture *f, const char *compiler);
/* Checks that nothing is left. */
void cache_fixture_end(cache_fixture *f);

/* Compiles one text that makes answer() and calls it; `*answer` is -1 when that fails. */
flx_code compile_answer(flxi_compile_service *s, const char *text, int *answer, flx_error *err);
extern const char answer_text[];

flxi_compile_service *new_service(const cache_fixture *f, const flxi_allocator *mem);
flxi_compile_stats stats_of(flxi_compile_service *s);
bool was_evil_loaded(void);

/* The only entry of the cache that is larger than a version text. */
void find_entry(const cache_fixture *f, char path[900]);
/* Temporary files, in the cache or in the folder for them. */
bool has_leftovers(const cache_fixture *f);
size_t count_in(const char *dir); /* files; SIZE_MAX when there is no such directory */
size_t count_descriptors(void);
void empty_dir(const char *dir);

/* Whole files; read_bytes() gives memory that the caller frees. */
unsigned char *read_bytes(const char *path, size_t *n);
void write_bytes(const char *path, const void *bytes, size_t n);
/* An executable script with this text. */
void write_script(const char *path, const char *text);

/* Sets an environment variable, or removes it; gives its old value, to be handed to put_variable(). */
char *set_variable(const char *name, const char *value);
void put_variable(const char *name, char *kept);

#endif
