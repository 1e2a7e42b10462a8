/* SPDX-License-Identifier: Apache-2.0 */
/* Gaussian splats are fitted to a picture: position, size, rotation, opacity and colour of each are found by descending
   along the gradient of the renderer. Prints the signal-to-noise ratio of the picture that they make, and writes both
   pictures, side by side, to splats.ppm in the current folder. */
#include "example.h"

enum { SIZE = 48, CAMERA = 23 };

/* A sun above hills, [SIZE, SIZE, 3] from 0 to 1. */
static void draw_target(float *rgb)
{
    for (int i = 0; i < SIZE * SIZE; i++, rgb += 3) {
        double x = (i % SIZE + 0.5) / SIZE * 2 - 1, y = (double)(i / SIZE) / SIZE * 2 - 1; /* y points down */
        double sun = hypot(x - 0.35, y + 0.4), hill = 0.25 + 0.2 * sin(4 * x), front = 0.6 - 0.15 * cos(5 * x);
        const float sky[] = {(float)(0.4 + 0.2 * y), (float)(0.6 + 0.2 * y), 0.95F}, far[] = {0.35F, 0.55F, 0.35F};
        const float near[] = {0.15F, 0.35F, 0.15F}, light[] = {1, 0.85F, 0.3F};
        memcpy(rgb, y > front ? near : y > hill ? far : sun < 0.25 ? light : sky, sizeof sky);
    }
}

static flx_val part(flx_graph *g, const char *name, int64_t count, flx_init init)
{
    flx_type type = of_type(FLX_F32, FLX_INTS(count));
    return flx_set_init(g, flx_param(g, name, &type), init);
}

/* Outputs: the mean of the squared differences to `target`, and the picture. */
static flx_graph *build(flx_context *ctx, int64_t n)
{
    flx_graph *g = flx_graph_new(ctx, "splats");
    flx_type picture = of_type(FLX_F32, FLX_INTS(SIZE, SIZE, 3)), numbers = of_type(FLX_F32, FLX_INTS(CAMERA));
    flx_type none = of_type(FLX_F32, FLX_INTS(0));
    flx_val target = flx_input(g, "target", &picture), camera = flx_input(g, "camera", &numbers);
    flx_val rgba = flx_gaussian_splat_render(
        g, part(g, "positions", 3 * n, (flx_init){.kind = FLX_INIT_UNIFORM, .scale = 1}),
        part(g, "log_scales", 3 * n, (flx_init){.kind = FLX_INIT_CONSTANT, .scale = -1.8}),
        part(g, "rotations", 4 * n, (flx_init){.kind = FLX_INIT_NORMAL}),
        part(g, "opacity", n, (flx_init){.kind = FLX_INIT_ZEROS}),
        part(g, "colours", 3 * n, (flx_init){.kind = FLX_INIT_CONSTANT, .scale = 0.5}),
        flx_iota(g, &none, FLX_DEFAULT), /* no spherical harmonics: colours are the same from all sides */
        camera, .width = SIZE, .height = SIZE, .tile_size = 16, .radius_scale = 3, .alpha_cutoff = 1.0 / 255,
        .max_splat_steps = 256, .transmittance_threshold = 1e-3, .max_list_entries = 100000);
    rgba = flx_reshape(g, rgba, .shape = FLX_INTS(SIZE, SIZE, 4));
    flx_val rgb = flx_narrow(g, rgba, .axis = 2, .start = 0, .len = 3); /* without the coverage */
    flx_output(g, flx_reduce_mean(g, flx_square(g, flx_sub(g, rgb, target)), FLX_ALL, 0), "error");
    flx_output(g, rgb, "picture");
    need(flx_graph_error(g, &err) == FLX_OK);
    return g;
}

static void write_pictures(const flx_tensor *left, const flx_tensor *right)
{
    FILE *f = fopen("splats.ppm", "wb");
    if (!f)
        return;
    fprintf(f, "P6\n%d %d\n255\n", 2 * SIZE, SIZE);
    for (int64_t y = 0; y < SIZE; y++)
        for (int side = 0; side < 2; side++)
            for (int64_t k = 0; k < SIZE * 3; k++)
                fputc((int)(255 * fmin(fmax(flx_tensor_get(side ? right : left, y * SIZE * 3 + k), 0), 1)), f);
    fclose(f);
}

int main(int argc, char **argv)
{
    const int quick = is_quick(argc, argv), splats = quick ? 40 : 150, steps = quick ? 60 : 600;
    static float pixels[SIZE * SIZE * 3];
    draw_target(pixels);
    flx_context *ctx = flx_context_new(NULL);
    flx_graph *g = build(ctx, splats);
    const float eye[CAMERA] = {0, 0, -3, 0, 0, 0, 0, 1, 0, 40, 0.1F, 10}; /* from, to, up, field of view, near, far */
    flx_tensor *target = tensor(ctx, FLX_F32, FLX_INTS(SIZE, SIZE, 3), pixels);
    flx_tensor *camera = tensor(ctx, FLX_F32, FLX_INTS(CAMERA), eye);
    const flx_feed feeds[] = {{"target", target}, {"camera", camera}};
    flx_train_options adam = {.struct_size = sizeof adam, .optimiser = FLX_ADAM, .rate = 0.03, .seed = 1};
    flx_trainer *t = flx_compile_training(g, &adam, NULL, &err);
    need(t != NULL);
    double error = 1, first = 0;
    for (int step = 1; step <= steps; step++) {
        need(flx_trainer_step(t, feeds, 2, &error, &err) == FLX_OK);
        first = step == 1 ? error : first;
        if (step == 1 || step % (steps / 5) == 0)
            printf("step %3d: %.1f dB\n", step, -10 * log10(error));
    }
    write_pictures(target, flx_trainer_output(t, "picture"));
    flx_trainer_free(t);
    flx_tensor_release(target);
    flx_tensor_release(camera);
    flx_graph_release(g);
    flx_context_free(ctx);
    return verdict(quick ? error < first / 3 : -10 * log10(error) > 30);
}
