/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_model.c: `flx model`: usual models as text, to train as they are or to begin from. The graphs of a model have the
   same parameters: `loss` is for `flx train`, `predict` for everything else. */
#include "args.h"
#include "commands.h"
#include "io/load.h"
#include "report.h"
#include "suggest.h"

#include <fluxion/nn.h>
#include <fluxion/ops.h>
#include <fluxion/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIZES = 8 };

/* A number that the user may choose. */
typedef struct {
    const char *name;
    int64_t usual;
    const char *about;
} size_row;

typedef struct model_row model_row;

typedef struct {
    const model_row *row;
    int64_t sizes[MAX_SIZES]; /* as in row->sizes */
} chosen;

struct model_row {
    const char *name, *about;
    size_row sizes[MAX_SIZES]; /* ended by {0} */
    /* Appends the model to g. `is_training`: it is part of the loss. Returns the logits. */
    flx_val (*build)(flx_graph *g, const chosen *c, bool is_training);
    void (*loss)(flx_graph *g, const chosen *c, flx_val logits);
    bool has_modes; /* training computes the model in another way: `validate` is the loss without it */
    /* Appends the model as a step with states that gets each token once, or NULL. */
    flx_val (*build_step)(flx_graph *g, const chosen *c);
};

static int64_t size_of(const chosen *c, const char *name)
{
    for (int i = 0; c->row->sizes[i].name; i++)
        if (strcmp(c->row->sizes[i].name, name) == 0)
            return c->sizes[i];
    return 0;
}

static flx_dim batch(flx_graph *g)
{
    return flx_dim_symbol(flx_graph_context(g), "N");
}

/* ---- Classifiers ---- */

static void loss_of_classes(flx_graph *g, const chosen *c, flx_val logits)
{
    flx_type labels = flx_type_make(FLX_I32, 1, (flx_dim[]){batch(g)});
    flx_val label = flx_input(g, "label", &labels);
    (void)c;
    flx_output(g, flx_nn_cross_entropy(g, logits, label, 0), "loss");
    flx_output(g, flx_accuracy(g, logits, label), "accuracy");
}

static flx_val input_of_numbers(flx_graph *g, const chosen *c)
{
    flx_type type = flx_type_make(FLX_F32, 2, (flx_dim[]){batch(g), size_of(c, "inputs")});
    return flx_input(g, "x", &type);
}

static flx_val linear_layers(flx_graph *g, const chosen *c, flx_val x)
{
    int64_t units[64];
    size_t n = (size_t)size_of(c, "layers");
    for (size_t i = 0; i < n && i < 63; i++)
        units[i] = size_of(c, "width");
    units[n] = size_of(c, "classes");
    return flx_nn_mlp(g, "layer", x, units, n + 1, "relu");
}

static flx_val build_mlp(flx_graph *g, const chosen *c, bool is_training)
{
    (void)is_training;
    return linear_layers(g, c, input_of_numbers(g, c));
}

/* Columns of a table may be years and incomes: without the norm the largest ones would drown the others. */
static flx_val build_table(flx_graph *g, const chosen *c, bool is_training)
{
    const flx_nn_batch_norm_options norm = {.struct_size = sizeof norm, .is_training = is_training};
    return linear_layers(g, c, flx_nn_batch_norm(g, "columns", input_of_numbers(g, c), &norm));
}

/* Convolution, batch norm, relu and a maximum over windows of 2, again and again with twice the channels; then the mean
   over what is left of the image. */
static flx_val build_convnet(flx_graph *g, const chosen *c, bool is_training)
{
    int64_t size = size_of(c, "size"), channels = size_of(c, "width");
    flx_type type = flx_type_make(FLX_F32, 4, (flx_dim[]){batch(g), size_of(c, "channels"), size, size});
    flx_val x = flx_input(g, "x", &type);
    const flx_nn_conv_options conv = {.struct_size = sizeof conv, .no_bias = 1};
    const flx_nn_batch_norm_options norm = {.struct_size = sizeof norm, .is_training = is_training};
    for (int64_t i = 0; i < size_of(c, "layers"); i++, channels *= 2) {
        char name[2][40];
        snprintf(name[0], sizeof name[0], "conv%d", (int)i);
        snprintf(name[1], sizeof name[1], "norm%d", (int)i);
        x = flx_nn_conv(g, name[0], x, channels, &conv);
        x = flx_relu(g, flx_nn_batch_norm(g, name[1], x, &norm));
        if (i + 1 < size_of(c, "layers"))
            x = flx_nn_max_pool(g, x, NULL);
    }
    return flx_nn_linear(g, "head", flx_nn_global_avg_pool(g, x), size_of(c, "classes"), NULL);
}

