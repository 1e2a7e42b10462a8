/* SPDX-License-Identifier: Apache-2.0 */
/* write_threads.c: files whose long steps are computed by several threads. A kernel or part that can be cut is a
   function of a range of its units, and has a second function, its task, which finds the arguments in a table. The
   file's share() gives each thread an equal range. No sum is cut, so results do not depend on the number of threads.

   With OpenMP the threads are those of its library. With POSIX threads they are a team, which the caller starts for a
   model and stops: the file itself has no state. */
#include "standalone/standalone.h"

/* ---- The team ---- */

static const char struct_text[] = "\n/* Threads that compute runs of a model together, from $_start() to $_stop(). */\n"
                                  "typedef struct $_team {\n"
                                  "    pthread_t helpers[^_MAX_THREADS - 1];\n"
                                  "    pthread_mutex_t lock;\n"
                                  "    pthread_cond_t begins, ends;\n"
                                  "    void (*task)(void *const *at, int thread, int64_t begin, int64_t end);\n"
                                  "    void *const *at;\n"
                                  "    int64_t count;\n"
                                  "    unsigned round; /* the task's number */\n"
                                  "    int num_helpers, num_begun, num_busy, stops;\n"
                                  "} $_team;\n\n";

static const char declarations_text[] = "/* Runs of this model are computed by that many threads, at most "
                                        "^_MAX_THREADS, the caller's among them. `team` is\n"
                                        "   the model's until $_stop(). */\n"
                                        "int $_start($ *m, $_team *team, int threads);\n"
                                        "/* Ends the threads; runs are computed by the caller's thread again. */\n"
                                        "void $_stop($ *m);\n";

static const char help_text[] =
    "\n/* What a thread of the team computes of its task. */\n"
    "static void $_do_part(const $_team *t, int thread)\n"
    "{\n"
    "    const int64_t threads = t->num_helpers + 1;\n"
    "    const int64_t begin = t->count * thread / threads, end = t->count * (thread + 1) / threads;\n"
    "    if (begin < end)\n"
    "        t->task(t->at, thread, begin, end);\n"
    "}\n"
    "\n"
    "/* A helper takes part in all rounds: none begins before all threads have ended the one before. */\n"
    "static void *$_help(void *team)\n"
    "{\n"
    "    $_team *const t = ($_team *)team;\n"
    "    unsigned done = 0;\n"
    "    pthread_mutex_lock(&t->lock);\n"
    "    const int thread = ++t->num_begun;\n"
    "    for (;;) {\n"
    "        while (t->round == done && !t->stops)\n"
    "            pthread_cond_wait(&t->begins, &t->lock);\n"
    "        if (t->stops)\n"
    "            break;\n"
    "        done = t->round;\n"
    "        pthread_mutex_unlock(&t->lock);\n"
    "        $_do_part(t, thread);\n"
    "        pthread_mutex_lock(&t->lock);\n"
    "        if (--t->num_busy == 0)\n"
    "            pthread_cond_signal(&t->ends);\n"
    "    }\n"
    "    pthread_mutex_unlock(&t->lock);\n"
    "    return NULL;\n"
    "}\n";

static const char share_text[] =
    "\n/* Runs a task on parts of [0, count), one for each thread. */\n"
    "static void $_share(const $ *m, void (*task)(void *const *, int, int64_t, int64_t), void *const *at, "
    "int64_t count)\n"
    "{\n"
    "    $_team *const t = m ? m->team : NULL;\n"
    "    if (!t || t->num_helpers == 0) {\n"
    "        task(at, 0, 0, count);\n"
    "        return;\n"
    "    }\n"
    "    pthread_mutex_lock(&t->lock);\n"
    "    t->task = task;\n"
    "    t->at = at;\n"
    "    t->count = count;\n"
    "    t->num_busy = t->num_helpers;\n"
    "    t->round++;\n"
    "    pthread_cond_broadcast(&t->begins);\n"
    "    pthread_mutex_unlock(&t->lock);\n"
    "    $_do_part(t, 0);\n"
    "    pthread_mutex_lock(&t->lock);\n"
    "    while (t->num_busy > 0)\n"
    "        pthread_cond_wait(&t->ends, &t->lock);\n"
    "    pthread_mutex_unlock(&t->lock);\n"
    "}\n";

