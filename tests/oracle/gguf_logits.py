# SPDX-License-Identifier: Apache-2.0
"""Logits of small random models, from llama.cpp (llama-cpp-python):

    FLX_TEST_KEEP=DIR build/flx_tests gguf_random_models     # writes the models
    python tests/oracle/gguf_logits.py DIR >tests/gguf/logits.def
"""
import glob
import os
import sys

import numpy as np
from llama_cpp import Llama

VOCABULARY, COUNT, SHOWN = 288, 12, 6
tokens = [1] + [i * 7919 % VOCABULARY for i in range(1, COUNT)]
print("/* SPDX-License-Identifier: Apache-2.0 */")
print("/* logits.def: LOGITS(architecture, type, mean square of all logits, the first logits…). Made by")
print("   tests/oracle/gguf_logits.py. */")
for path in sorted(glob.glob(sys.argv[1] + "/*-*.gguf")):
    architecture, kind = os.path.basename(path)[:-5].split("-")
    try:
        model = Llama(model_path=path, n_ctx=256, n_threads=2, logits_all=True, verbose=False,
                      type_k=0, type_v=0)  # caches of f32
        model.eval(tokens)
    except Exception as e:
        print(path, e, file=sys.stderr)
        continue
    x = np.array(model.scores[COUNT - 1], np.float64)
    shown = ", ".join(f"{v:.6g}f" for v in x[:SHOWN])
    print(f"LOGITS({architecture}, {kind}, {np.mean(x * x):.6g}f, {shown})")