/* ---- A decoder of text ---- */

static flx_nn_gpt_options gpt_options(const chosen *c, bool is_decoding)
{
    return (flx_nn_gpt_options){.struct_size = sizeof(flx_nn_gpt_options),
                                .is_decoding = is_decoding,
                                .vocabulary = size_of(c, "vocabulary"),
                                .width = size_of(c, "width"),
                                .layers = size_of(c, "layers"),
                                .heads = size_of(c, "heads"),
                                .context = size_of(c, "context")};
}

static flx_val build_gpt(flx_graph *g, const chosen *c, bool is_training)
{
    flx_type type = flx_type_make(FLX_I32, 2, (flx_dim[]){batch(g), size_of(c, "context")});
    const flx_nn_gpt_options options = gpt_options(c, false);
    (void)is_training;
    return flx_nn_gpt(g, "", flx_input(g, "x", &type), &options);
}

/* The same decoder for one text, of which it gets some tokens in each run. */
static flx_val build_gpt_step(flx_graph *g, const chosen *c)
{
    flx_type type = flx_type_make(FLX_I32, 2, (flx_dim[]){1, flx_dim_symbol(flx_graph_context(g), "S")});
    const flx_nn_gpt_options options = gpt_options(c, true);
    return flx_nn_gpt(g, "", flx_input(g, "x", &type), &options);
}

static void loss_of_tokens(flx_graph *g, const chosen *c, flx_val logits)
{
    flx_type type = flx_type_make(FLX_I32, 2, (flx_dim[]){batch(g), size_of(c, "context")});
    flx_val next = flx_input(g, "next", &type);
    flx_output(g, flx_nn_cross_entropy(g, logits, next, 0), "loss");
}

/* ---- The table ---- */

static const model_row rows[] = {
    {"mlp",
     "a network of linear layers that classifies x: f32[N, inputs]",
     {{"inputs", 784, "numbers of an example"},
      {"layers", 2, "hidden layers"},
      {"width", 128, "numbers of a hidden layer"},
      {"classes", 10, "classes"}},
     build_mlp,
     loss_of_classes,
     false,
     NULL},
    {"table",
     "the same for columns of any size: a batch norm of x comes first",
     {{"inputs", 4, "columns of the table, without the label"},
      {"layers", 2, "hidden layers"},
      {"width", 32, "numbers of a hidden layer"},
      {"classes", 2, "classes"}},
     build_table,
     loss_of_classes,
     true,
     NULL},
    {"convnet",
     "convolutions with batch norms that classify x: f32[N, channels, size, size]",
     {{"size", 28, "height and width of an image"},
      {"channels", 1, "of an image"},
      {"layers", 3, "convolutions, each with twice the channels"},
      {"width", 16, "channels of the first one"},
      {"classes", 10, "classes"}},
     build_convnet,
     loss_of_classes,
     true,
     NULL},
    {"gpt",
     "a decoder that predicts the next of the tokens x: i32[N, context]",
     {{"vocabulary", 256, "tokens; 256 for bytes"},
      {"context", 64, "tokens that it sees"},
      {"layers", 3, "blocks"},
      {"width", 96, "numbers of a token"},
      {"heads", 4, "heads of the attention"}},
     build_gpt,
     loss_of_tokens,
     false,
     build_gpt_step},
};

static const model_row *find_row(const char *name)
{
    suggestion guess = suggest_begin(name);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
        suggest_consider(&guess, rows[i].name);
    }
    fail(FLX_E_USAGE, "unknown model '%s'", name);
    if (guess.best)
        hint("did you mean '%s'?", guess.best);
    else
        hint("flx model lists them");
    return NULL;
}

static int no_such_size(const model_row *row, const char *name)
{
    int status = fail(FLX_E_USAGE, "--set %s: the model %s has no such number", name, row->name);
    hint_list_begin("it has");
    for (int i = 0; row->sizes[i].name; i++)
        list_item(row->sizes[i].name);
    hint_list_end();
    return status;
}

