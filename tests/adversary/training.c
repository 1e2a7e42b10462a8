/* SPDX-License-Identifier: Apache-2.0 */
/* training.c: flx train on changed settings and data, then its folder with one file changed: a checkpoint with other
   bytes is refused, and everything else that reads the folder ends with a result or a message. */
#include "adversary.h"
#include "mutate/mutate.h"
#include "process.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static const char *const folders[] = {"tests/adversary/settings", NULL};
static const char table[] = "a,b,kind\n1,2,u\n3,4,v\n5,6,u\n-1.5,0.25,v\n7e-3,8,u\n2,2,v\n";

static struct {
    seed_list settings;
    word_list words;
    language l;
} known;

static void load(void)
{
    if (known.settings.n)
        return;
    known.settings = load_seeds(folders, ".train", "#");
    known.words = load_words("settings.dict");
    known.l = (language){&known.words, &known.settings, NULL};
}

static void write_in(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[900];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    write_file(path, bytes, n, 0600);
}

/* Half of the settings stay as they are, so that there is a folder for the next step. */
static void write_settings(const char *dir)
{
    static char text[MUTATE_ROOM], data[MUTATE_ROOM];
    const seed_file *f = pick_seed(&known.settings);
    size_t n = f->size, m = sizeof table - 1;
    memcpy(text, f->bytes, n);
    memcpy(data, table, m);
    if (pick_below(2))
        n = mutate_text(&known.l, f->bytes, f->size, text, sizeof text);
    if (pick_below(3) == 0)
        m = LLVMFuzzerMutate((uint8_t *)data, m, sizeof data);
    case_input(text, n);
    write_in(dir, "t.train", text, n);
    write_in(dir, "table.csv", data, m);
}

/* Changes one file of the folder. Returns whether its bytes differ now, which they do as a rule. */
static bool change_file(const char *dir, const char *name)
{
    static uint8_t old[MUTATE_ROOM], bytes[MUTATE_ROOM];
    char path[900];
    snprintf(path, sizeof path, "%s/t.run/%s", dir, name);
    FILE *f = fopen(path, "rb");
    if (!f) /* not every training has every file */
        return false;
    size_t n = fread(old, 1, sizeof old / 2, f), m = n;
    fclose(f);
    memcpy(bytes, old, n);
    if (strstr(name, ".safetensors"))
        m = mutate_safetensors(bytes, n, sizeof bytes / 2, &known.l);
    else if (pick_below(3) == 0)
        m = LLVMFuzzerMutate(bytes, n, sizeof bytes / 2);
    else
        m = mutate_text(&known.l, (char *)old, n, (char *)bytes, sizeof bytes / 2);
    case_input(bytes, m);
    write_file(path, bytes, m, 0600);
    return n < sizeof old / 2 && (m != n || memcmp(old, bytes, n) != 0);
}

static void try_resume(const scene *s, process_result *r)
{
    static const char *const args[] = {"train", "t.train", "--resume", "--steps", "3", NULL};
    bool is_changed = pick_below(2) && change_file(s->dir, "checkpoint.safetensors");
    run_flx_patiently(s->dir, args, s->env, r);
    CHECK_MSG(!is_changed || r->status != 0, "a checkpoint whose bytes differ was read\n%s", r->out);
}

static void try_predict(const scene *s, process_result *r)
{
    static const char *const files[] = {"weights.safetensors", "model.flx",    "settings.train",
                                        "classes.txt",         "features.txt", "tokeniser.json"};
    static const char *const predict[] = {"predict", "t.run", "table.csv", NULL};
    static const char *const generate[] = {"generate", "t.run", "--tokens", "3", NULL};
    change_file(s->dir, files[pick_below(sizeof files / sizeof *files)]);
    run_flx_patiently(s->dir, pick_below(3) ? predict : generate, s->env, r);
}

void attack_training(uint64_t seed)
{
    static process_result r;
    static const char *const train[] = {"train", "t.train", "--steps", "2", NULL};
    static const char *const dry_run[] = {"train", "t.train", "--dry-run", NULL};
    scene s;
    mutate_begin(seed);
    load();
    scene_begin(&s);
    if (pick_below(8)) /* most of the time of a case is the C compiler's */
        scene_add(&s, "FLX_CC=/nonexistent/cc");
    write_settings(s.dir);
    run_flx_patiently(s.dir, pick_below(6) ? train : dry_run, s.env, &r);
    if (r.status == 0) {
        case_accepted();
        if (pick_below(2))
            try_resume(&s, &r);
        else
            try_predict(&s, &r);
    }
    need_no_leftovers(&s, "training");
}
