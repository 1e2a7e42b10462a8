/* SPDX-License-Identifier: Apache-2.0 */
/* race.c: several processes compile the same and different graphs in one object cache at once, and some are killed. The
   others print what they should, and what a killed one leaves is removed by later runs. */
#include "adversary.h"
#include "exact_graph.h"
#include "mutate/mutate.h"
#include "process.h"
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { GRAPHS = 3, PROCESSES = 6 };

typedef struct {
    char dir[800]; /* with g.flx */
    char expected[OUTPUT_ROOM];
} place;

typedef struct {
    pid_t pid;
    const place *at;
    char name[20];
    bool is_killed;
} racer;

static void check_racer(const racer *x)
{
    static process_result r;
    end_flx(x->pid, x->at->dir, x->name, &r);
    if (x->is_killed && r.status == 128 + SIGKILL)
        return;
    need_sane(&r, x->name);
    CHECK_MSG(r.status == 0 && strcmp(r.out, x->at->expected) == 0, "status %d, printed\n%s\ninstead of\n%s\n%s",
              r.status, r.out, x->at->expected, r.err);
}

/* The first process runs the first graph. */
static void race(const place *places, const char *const *env, bool may_kill)
{
    racer x[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        x[i] = (racer){.at = &places[i ? pick_below(GRAPHS) : 0]};
        snprintf(x[i].name, sizeof x[i].name, "racer%d", i);
        x[i].pid = start_flx(x[i].at->dir, x[i].name, exact_run, env);
    }
    for (int i = 0; may_kill && i < PROCESSES; i++)
        if (pick_below(3) == 0) {
            nanosleep(&(struct timespec){.tv_nsec = (long)pick_below(120) * 1000000}, NULL);
            kill(x[i].pid, SIGKILL);
            x[i].is_killed = true;
        }
    for (int i = 0; i < PROCESSES; i++)
        check_racer(&x[i]);
}

/* What remains of killed processes is removed when it is an hour old. */
static void make_old(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, ".tmp-", 5) == 0) {
            char path[1200];
            struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            utimensat(AT_FDCWD, path, old, AT_SYMLINK_NOFOLLOW);
        }
    if (d)
        closedir(d);
}

static void new_graph(place *p)
{
    write_exact_graph(p->dir);
    expect_exact(p->dir, p->expected);
}

static bool has_leftovers(const scene *s)
{
    return count_names(s->cache, ".tmp-") || count_names(s->tmp, "");
}

void attack_race(uint64_t seed)
{
    static place places[GRAPHS];
    scene s;
    mutate_begin(seed);
    scene_begin(&s);
    for (int i = 0; i < GRAPHS; i++) {
        snprintf(places[i].dir, sizeof places[i].dir, "%s/graph%d", s.dir, i);
        CHECK(mkdir(places[i].dir, 0700) == 0);
        new_graph(&places[i]);
    }
    bool may_kill = pick_below(2);
    for (int round = 0; round < 3; round++)
        race(places, s.env, may_kill && round < 2);
    if (may_kill)
        make_old(s.cache);
    for (int i = 0; may_kill && i < 20 && has_leftovers(&s); i++) {
        new_graph(&places[0]); /* both folders are searched by those that compile, unless the cache has the object */
        race(places, s.env, false);
    }
    need_no_leftovers(&s, may_kill ? "after kills" : "without kills");
    case_accepted();
}