static const char start_text[] = "\nint $_start($ *m, $_team *team, int threads)\n"
                                 "{\n"
                                 "    memset(team, 0, sizeof *team);\n"
                                 "    if (pthread_mutex_init(&team->lock, NULL) != 0)\n"
                                 "        return ^_NO_THREADS;\n"
                                 "    if (pthread_cond_init(&team->begins, NULL) != 0) {\n"
                                 "        pthread_mutex_destroy(&team->lock);\n"
                                 "        return ^_NO_THREADS;\n"
                                 "    }\n"
                                 "    if (pthread_cond_init(&team->ends, NULL) != 0) {\n"
                                 "        pthread_cond_destroy(&team->begins);\n"
                                 "        pthread_mutex_destroy(&team->lock);\n"
                                 "        return ^_NO_THREADS;\n"
                                 "    }\n"
                                 "    m->team = team;\n"
                                 "    for (int i = 1; i < threads && i < ^_MAX_THREADS; i++) {\n"
                                 "        if (pthread_create(&team->helpers[i - 1], NULL, $_help, team) != 0) {\n"
                                 "            $_stop(m);\n"
                                 "            return ^_NO_THREADS;\n"
                                 "        }\n"
                                 "        team->num_helpers = i;\n"
                                 "    }\n"
                                 "    return 0;\n"
                                 "}\n"
                                 "\n"
                                 "void $_stop($ *m)\n"
                                 "{\n"
                                 "    $_team *const t = m->team;\n"
                                 "    if (!t)\n"
                                 "        return;\n"
                                 "    pthread_mutex_lock(&t->lock);\n"
                                 "    t->stops = 1;\n"
                                 "    pthread_cond_broadcast(&t->begins);\n"
                                 "    pthread_mutex_unlock(&t->lock);\n"
                                 "    for (int i = 0; i < t->num_helpers; i++)\n"
                                 "        pthread_join(t->helpers[i], NULL);\n"
                                 "    pthread_cond_destroy(&t->ends);\n"
                                 "    pthread_cond_destroy(&t->begins);\n"
                                 "    pthread_mutex_destroy(&t->lock);\n"
                                 "    m->team = NULL;\n"
                                 "}\n";

/* Without OpenMP the pragma is not read, and the file is for one thread. */
static const char openmp_text[] =
    "\n/* Runs a task on parts of [0, count), one for each thread. */\n"
    "static void $_share(const $ *m, void (*task)(void *const *, int, int64_t, int64_t), void *const *at, "
    "int64_t count)\n"
    "{\n"
    "    (void)m;\n"
    "#if defined(_OPENMP)\n"
    "    const int limit = m ? ^_MAX_THREADS : 1; /* without a model by one */\n"
    "    const int most = omp_get_max_threads() < limit ? omp_get_max_threads() : limit;\n"
    "#pragma omp parallel num_threads(most)\n"
    "    {\n"
    "        const int64_t threads = omp_get_num_threads(), thread = omp_get_thread_num();\n"
    "        const int64_t begin = count * thread / threads, end = count * (thread + 1) / threads;\n"
    "        if (begin < end)\n"
    "            task(at, (int)thread, begin, end);\n"
    "    }\n"
    "#else\n"
    "    task(at, 0, 0, count);\n"
    "#endif\n"
    "}\n";

/* The text with the prefix for $, and in capitals for ^. */
static void add(flxi_sa_file *f, const char *text, flxi_strbuf *out)
{
    const char *capitals = flxi_sa_capitals(f);
    for (; *text; text++)
        if (*text == '$')
            flxi_add_text(out, f->prefix);
        else if (*text == '^')
            flxi_add_text(out, capitals);
        else
            flxi_add_char(out, *text);
}

void flxi_sa_threads_declare(flxi_sa_file *f, flxi_strbuf *out)
{
    if (f->threads)
        flxi_addf(out, "enum { %s_MAX_THREADS = %d };\n", flxi_sa_capitals(f), FLXI_SA_MAX_THREADS);
    if (f->threads == FLX_BUILD_PTHREADS)
        add(f, struct_text, out);
    else if (f->threads)
        flxi_add_char(out, '\n');
}

void flxi_sa_threads_declare_start(flxi_sa_file *f, flxi_strbuf *out)
{
    if (f->threads == FLX_BUILD_PTHREADS)
        add(f, declarations_text, out);
}