static int set_size(chosen *c, const char *text)
{
    char *name;
    const char *rest;
    int64_t number;
    int status = args_split("--set", text, "NAME=INT", &name, &rest);
    if (status)
        return status;
    int i = 0;
    while (c->row->sizes[i].name && strcmp(c->row->sizes[i].name, name) != 0)
        i++;
    if (!c->row->sizes[i].name)
        status = no_such_size(c->row, name);
    else if (!read_i64(rest, &number) || number < 1 || number > (strcmp(name, "layers") == 0 ? 60 : 1 << 24))
        status = fail(FLX_E_USAGE, "--set %s must be a positive integer%s, got '%s'", name,
                      strcmp(name, "layers") == 0 ? " up to 60" : "", rest);
    else
        c->sizes[i] = number;
    free(name);
    return status;
}

static int choose(chosen *c, const args *a)
{
    const char *text;
    size_t at = 0;
    c->row = find_row(a->operand);
    if (!c->row)
        return STATUS_BAD_INPUT;
    for (int i = 0; c->row->sizes[i].name; i++)
        c->sizes[i] = c->row->sizes[i].usual;
    while ((text = args_next(a, "--set", &at))) {
        int status = set_size(c, text);
        if (status)
            return status;
    }
    return STATUS_OK;
}

/* What a graph of the model is for. */
typedef enum { FOR_PREDICTION, FOR_DECODING, FOR_VALIDATION, FOR_TRAINING } purpose;

static const char *const purpose_names[] = {"predict", "decode", "validate", "loss"};

/* The message without the name of the C function that a layer of the model is. */
static int fail_model(flx_error *err)
{
    char *colon = strchr(err->message, ':');
    if (strncmp(err->message, "flx_nn_", 7) == 0 && colon && colon[1] == ' ')
        memmove(err->message, colon + 2, strlen(colon + 2) + 1);
    return report(err, NULL);
}

static int print_graph(flx_context *ctx, const chosen *c, purpose why)
{
    flx_error err = {0};
    flx_buffer text = {0};
    flx_graph *g = flx_graph_new(ctx, purpose_names[why]);
    if (!g)
        return fail_memory();
    flx_val logits = why == FOR_DECODING ? c->row->build_step(g, c) : c->row->build(g, c, why == FOR_TRAINING);
    if (why >= FOR_VALIDATION)
        c->row->loss(g, c, logits);
    else
        flx_output(g, logits, "logits");
    flx_code code = flx_graph_error(g, &err);
    if (code == FLX_OK)
        code = flx_graph_print(g, &text, &err);
    if (code == FLX_OK)
        printf("%s%s", why != FOR_PREDICTION ? "\n" : "", text.data);
    flx_buffer_free(&text);
    flx_graph_release(g);
    return code == FLX_OK ? STATUS_OK : fail_model(&err);
}

static int list_models(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        printf("%s%s: %s\n", i ? "\n" : "", rows[i].name, rows[i].about);
        for (const size_row *s = rows[i].sizes; s->name; s++)
            printf("  %-11s %4lld  %s\n", s->name, (long long)s->usual, s->about);
    }
    return STATUS_OK;
}

static int run_model(const args *a)
{
    chosen c = {0};
    if (!a->operand)
        return list_models();
    int status = choose(&c, a);
    flx_context *ctx = status ? NULL : new_context();
    if (!status && !ctx)
        status = fail_memory();
    if (!status)
        status = print_graph(ctx, &c, FOR_PREDICTION);
    if (!status && c.row->build_step)
        status = print_graph(ctx, &c, FOR_DECODING);
    if (!status && c.row->has_modes)
        status = print_graph(ctx, &c, FOR_VALIDATION);
    if (!status)
        status = print_graph(ctx, &c, FOR_TRAINING);
    flx_context_free(ctx);
    return status;
}

static const option options[] = {
    {"--set", "NAME=INT", "one of the numbers of the model", MAY_REPEAT},
    {0},
};

static const char *const examples[] = {
    "flx model",
    "flx model mlp --set inputs=4 --set classes=3",
    "flx model gpt --set layers=1 --set width=32 | flx check -",
    NULL,
};

const command command_model = {
    .name = "model",
    .operand = "[KIND]",
    .summary = "print a usual model as text: mlp, table, convnet, gpt",
    .about =
        "Prints the graphs `predict` and `loss` of a model (and `validate`, the loss as it is without training, where\n"
        "that differs; and `decode`, a decoder that gets each token once). Their parameters say how they are "
        "initialised. Train them with flx train, or change the\n"
        "text first. Without KIND it lists the models and their numbers.",
    .options = options,
    .examples = examples,
    .run = run_model,
};
