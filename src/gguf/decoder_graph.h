/* SPDX-License-Identifier: Apache-2.0 */
/* decoder_graph.h: the graph of a decoder from its file. */
#ifndef FLXI_DECODER_GRAPH_H
#define FLXI_DECODER_GRAPH_H

#include "gguf/architectures.h"

#include <fluxion/decoder.h>

/* The graph that flx_decoder_graph() describes. `used` has an entry for each tensor of the file and receives how the
   graph takes it. NULL on failure. */
enum { FLXI_TENSOR_UNUSED = 0, FLXI_TENSOR_PACKED = 1, FLXI_TENSOR_F32 = 2 };

flx_graph *flxi_decoder_graph(const flx_gguf *f, const flxi_model_sizes *m, int activation_bits, uint8_t *used,
                              flx_error *err);
/* The graph of flx_text_graph(). */
flx_graph *flxi_text_graph(const flx_gguf *f, const flxi_model_sizes *m, const flx_text_graph_options *o,
                           flx_error *err);

#endif
