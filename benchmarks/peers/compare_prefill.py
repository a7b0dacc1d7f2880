#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""strobe's prefill beside PyTorch's FlashAttention-2 backend: same tensors, same process, same GPU.

  python3 benchmarks/peers/compare_prefill.py [--library FILE] [--json FILE] [--speed] [--error] [--masks]

Needs PyTorch with CUDA. Without --library, nvcc builds the instances for the GPU at hand first. Without a choice all three
parts run:
  speed  16k tokens in all, 2048 / D heads, D 64 and 128, full and causal: TFLOP/s and the ratio to FA2
  error  B {1,4} x H {8,12,14} x N {128..4096}, D 64: both against an fp32 reference
  masks  what masks cost where no tile needs them, and what asking every element costs
Times are medians of CUDA-event timings, the candidates taking turns; inputs are standard normal.
"""
import argparse
import ctypes
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def build(torch, source="prefill_library.cu"):
    major, minor = torch.cuda.get_device_capability()
    target = f"{major}{minor}" + ("a" if major >= 9 else "")
    out = pathlib.Path(tempfile.mkdtemp()) / f"lib{pathlib.Path(source).stem}.so"
    subprocess.run(["nvcc", "-std=c++17", "-O3", "-gencode", f"arch=compute_{target},code=sm_{target}", "--shared",
                    "-Xcompiler", "-fPIC", f"-I{ROOT / 'include'}", str(ROOT / "benchmarks/peers" / source),
                    "-o", str(out)], check=True)
    return out


class Strobe:
    def __init__(self, torch, path):
        self.torch, self.library = torch, ctypes.CDLL(str(path))

    def __call__(self, variant, q, k, v, o, lse):
        batch, length, heads, dim = q.shape
        text = ctypes.create_string_buffer(248)
        pointer = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        if self.library.strobe_prefill(variant.encode(), dim, pointer(q), pointer(k), pointer(v), pointer(o), pointer(lse),
                                       batch, length, heads, stream, text):
            sys.exit(f"strobe: {text.value.decode()}")


def medians(torch, candidates, repeats=7, milliseconds=25.0):
    """Median seconds of one call of each candidate, taking turns."""
    counts, times = {}, {name: [] for name in candidates}

    def batch(call, count):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(count):
            call()
        stop.record()
        stop.synchronize()
        return start.elapsed_time(stop) / count

    for name, call in candidates.items():
        batch(call, 3)
        counts[name] = max(2, round(milliseconds / batch(call, 3)))
    for _ in range(repeats):
        for name, call in candidates.items():
            times[name].append(batch(call, counts[name]))
    return {name: statistics.median(t) * 1e-3 for name, t in times.items()}


def tensors(torch, batch, length, heads, dim):
    q, k, v = (torch.randn(batch, length, heads, dim, device="cuda", dtype=torch.half) for _ in range(3))
    o = torch.full_like(q, float("nan"))
    return q, k, v, o, torch.full((batch, heads, length), float("nan"), device="cuda")


def fa2(torch, q, k, v, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return torch.nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=causal).transpose(1, 2)


def flops(batch, length, heads, dim, causal):
    return 4.0 * batch * heads * length * length * dim / (2 if causal else 1)


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def speed(torch, strobe):
    rows = []
    print(f"{'D':>4} {'causal':>6} {'S':>6} {'FA2':>6} {'strobe':>6}  TFLOP/s, ratio")
    for dim in (64, 128):
        for causal in (False, True):
            for length in (512, 1024, 2048, 4096, 8192, 16384):
                batch, heads = 16384 // length, 2048 // dim
                q, k, v, o, lse = tensors(torch, batch, length, heads, dim)
                variant = "causal" if causal else "full"
                time = medians(torch, {"fa2": lambda: fa2(torch, q, k, v, causal),
                                       "strobe": lambda: strobe(variant, q, k, v, o, lse)})
                difference = (o.float() - fa2(torch, q, k, v, causal).float()).abs().max().item()
                if not difference < 6e-3:
                    sys.exit(f"wrong result: D {dim}, causal {causal}, S {length}: differs from FA2 by {difference}")
                work = flops(batch, length, heads, dim, causal) * 1e-12
                row = {"D": dim, "causal": causal, "S": length, "fa2_tflops": work / time["fa2"],
                       "strobe_tflops": work / time["strobe"], "ratio": time["fa2"] / time["strobe"]}
                rows.append(row)
                print(f"{dim:4} {'yes' if causal else 'no':>6} {length:6} {row['fa2_tflops']:6.0f} "
                      f"{row['strobe_tflops']:6.0f}  {row['ratio']:.3f}", flush=True)
    ratios = [row["ratio"] for row in rows]
    print(f"geometric mean {geometric_mean(ratios):.3f}, smallest {min(ratios):.3f}")
    return {"rows": rows, "geometric_mean": geometric_mean(ratios), "smallest": min(ratios)}


def error(torch, strobe):
    rows = []
    torch.backends.cuda.matmul.allow_tf32 = False
    for causal in (False, True):
        for batch in (1, 4):
            for heads in (8, 12, 14):
                for length in (128, 512, 1024, 2048, 4096):
                    q, k, v, o, lse = tensors(torch, batch, length, heads, 64)
                    mode = "causal" if causal else "full"
                    row = {"B": batch, "H": heads, "N": length, "causal": causal}
                    outputs = {"fa2": fa2(torch, q, k, v, causal)}
                    for name, variant in (("strobe", mode), ("strobe_split_p", mode + ", split P")):
                        outputs[name] = torch.full_like(q, float("nan"))
                        strobe(variant, q, k, v, outputs[name], lse)
                    worst = {name: 0.0 for name in outputs}
                    squares = {name: 0.0 for name in outputs}
                    for b in range(batch):  # one batch entry at a time: its scores are N * N floats a head
                        qb, kb, vb = (x[b].transpose(0, 1).float() for x in (q, k, v))
                        scores = qb @ kb.transpose(1, 2) / 8.0
                        if causal:
                            scores.masked_fill_(torch.ones(length, length, device="cuda", dtype=torch.bool).triu(1), -math.inf)
                        exact = scores.softmax(-1) @ vb
                        reference = exact.half().float()
                        for name, output in outputs.items():
                            got = output[b].transpose(0, 1).float()
                            found = (got - reference).abs().max().item()
                            worst[name] = max(worst[name], math.inf if math.isnan(found) else found)
                            squares[name] += (got - exact).square().mean().item() / batch
                    rows.append({**row, **worst, **{f"{name}_rms": math.sqrt(x) for name, x in squares.items()}})
    summary = {}
    for causal in (False, True):
        chosen = [row for row in rows if row["causal"] == causal]
        summary["causal" if causal else "full"] = {
            name: {"max": max(row[name] for row in chosen), "rms": max(row[name + "_rms"] for row in chosen)}
            for name in ("fa2", "strobe", "strobe_split_p")}
    print("largest over the grid: max = |out - fp32 reference rounded to fp16|, rms = root mean square of out - fp32:")
    print(json.dumps(summary, indent=1))
    return {"rows": rows, "largest": summary}


def masks(torch, strobe):
    rows = []
    for dim in (64, 128):
        q, k, v, o, lse = tensors(torch, 4, 4096, 2048 // dim, dim)
        names = ("full", "window without bounds", "every element asked", "causal", "window, causal")
        time = medians(torch, {name: (lambda name=name: strobe(name, q, k, v, o, lse)) for name in names})
        rows.append({"D": dim, "S": 4096, "B": 4, "microseconds": {name: t * 1e6 for name, t in time.items()}})
        print(f"D {dim}, B 4, S 4096, us: " + ", ".join(f"{name} {t * 1e6:.0f}" for name, t in time.items()), flush=True)
    return {"rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="a build of prefill_library.cu")
    parser.add_argument("--json", help="write all figures there")
    for part in ("speed", "error", "masks"):
        parser.add_argument(f"--{part}", action="store_true")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("compare_prefill.py needs PyTorch with CUDA")
    if not torch.cuda.is_available():
        sys.exit("compare_prefill.py needs a GPU")
    torch.manual_seed(1)
    strobe = Strobe(torch, options.library or build(torch))
    chosen = [part for part in ("speed", "error", "masks") if getattr(options, part)] or ["speed", "error", "masks"]
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "command": " ".join(sys.argv)}
    for part in chosen:
        result[part] = {"speed": speed, "error": error, "masks": masks}[part](torch, strobe)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
