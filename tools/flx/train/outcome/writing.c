/* SPDX-License-Identifier: Apache-2.0 */
/* writing.c: see writing.h. */
#include "train/outcome/writing.h"

#include "report.h"

static int write_bytes(void *user, const char *bytes, size_t count)
{
    FILE *stream = user;
    return fwrite(bytes, 1, count, stream) != count || fflush(stream) != 0;
}

/* The extent T of the tokens [N, T], the first input; 0 when it is symbolic. */
static int64_t length_of(const flx_graph *predict)
{
    for (size_t i = 0; predict && i < flx_graph_input_count(predict); i++) {
        const flx_type *type = flx_val_type(predict, flx_graph_input(predict, i));
        if (!flx_graph_input_is_param(predict, i))
            return type->rank == 2 && flx_dim_is_static(type->dims[1]) ? (int64_t)type->dims[1] : 0;
    }
    return 0;
}

int writing_run(const flx_module *m, const flx_graph *predict, const flx_params *weights, const char *prompt,
                const flx_generate_options *options, FILE *stream, flx_buffer *text)
{
    flx_generate_options o = *options;
    flx_error err = {0};
    const flx_graph *decode = flx_module_find(m, "decode");
    int64_t length = length_of(predict);
    o.context = length ? length : o.context;
    o.write = write_bytes;
    o.write_user = stream;
    return flx_generate(decode ? decode : predict, weights, prompt, &o, text, &err) == FLX_OK ? STATUS_OK
                                                                                              : report(&err, NULL);
}
