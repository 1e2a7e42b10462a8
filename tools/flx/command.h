/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: what a command of flx is. Each command is one constant of this type, in the file cmd_<name>.c of a folder
   here; main.c lists them. Parsing of options, usage lines and help pages all come from these tables. */
#ifndef FLX_COMMAND_H
#define FLX_COMMAND_H

struct args;

typedef enum {
    MAY_BE_GIVEN,
    MAY_REPEAT,    /* NAME=VALUE, given once for each name */
    MUST_BE_GIVEN, /* the command reports when it is not */
} option_use;

typedef struct {
    const char *name;  /* "--in" */
    const char *value; /* what help calls its value ("NAME=SPEC"); NULL: a flag without value */
    const char *about; /* lines are broken by hand, to fit the help page */
    option_use use;
} option;

typedef struct {
    const char *name;
    /* What is given next to the options: "FILE", "[NAME]" for one that may be left out, "FILE [OUT]" for two of which
       the second may be, "" for none. */
    const char *operand;
    const char *summary;              /* one line for `flx help` */
    const char *about;                /* the body of the help page */
    const option *options;            /* ended by {0} */
    const char *const *examples;      /* command lines, ended by NULL; a test runs each of them */
    int (*run)(const struct args *a); /* returns the exit status, having reported what went wrong */
} command;

/* All of them, ended by NULL. */
extern const command *const commands[];

/* Rows that several commands share. */
#define OPTION_JSON                                                              \
    {                                                                            \
        "--json", NULL, "one JSON object per line instead of text", MAY_BE_GIVEN \
    }
#define OPTION_GRAPH                                                                                \
    {                                                                                               \
        "--graph", "NAME", "the graph of the file to take; the main one unless given", MAY_BE_GIVEN \
    }
#define OPTION_IN                                                                                      \
    {                                                                                                  \
        "--in", "NAME=SPEC", "the value of an input or parameter; SPEC is explained above", MAY_REPEAT \
    }
#define OPTION_INIT                                                                                              \
    {                                                                                                            \
        "--init", "SEED", "parameters without a value are initialised with this seed, as declared", MAY_BE_GIVEN \
    }

#define OPTION_VALUES                                                                              \
    {                                                                                              \
        "--values", "FILE",                                                                        \
            "the file of parameters, in place of m.safetensors: .npz, .safetensors or the\nindex " \
            "of one in parts, .pt",                                                                \
            MAY_BE_GIVEN                                                                           \
    }
#define OPTION_SET                                                           \
    {                                                                        \
        "--set", "DIM=INT", "the extent of a symbolic dimension", MAY_REPEAT \
    }

#define OPTION_FIX                                                                                                 \
    {                                                                                                              \
        "--fix", "NAME=SPEC",                                                                                      \
            "an input of an ONNX model that is a constant from now on, because a shape\nfollows from it: a file, " \
            "or integers, or texts in quotes, with commas between them",                                           \
            MAY_REPEAT                                                                                             \
    }

/* `absent` says what holds where it is not given. */
#define OPTION_ACTIVATION_BITS(absent)                                                                               \
    {                                                                                                                \
        "--activation-bits", "BITS",                                                                                 \
            "8: products of a language model with packed integers round the other side to\n8 bits in blocks, which " \
            "is about twice as fast; 32: they do not; " absent " unless given",                                      \
            MAY_BE_GIVEN                                                                                             \
    }

#define OPTION_DEVICE                                                                                                \
    {                                                                                                                \
        "--device", "NAME",                                                                                          \
            "where to run: cpu unless given, or ref, the reference evaluator\n(flx devices lists all)", MAY_BE_GIVEN \
    }

/* The words on values that the commands with --in share. */
#define ABOUT_SPEC                                                                                      \
    "SPEC is one of\n"                                                                                  \
    "  path.npy, path.npz:key, path.safetensors:key, path.pt:key\n"                                     \
    "                       a file; its shape must fit. Another float width is rounded to the\n"        \
    "                       input's, another integer width is taken when every value fits\n"            \
    "  1,2,3,4              these numbers, row by row, as many as there are elements\n"                 \
    "  a number             everywhere; zeros and ones are 0 and 1\n"                                   \
    "  iota                 0, 1, 2 ... in row-major order\n"                                           \
    "  normal, normal:SEED  normally distributed; for floating inputs\n"                                \
    "  uniform, uniform:SEED\n"                                                                         \
    "                       uniform in [0, 1); for floating inputs. The seed is 0 unless given\n"       \
    "A parameter that is not given is taken from the file of --values, or else from m.safetensors\n"    \
    "beside m.flx, or weights.safetensors beside the model.flx of a training folder, if that has it.\n" \
    "Symbolic dimensions take their extents from files and from --set."

#endif