void flxi_sa_threads_include(const flxi_sa_file *f, flxi_strbuf *out)
{
    if (f->threads == FLX_BUILD_PTHREADS)
        flxi_add_text(out, "#include <pthread.h>\n");
    else if (f->threads)
        flxi_add_text(out, "#if defined(_OPENMP)\n#include <omp.h>\n#endif\n");
}

void flxi_sa_threads_define(flxi_sa_file *f, flxi_strbuf *out)
{
    if (f->threads == FLX_BUILD_PTHREADS)
        add(f, help_text, out);
    if (f->threads == FLX_BUILD_PTHREADS && f->shares)
        add(f, share_text, out);
    if (f->threads == FLX_BUILD_OPENMP && f->shares)
        add(f, openmp_text, out);
    if (f->threads == FLX_BUILD_PTHREADS)
        add(f, start_text, out);
}

/* ---- Tasks ---- */

/* static void NAME_(void *const *at, int thread, int64_t begin, int64_t end): the function on arguments of a table.
   Those that it gets for extents come from the end of the table (symbolic_thread.c). */
static const char *task_of(flxi_sa_routine *r, const flxi_sa_cut *c, uint32_t num_arguments)
{
    flxi_strbuf text;
    flxi_strbuf_init(&text, r->w.f->mem);
    flxi_add_text(&text, "static void NAME_(void *const *at, int thread, int64_t begin, int64_t end)\n{\n");
    if (r->w.f->num_symbols)
        flxi_addf(&text, "    extents_(at[%u]);\n", num_arguments);
    if (!c->takes_thread)
        flxi_add_text(&text, "    (void)thread;\n");
    flxi_addf(&text, "    %s(", c->function);
    for (uint32_t k = 0; k < num_arguments; k++)
        flxi_addf(&text, "at[%u], ", k);
    flxi_addf(&text, "%s%s);\n}\n", c->takes_thread ? "thread, " : "",
              c->takes_thread ? "begin, end" : "(uint64_t)begin, (uint64_t)end");
    const char *wanted = c->function + strlen(r->w.f->prefix) + 1;
    const char *name = flxi_sa_static_of(r->w.f, &text, &text, flxi_sa_text(r->w.f, "%.60s_task", wanted),
                                         flxi_sa_text(r->w.f, "%.60s as a task of threads", c->function));
    flxi_strbuf_free(&text);
    return name;
}

/* The threads of a step: none where extents leave too little work. */
static const char *team_for(flxi_sa_file *f, const flxi_sa_cut *c)
{
    if (!f->num_symbols || !c->work)
        return "m";
    return flxi_sa_text(f, "%lld < %lld ? NULL : m", (long long)c->work, (long long)c->least_work);
}

static void declare_extents(flxi_sa_writer *w)
{
    flxi_addf(w->out, "%*sconst int64_t extents[] = {", 4 * w->depth, "");
    for (size_t i = 0; i < w->f->num_symbols; i++)
        flxi_addf(w->out, "%s%s", i ? ", " : "", w->f->symbols[i]);
    flxi_add_text(w->out, "};\n");
}

void flxi_sa_share_call(flxi_sa_routine *r, const flxi_step *s, const flxi_sa_cut *c)
{
    flxi_sa_writer *w = &r->w;
    const char *task = task_of(r, c, s->num_slots + c->has_scratch);
    w->f->shares = true;
    for (uint32_t k = 0; k < s->num_slots; k++)
        flxi_sa_slot(r, s, k); /* variables come first */
    flxi_sa_open(w, "/* by all threads */");
    if (w->f->num_symbols)
        declare_extents(w);
    flxi_addf(w->out, "%*svoid *const task_at[] = {", 4 * w->depth, "");
    for (uint32_t k = 0; k < s->num_slots; k++)
        flxi_addf(w->out, "%s(void *)%s", k ? ", " : "", flxi_sa_slot(r, s, k));
    if (c->has_scratch)
        flxi_addf(w->out, ", arena + %zu", s->scratch_offset);
    flxi_add_text(w->out, w->f->num_symbols ? ", (void *)extents};\n" : "};\n");
    flxi_sa_line(w, "%s_share(%s, %s, task_at, %s);", w->f->prefix, team_for(w->f, c), task, c->units);
    if (c->has_end)
        flxi_sa_line(w, "%s(task_at, 0, %s, %s + 1);", task, c->units, c->units);
    flxi_sa_close(w);
}
