/* SPDX-License-Identifier: Apache-2.0 */
/* all_reduce.c: the op all_reduce beside MPI_Allreduce, alternately in the same processes. A program of MPI: it is
   compiled with mpicc and run with mpirun.

       mpicc -O2 -Iinclude bench/mesh/all_reduce.c -Lbuild -lfluxion -Wl,-rpath,$PWD/build -o build/bench_all_reduce
       mpirun -n 2 --bind-to core build/bench_all_reduce [MEGABYTES [ROUNDS]]

   Prints one line of JSON: seconds of both, and their ratio, for the fastest round, the median and the mean. A round
   takes as long as the slowest process. */
#include <fluxion/fluxion.h>
#include <fluxion/mesh.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 1000 };

static void check(int ok, const flx_error *err)
{
    if (ok)
        return;
    fprintf(stderr, "error: %s\n", err->message);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static flx_exec *compile(flx_context *ctx, size_t count)
{
    char text[100];
    flx_error err = {0};
    snprintf(text, sizeof text, "graph f(x: f32[%zu]) { return all_reduce(x, axis_name=\"data\") }", count);
    flx_module *m = flx_parse(ctx, text, strlen(text), "bench", &err);
    check(m != NULL, &err);
    const flx_compile_options o = {.struct_size = sizeof o, .device = "cpu", .threads = 1};
    flx_exec *e = flx_compile(flx_module_main(m), &o, &err);
    check(e != NULL, &err);
    flx_module_free(m);
    return e;
}

/* Seconds of the slowest process. */
static double time_one(flx_exec *e, const float *in, float *out, size_t count)
{
    flx_error err = {0};
    double most, start;
    MPI_Barrier(MPI_COMM_WORLD);
    start = MPI_Wtime();
    if (e)
        check(flx_exec_run_at(e, (const void *const[]){in}, (void *const[]){out}, &err) == FLX_OK, &err);
    else
        MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double own = MPI_Wtime() - start;
    MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static double mean(const double *x, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

int main(int argc, char **argv)
{
    static double theirs[MOST_ROUNDS], ours[MOST_ROUNDS];
    int rank, size, level;
    flx_error err = {0};
    size_t count = (size_t)(argc > 1 ? atoi(argv[1]) : 64) << 18;
    int rounds = argc > 2 ? atoi(argv[2]) : 20;
    rounds = rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    flx_context *ctx = flx_context_new(NULL);
    check(flx_mesh_join(ctx, NULL, &err) == FLX_OK, &err);
    flx_exec *e = compile(ctx, count);
    float *in = malloc(count * sizeof *in), *out = malloc(count * sizeof *out), *other = malloc(count * sizeof *other);
    for (size_t i = 0; i < count; i++)
        in[i] = (float)((i * 7 + (size_t)rank) % 1000);
    for (int i = -2; i < rounds; i++) {
        double t = time_one(NULL, in, other, count), u = time_one(e, in, out, count);
        if (i >= 0) {
            theirs[i] = t;
            ours[i] = u;
        }
    }
    if (memcmp(out, other, count * sizeof *out) != 0) /* sums of whole numbers are exact */
        printf("rank %d: the results differ\n", rank);
    qsort(theirs, (size_t)rounds, sizeof *theirs, compare);
    qsort(ours, (size_t)rounds, sizeof *ours, compare);
    if (rank == 0)
        printf("{\"ranks\": %d, \"mb\": %zu, \"mpi_best\": %.4g, \"best\": %.4g, \"ratio_best\": %.3f, "
               "\"ratio_median\": %.3f, \"ratio_mean\": %.3f}\n",
               size, count >> 18, theirs[0], ours[0], ours[0] / theirs[0], ours[rounds / 2] / theirs[rounds / 2],
               mean(ours, rounds) / mean(theirs, rounds));
    free(in);
    free(out);
    free(other);
    flx_exec_free(e);
    flx_context_free(ctx);
    MPI_Finalize();
    return 0;
}
