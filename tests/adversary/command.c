/* SPDX-License-Identifier: Apache-2.0 */
/* command.c: arguments of flx: commands of the golden files, with arguments removed, repeated, exchanged, changed and
   taken from other commands, on files that are changed too. flx ends with one of its statuses and, where that is not 0,
   a message; one that works for long ends when it is interrupted. */
#include "adversary.h"
#include "mutate/mutate.h"
#include "process.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COMMANDS = 2000, MAX_WORDS = 16 };

typedef struct {
    char *words[MAX_WORDS];
    size_t n;
    const seed_file *file;
} golden_command;

static struct {
    golden_command at[MAX_COMMANDS];
    size_t n;
    seed_list files[3];
    word_list dictionary;
} golden;

static const char *const suffixes[] = {".flx", ".flk", ".mlir"};

/* The simple part of a command: words up to the first that the shell would treat in a special way. */
static void read_command(const char *line, const seed_file *file)
{
    golden_command c = {.file = file};
    char *text = strndup(line, strcspn(line, "\n")), *rest = text;
    CHECK(text);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL && c.n < MAX_WORDS;) {
        if (strpbrk(word, "|;<>$\"'`&(*"))
            break;
        c.words[c.n++] = word;
    }
    bool is_long = c.n > 0 && strcmp(c.words[0], "bench") == 0; /* takes as long as its options say */
    if (c.n > 0 && !is_long && golden.n < MAX_COMMANDS)
        golden.at[golden.n++] = c; /* the words are in the text */
    else
        free(text);
}

static void load_commands(void)
{
    static const char *const folders[] = {"tests/golden", "tests/errors", NULL};
    if (golden.n)
        return;
    golden.dictionary = load_words("text.dict");
    for (size_t k = 0; k < 3; k++) {
        golden.files[k] = load_seeds(folders, suffixes[k], NULL);
        for (size_t i = 0; i < golden.files[k].n; i++) {
            const seed_file *f = &golden.files[k].files[i];
            for (const char *p = f->bytes; p && p < f->bytes + f->size; p = strchr(p, '\n'), p = p ? p + 1 : p)
                if (strncmp(p, "#$ flx ", 7) == 0 || strncmp(p, "//$ flx ", 8) == 0)
                    read_command(strchr(p, 'x') + 2, f);
        }
    }
    CHECK_MSG(golden.n > 100, "only %zu commands were found", golden.n);
}

/* ---- Changes ---- */

typedef struct {
    char *words[MAX_ARGS + 1];
    size_t n;
} words;

static void put_word(words *w, size_t at, const char *word)
{
    if (w->n == MAX_ARGS)
        return;
    memmove(&w->words[at + 1], &w->words[at], (w->n - at) * sizeof *w->words);
    w->words[at] = strdup(word);
    w->n++;
}

static void change_word(char **word)
{
    char fresh[300];
    char *equals = strchr(*word, '=');
    switch (pick_below(5)) {
    case 0: snprintf(fresh, sizeof fresh, "%lld", (long long)odd_integer()); break;
    case 1:
        snprintf(fresh, sizeof fresh, "%.*s=%lld", equals ? (int)(equals - *word) : 1, *word, (long long)odd_integer());
        break;
    case 2: snprintf(fresh, sizeof fresh, "%s,%s", *word, *word); break;
    case 3: snprintf(fresh, sizeof fresh, "%.*s", (int)pick_below(strlen(*word) + 1), *word); break;
    default: {
        snprintf(fresh, sizeof fresh - 1, "%s", *word);
        size_t n = LLVMFuzzerMutate((uint8_t *)fresh, strlen(fresh), sizeof fresh - 1);
        fresh[n] = 0;
        break;
    }
    }
    free(*word);
    *word = strdup(fresh);
}

static void change_words(words *w)
{
    const golden_command *other = &golden.at[pick_below(golden.n)];
    size_t at = pick_below(w->n), from = pick_below(w->n);
    char *swap = w->words[at];
    switch (pick_below(7)) {
    case 0:
        free(swap);
        memmove(&w->words[at], &w->words[at + 1], (w->n - at - 1) * sizeof *w->words);
        w->n--;
        break;
    case 1: put_word(w, at, w->words[from]); break;
    case 2:
        w->words[at] = w->words[from];
        w->words[from] = swap;
        break;
    case 3:
    case 4: { /* an option of another command with its value */
        size_t k = pick_below(other->n);
        put_word(w, at, other->words[k]);
        if (k + 1 < other->n)
            put_word(w, at + 1, other->words[k + 1]);
        break;
    }
    default: change_word(&w->words[at]); break;
    }
}

/* Files are written in the folder of the case only. */
static void keep_inside(words *w)
{
    for (size_t i = 0; i < w->n; i++)
        for (char *p = w->words[i]; *p; p++)
            if (*p == '/')
                *p = '_';
}

static void write_input(const golden_command *c, const char *dir)
{
    static char text[MUTATE_ROOM];
    char path[800];
    language l = {&golden.dictionary, &golden.files[0], NULL};
    size_t n = c->file->size;
    const char *bytes = c->file->bytes;
    if (pick_below(3) == 0) {
        n = mutate_text(&l, bytes, n, text, sizeof text);
        bytes = text;
    }
    snprintf(path, sizeof path, "%s/FILE", dir);
    write_file(path, bytes, n, 0600);
    case_input(bytes, n);
}

void attack_command(uint64_t seed)
{
    static process_result r;
    words w = {0};
    char line[2000] = "flx";
    bool interrupted = false;
    mutate_begin(seed);
    load_commands();
    const golden_command *c = &golden.at[pick_below(golden.n)];
    for (size_t i = 0; i < c->n; i++)
        put_word(&w, i, c->words[i]);
    for (size_t n = pick_below(pick_below(2) ? 2 : 5); n > 0 && w.n > 0; n--)
        change_words(&w);
    keep_inside(&w);
    w.words[w.n] = NULL;
    write_input(c, case_folder());
    for (size_t i = 0; i < w.n; i++) {
        size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, " '%s'", w.words[i]);
    }
    test_fail_context("%s", line);
    bool is_bench = false;
    for (size_t i = 0; i < w.n; i++)
        is_bench |= strcmp(w.words[i], "bench") == 0;
    if (!is_bench) {
        pid_t pid = start_flx(case_folder(), "flx", (const char *const *)w.words, NULL);
        wait_patiently(pid, 20, &interrupted);
        end_flx(pid, case_folder(), "flx", &r);
        if (!(interrupted && r.status == 128 + SIGINT))
            need_sane(&r, line);
        if (r.status == 0)
            case_accepted();
    }
    for (size_t i = 0; i < w.n; i++)
        free(w.words[i]);
}
