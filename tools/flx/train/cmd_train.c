/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_train.c: `flx train`: a training from a file of settings. */
#include "args.h"
#include "command/cmd_devices.h"
#include "commands.h"
#include "mesh/mesh_run.h"
#include "report.h"
#include "train/data/share.h"
#include "train/mesh_setting.h"
#include "train/rank_threads.h"
#include "train/training.h"

#include <stdio.h>
#include <stdlib.h>

static int read_request(const args *a, const train_plan *p, training_request *r, char **folder)
{
    const char *steps = args_value(a, "--steps"), *out = args_value(a, "--out");
    *r = (training_request){.trace = args_value(a, "--trace"),
                            .resumes = args_has(a, "--resume"),
                            .overwrites = args_has(a, "--overwrite"),
                            .is_dry = args_has(a, "--dry-run")};
    if (steps && (!read_i64(steps, &r->steps) || r->steps < 1))
        return fail(FLX_E_USAGE, "--steps must be a positive integer, got '%s'", steps);
    if (r->resumes && r->overwrites)
        return fail(FLX_E_USAGE, "--resume continues a training, --overwrite begins it again: give one of them");
    if (asprintf(folder, out ? "%s" : "%s.run", out ? out : p->name) < 0) {
        *folder = NULL;
        return fail_memory();
    }
    r->folder = *folder;
    return device_choose(args_value(a, "--device"), &r->device);
}

static int run_train(const args *a)
{
    train_plan p;
    training_request r;
    char *folder = NULL;
    const char *transport = mesh_run_transport(a);
    int status = plan_read(&p, a->operand);
    if (!status)
        status = read_request(a, &p, &r, &folder);
    if (!status)
        status = mesh_setting_apply(&p, args_value(a, "--mesh"));
    if (!status && transport)
        status = share_begin(&p, transport);
    if (!status && p.mesh && !transport)
        status = rank_threads_run(&p, a->operand, &r);
    else if (!status)
        status = training_run(&p, &r);
    share_end(&p, status);
    free(folder);
    plan_free(&p);
    return status;
}

static const option options[] = {
    {"--out", "DIR", "the folder to write; NAME.run for NAME.train unless given", MAY_BE_GIVEN},
    {"--resume", NULL, "continue from the checkpoint in that folder", MAY_BE_GIVEN},
    {"--overwrite", NULL, "begin again although the folder has a checkpoint", MAY_BE_GIVEN},
    {"--steps", "N", "end after step N", MAY_BE_GIVEN},
    {"--device", "NAME", "where steps and validation run; see `flx devices`", MAY_BE_GIVEN},
    {"--dry-run", NULL, "compile, take five steps, print parameters, operations, memory and time;\nwrite nothing",
     MAY_BE_GIVEN},
    {"--trace", "FILE", "write when each part of one step ran, for Perfetto or Chrome", MAY_BE_GIVEN},
    {"--mesh", "AXES", "cut the step for a mesh of ranks, such as data=2,model=2; docs/distributed.md", MAY_BE_GIVEN},
    {"--mpi", NULL,
     "the ranks are the processes that mpirun or srun has started, else threads;\nwithout --mesh they share every "
     "batch",
     MAY_BE_GIVEN},
    OPTION_NCCL,
    {0},
};

static const char *const examples[] = {
    "flx train examples/digits.train --dry-run",
    "flx train examples/digits.train --steps 40 --out digits.run",
    "flx train examples/digits.train --steps 60 --out digits.run --resume",
    NULL,
};

const command command_train = {
    .name = "train",
    .operand = "FILE",
    .summary = "train a model as a file of settings describes it",
    .about =
        "Reads settings (`name = value`) and the model, compiles loss, gradients and optimiser to one step, and\n"
        "trains. On a terminal a line shows the loss, the speed and the time left; elsewhere lines appear from\n"
        "time to time. docs/train-command.md lists the settings.\n"
        "\n"
        "The folder gets a checkpoint (every minute, at the end, and when the training is stopped by Ctrl-C),\n"
        "weights.safetensors, model.flx, report.html, log.csv and log.tfevents (for TensorBoard). A training that\n"
        "is resumed gives the same weights as one that was never stopped; only the means of training in the\n"
        "epoch that was interrupted are those of its rest.\n"
        "\n"
        "With --mpi (mpirun -n 4 flx train FILE --mpi) processes share every batch, whose size they must divide;\n"
        "the first one writes the folder. With --mesh, or the setting of that name, the step is cut: the settings\n"
        "shardings and zero say how. docs/distributed.md says more.",
    .options = options,
    .examples = examples,
    .run = run_train,
};
