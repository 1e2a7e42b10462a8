/* SPDX-License-Identifier: Apache-2.0 */
/* A network of two layers learns to read drawn digits, and an HTML file shows how: curves of the loss, the rate and the
   accuracy, the training step as a graph, digits that it reads wrongly, and which digits it confuses. Prints the loss
   of each epoch and the accuracy on digits that were not trained on, and writes digits.html to the current folder. */
#include "example.h"
#include <fluxion/data.h>
#include <fluxion/nn.h>
#include <fluxion/report.h>

enum { TEST = 500, BATCH = 50, EPOCHS = 8 };

/* Outputs: the loss, the accuracy and the digits that the network reads. */
static flx_graph *build(flx_context *ctx)
{
    flx_dim n = flx_dim_symbol(ctx, "N");
    flx_graph *g = flx_graph_new(ctx, "digits");
    flx_type images = of_type(FLX_F32, FLX_INTS(n, 1, 28, 28)), labels = of_type(FLX_I32, FLX_INTS(n));
    flx_val x = flx_input(g, "x", &images), label = flx_input(g, "label", &labels);
    x = flx_reshape(g, x, .shape = FLX_INTS(n, 28 * 28));
    flx_val logits = flx_nn_mlp(g, "net", x, (const int64_t[]){128, 10}, 2, "relu");
    flx_output(g, flx_nn_cross_entropy(g, logits, label, 0), "loss");
    flx_output(g, flx_accuracy(g, logits, label), "accuracy");
    flx_output(g, flx_argmax(g, logits, .axis = 1, .dtype = FLX_I32), "read");
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

/* Rows of a column of the dataset, from `begin`. */
static flx_tensor *rows_of(const flx_dataset *d, const char *column, int64_t begin)
{
    int64_t rows[TEST];
    for (int i = 0; i < TEST; i++)
        rows[i] = begin + i;
    flx_tensor *t = flx_dataset_gather(d, column, rows, TEST, &err);
    need(t != NULL);
    return t;
}

/* Adds the confusion matrix, and the first five digits that are read wrongly; returns the accuracy. */
static double show_mistakes(flx_context *ctx, flx_report *r, flx_exec *e, flx_tensor *x, flx_tensor *label)
{
    const flx_feed feeds[] = {{"x", x}, {"label", label}};
    flx_tensor *out[3];
    int64_t counts[100] = {0};
    int wrong = 0;
    need(flx_exec_run(e, NULL, feeds, 2, out, &err) == FLX_OK);
    for (int i = 0; i < TEST; i++) {
        int is = (int)flx_tensor_get(label, i), read = (int)flx_tensor_get(out[2], i);
        counts[10 * is + read]++;
        if (is != read && wrong++ < 5) {
            char title[40];
            snprintf(title, sizeof title, "a %d read as %d", is, read);
            flx_tensor *image = tensor(ctx, FLX_F32, FLX_INTS(28, 28), (const float *)flx_tensor_data(x) + i * 28 * 28);
            need(flx_report_add_image(r, title, i, image, &err) == FLX_OK);
            flx_tensor_release(image);
        }
    }
    need(flx_report_add_confusion(r, "held-out digits", NULL, 10, counts, &err) == FLX_OK);
    for (int i = 0; i < 3; i++)
        flx_tensor_release(out[i]);
    return 1 - (double)wrong / TEST;
}

/* Called after each step, and after each epoch. */
static int show_progress(void *user, const flx_progress *p)
{
    flx_report *r = user;
    if (p->is_epoch_end) {
        double mean = p->metrics[1].value; /* of the accuracy, output 1 */
        printf("epoch %lld of %lld: loss %.4f, accuracy %.1f %%\n", (long long)p->epoch + 1, (long long)p->num_epochs,
               p->metrics[0].value, 100 * mean);
        return flx_report_add_value(r, "accuracy", p->total_steps, mean, &err) != FLX_OK;
    }
    return flx_report_add_value(r, "loss", p->total_steps, p->loss, &err) != FLX_OK ||
           flx_report_add_value(r, "rate", p->total_steps, p->rate, &err) != FLX_OK ||
           flx_report_add_value(r, "norm of the gradient", p->total_steps, p->norm, &err) != FLX_OK;
}

int main(int argc, char **argv)
{
    const int rows = is_quick(argc, argv) ? 4000 : 40000, steps = EPOCHS * rows / BATCH;
    flx_context *ctx = flx_context_new(NULL);
    flx_dataset *digits = flx_digits(ctx, rows + TEST, 1, &err);
    need(digits != NULL);
    flx_dataset *trained = flx_dataset_slice(digits, 0, rows, &err);
    flx_loader_options batches = {.struct_size = sizeof batches, .batch = BATCH, .flags = FLX_LOADER_SHUFFLE};
    flx_loader *loader = flx_loader_new(trained, &batches, &err);
    flx_report_options about = {.struct_size = sizeof about, .title = "Digits", .about = "A network of two layers."};
    flx_report *r = flx_report_new(ctx, &about, &err);
    need(loader && r);

    flx_graph *g = build(ctx);
    flx_schedule_options cosine = {
        .struct_size = sizeof cosine, .kind = FLX_SCHEDULE_COSINE, .warmup = 20, .steps = steps};
    flx_graph *schedule = flx_schedule_graph(ctx, &cosine, &err);
    flx_train_options adamw = {
        .struct_size = sizeof adamw, .optimiser = FLX_ADAMW, .rate = 0.003, .schedule = schedule};
    flx_trainer *t = flx_compile_training(g, &adamw, NULL, &err);
    flx_exec *e = flx_compile(g, NULL, &err); /* the same graph, not as a training step */
    need(t && e && flx_params_bind(flx_trainer_params(t), e, &err) == FLX_OK);
    flx_fit_options fit = {.struct_size = sizeof fit, .epochs = EPOCHS};
    fit.next = flx_loader_batch;
    fit.next_user = loader;
    fit.progress = show_progress;
    fit.progress_user = r;
    need(flx_fit(t, &fit, NULL, &err) == FLX_OK && err.code == FLX_OK);

    flx_tensor *x = rows_of(digits, "x", rows), *label = rows_of(digits, "label", rows);
    double accuracy = show_mistakes(ctx, r, e, x, label);
    printf("accuracy on held-out digits: %.1f %%\n", 100 * accuracy);
    flx_report_graph step = {
        .struct_size = sizeof step, .title = "training step", .graph = g, .exec = flx_trainer_exec(t)};
    need(flx_report_add_graph(r, &step, &err) == FLX_OK);
    need(flx_report_write(r, FLX_REPORT_HTML, "digits.html", &err) == FLX_OK);
    puts("open digits.html in a browser");

    flx_tensor_release(label);
    flx_tensor_release(x);
    flx_exec_free(e);
    flx_trainer_free(t);
    flx_graph_release(schedule);
    flx_graph_release(g);
    flx_report_free(r);
    flx_loader_free(loader);
    flx_dataset_free(trained);
    flx_dataset_free(digits);
    flx_context_free(ctx);
    return verdict(accuracy > (rows < 40000 ? 0.7 : 0.95));
}
