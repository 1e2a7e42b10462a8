# SPDX-License-Identifier: Apache-2.0
"""Answers for the blocks of GGUF files, from the decoders of the gguf package:

    FLX_TEST_KEEP=DIR build/flx_tests gguf_blocks_decode     # writes DIR/blocks.gguf, and fails where answers changed
    python tests/oracle/gguf_blocks.py DIR >tests/gguf/blocks.def
"""
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

print("/* SPDX-License-Identifier: Apache-2.0 */")
print("/* blocks.def: BLOCKS(type, sum of the numbers, sum of number i times i + 1). Made by tests/oracle/gguf_blocks.py. */")
for t in GGUFReader(sys.argv[1] + "/blocks.gguf").tensors:
    if t.name == "q8_k":
        continue  # the package does not decode it
    x = dequantize(t.data, t.tensor_type).astype(np.float64).reshape(-1)
    print(f"BLOCKS({t.name}, {x.sum():.9g}, {(x * np.arange(1, x.size + 1)).sum():.9g})")
