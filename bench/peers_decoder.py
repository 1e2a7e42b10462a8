#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens for each second of llama.cpp and Fluxion, one after the other, for random llamas in GGUF files:

  python3 bench/peers_decoder.py build/bench_decoder [--types q4_0,q8_0] [--width 1024] [--blocks 12] [--rounds 3]

The prompt has 256 tokens and the answer 32. The best of all rounds counts; with --threads 1 in processor time. Ours
are measured with activations of 8 and of 32 bits. Needs llama-cpp-python, gguf and numpy; llama.cpp should be compiled
for this machine (CMAKE_ARGS=-DGGML_NATIVE=ON).
"""
import argparse
import os
import re
import subprocess
import tempfile
import time

import gguf
import numpy as np
from llama_cpp import Llama

parser = argparse.ArgumentParser()
parser.add_argument("program")
parser.add_argument("--types", default="q4_0,q8_0,q4_k,q6_k,f16")
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--blocks", type=int, default=12)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--repeats", type=int, default=2)
parser.add_argument("--threads", type=int, default=os.cpu_count())
options = parser.parse_args()

VOCABULARY, PROMPT, ANSWER = 32000, 256, 32
# Where the scales of a block are, and what they should be for a row of n numbers, times sqrt(n).
SCALES = {"q4_0": ((0,), 1 / 8), "q5_0": ((0,), 1 / 16), "q8_0": ((0,), 1 / 128), "q4_k": ((0, 2), 1 / 300),
          "q6_k": ((208,), 1 / 1500)}


def matrix(writer, rng, kind, name, rows, columns):
    """Random blocks; only their scales are set."""
    if kind == "f16":
        writer.add_tensor(name, (rng.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float16))
        return
    packed = getattr(gguf.GGMLQuantizationType, kind.upper())
    numbers, size = gguf.GGML_QUANT_SIZES[packed]
    blocks = rng.integers(0, 256, (rows, columns // numbers, size), dtype=np.uint8)
    places, scale = SCALES[kind]
    for place in places:
        blocks[..., place:place + 2] = np.frombuffer(np.float16(scale / np.sqrt(columns)).tobytes(), np.uint8)
    data = blocks.reshape(rows, -1)
    writer.add_tensor(name, data, raw_shape=data.shape, raw_dtype=packed)


def write_model(path, kind):
    width, blocks, rng = options.width, options.blocks, np.random.default_rng(0)
    kv, ff = max(64, width // 4), width * 11 // 4 // 256 * 256
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(blocks)
    w.add_context_length(2048)
    w.add_embedding_length(width)
    w.add_feed_forward_length(ff)
    w.add_head_count(width // 64)
    w.add_head_count_kv(kv // 64)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(64)
    w.add_vocab_size(VOCABULARY)
    w.add_tokenizer_model("llama")
    w.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] +
                     [f"\u2581w{i}" for i in range(VOCABULARY - 259)])
    w.add_token_scores([0.0] * VOCABULARY)
    w.add_token_types([2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259))
    for name in ("token_embd.weight", "output.weight"):
        matrix(w, rng, kind, name, VOCABULARY, width)
    w.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for i in range(blocks):
        for name, rows, columns in (("attn_q", width, width), ("attn_k", kv, width), ("attn_v", kv, width),
                                    ("attn_output", width, width), ("ffn_gate", ff, width), ("ffn_up", ff, width),
                                    ("ffn_down", width, ff)):
            matrix(w, rng, kind, f"blk.{i}.{name}.weight", rows, columns)
        for name in ("attn_norm", "ffn_norm"):
            w.add_tensor(f"blk.{i}.{name}.weight", np.ones(width, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def by_llama(path):
    model = Llama(model_path=path, n_ctx=1024, n_batch=512, n_threads=options.threads, n_threads_batch=options.threads,
                  verbose=False)
    now = time.process_time if options.threads == 1 else time.perf_counter
    prompt, best = [1] + [300 + i * 37 % 20000 for i in range(1, PROMPT)], (0.0, 0.0)
    for _ in range(options.rounds + 1):
        model.reset()
        start = now()
        model.eval(prompt)
        middle = now()
        for i in range(ANSWER):
            model.eval([500 + i])
        end = now()
        best = max(best[0], PROMPT / (middle - start)), max(best[1], ANSWER / (end - middle))
    return best


def by_fluxion(path, bits):
    command = [options.program, path] + [str(x) for x in (options.rounds, options.threads, PROMPT, ANSWER, bits)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return tuple(float(x) for x in re.findall(r"(?:prompt|answer) ([0-9.]+)", text))


print(f"{'':6} {'prompt':>52}   {'answer':>52}")
for kind in options.types.split(","):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.gguf")
        write_model(path, kind)
        runs = [(by_llama(path), by_fluxion(path, 8), by_fluxion(path, 32)) for _ in range(options.repeats)]
    cells = []
    for k in range(2):
        theirs, rounded, exact = (max(t[i][k] for t in runs) for i in range(3))
        cells.append(f"llama.cpp {theirs:7.1f} 8 bits {rounded:7.1f} = {rounded / theirs:5.2f} "
                     f"32 bits {exact:7.1f} = {exact / theirs:5.2f}")
    print(f"{kind:6} {cells[0]:>52}   {cells[1]:>52}", flush=True)
