/* SPDX-License-Identifier: Apache-2.0 */
/* writing.h: text from a trained model, to a stream as it is made. */
#ifndef FLX_WRITING_H
#define FLX_WRITING_H

#include <fluxion/generate.h>
#include <stdio.h>

/* Continues the prompt with the graph `decode` of the module, which sees each token once, or else with `predict`.
   options->context is how many tokens the model sees if `predict` does not say. The text goes to the stream and, if it
   is not NULL, to `text`. */
int writing_run(const flx_module *m, const flx_graph *predict, const flx_params *weights, const char *prompt,
                const flx_generate_options *options, FILE *stream, flx_buffer *text);

#endif
