/* load.h: the file a command works on. */
#ifndef FLX_LOAD_H
#define FLX_LOAD_H

#include <fluxion/text.h>

typedef struct {
    const char *path; /* as given; "-" is standard input */
    const char *name; /* the same for messages */
    flx_context *ctx;
    flx_module *module;
    flx_graph *graph; /* the main one */
} model;

/* Reads text or the binary form, whichever the file holds. Close with model_close(), also after a failure. */
int model_open(model *m, const char *path);
void model_close(model *m);

#endif
