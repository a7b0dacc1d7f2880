#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""strobe's decode beside PyTorch's FlashAttention-2 and cuDNN backends: same tensors, same process, L2-cold, in CUDA graphs.

  python3 benchmarks/peers/compare_decode.py [--library FILE] [--json FILE] [--contexts 512,8192] [--variants strided,paged16,paged64,fixed]

One query token a sequence. Each timing replays a graph of calls that go over several copies of the K/V cache, after a large
write has swept L2; the figure is the median over replays of time / calls.
"""
import argparse
import ctypes
import json
import math
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import compare_prefill  # noqa: E402

HEADS = ((12, 12, 64), (14, 2, 64), (32, 8, 128), (32, 32, 128))
BATCHES = (1, 8, 64)
CONTEXTS = (128, 512, 1024, 2048, 8192, 65536)


class Decode:
    def __init__(self, torch, path):
        self.torch, self.library, self.workspaces = torch, ctypes.CDLL(str(path)), {}

    def call(self, variant, q, k, v, o, batch, context, q_heads, kv_heads, dim, lens=None, table=None, page=0, splits=0,
             capacity=None):
        pointer = lambda t: ctypes.c_void_p(0 if t is None else t.data_ptr())
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        text = ctypes.create_string_buffer(248)
        key = (variant, batch, context, q_heads, kv_heads, dim, splits)
        for size_only in ((True, False) if key not in self.workspaces else (False,)):
            space = self.workspaces.get(key)
            need = ctypes.c_size_t(0)
            if self.library.strobe_decode(variant.encode(), dim, pointer(q), pointer(k), pointer(v), pointer(o), batch,
                                          context, capacity or context, q_heads, kv_heads, pointer(lens), pointer(table), page, splits,
                                          pointer(space), ctypes.c_size_t(0 if space is None else space.numel()),
                                          ctypes.byref(need) if size_only else None, stream, text):
                sys.exit(f"strobe: {text.value.decode()}")
            if size_only:
                space = self.torch.empty(need.value, device="cuda", dtype=self.torch.uint8) if need.value else None
                self.workspaces[key] = space
                if space is not None:
                    self.library.strobe_init(pointer(space), ctypes.c_size_t(need.value), stream)
                    self.torch.cuda.synchronize()


def graph_times(torch, candidates, calls, sweep, replays=9):
    """Median microseconds of one call; each candidate is a function of the copy's index."""
    graphs = {}
    for name, call in candidates.items():
        for i in range(min(3, calls)):
            call(i)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(calls):
                call(i)
        graphs[name] = graph
    times = {name: [] for name in graphs}
    for _ in range(replays):
        for name, graph in graphs.items():
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            sweep.zero_()
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            times[name].append(start.elapsed_time(stop) * 1e3 / calls)
    return {name: statistics.median(t) for name, t in times.items()}


def loose_bounds(torch, strobe, sweep):
    """A bound of 131072 where 512 keys are real, against a bound of 512, in the same cache."""
    rows = []
    for q_heads, kv_heads, dim in HEADS:
        for batch in (1, 8):
            capacity = 131072
            if 2 * batch * kv_heads * capacity * dim * 2 > 20e9:
                continue
            q = torch.randn(batch, 1, q_heads, dim, device="cuda", dtype=torch.half)
            k, v = (torch.randn(batch, kv_heads, capacity, dim, device="cuda", dtype=torch.half) for _ in range(2))
            lens = torch.full((batch,), 512, device="cuda", dtype=torch.int32)
            o = torch.empty_like(q)
            time = graph_times(torch, {
                name: (lambda i, bound=bound: strobe.call("strided", q, k, v, o, batch, bound, q_heads, kv_heads, dim, lens=lens,
                                                          capacity=capacity))
                for name, bound in (("tight", 512), ("loose", capacity))}, 20, sweep)
            rows.append({"Hq": q_heads, "Hkv": kv_heads, "D": dim, "B": batch, "us": time})
            print(f"{q_heads:3}/{kv_heads:<3} D {dim:3} B {batch:3}  512 keys: bound 512 {time['tight']:.2f} us, bound 131072 "
                  f"{time['loose']:.2f} us, ratio {time['loose'] / time['tight']:.3f}", flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="a build of decode_library.cu")
    parser.add_argument("--json", help="write all figures there")
    parser.add_argument("--loose", action="store_true", help="only the cost of loose bounds")
    parser.add_argument("--contexts", default=",".join(map(str, CONTEXTS)), help="of the table, by commas")
    parser.add_argument("--variants", default="strided", help="of strided, paged16, paged64, fixed, splits<N>")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("compare_decode.py needs PyTorch with CUDA")
    from torch.nn.attention import SDPBackend, sdpa_kernel
    torch.manual_seed(1)
    strobe = Decode(torch, options.library or compare_prefill.build(torch, "decode_library.cu"))
    sweep = torch.empty(256 << 20, device="cuda", dtype=torch.uint8)
    if options.loose:
        rows = loose_bounds(torch, strobe, sweep)
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(
                {"gpu": torch.cuda.get_device_name(), "command": " ".join(sys.argv), "loose": rows}, indent=1) + "\n")
        return
    variants = options.variants.split(",")
    rows = []
    for q_heads, kv_heads, dim in HEADS:
        for batch in BATCHES:
            for context in map(int, options.contexts.split(",")):
                size = 2 * batch * kv_heads * context * dim * 2
                if size > 20e9:
                    continue
                copies = max(1, min(20, int(16e9 // size), math.ceil(400e6 / size)))
                calls = max(copies, 4)
                q = torch.randn(batch, 1, q_heads, dim, device="cuda", dtype=torch.half)
                kv = [torch.randn(2, batch, kv_heads, context, dim, device="cuda", dtype=torch.half) for _ in range(copies)]
                paged = {}
                for page in (16, 64):
                    if f"paged{page}" not in variants:
                        continue
                    pages = batch * context // page
                    table = torch.randperm(pages, device="cuda", dtype=torch.int32).view(batch, -1)
                    pools = []
                    for copy in kv:
                        pool = torch.empty(2, pages, kv_heads, page, dim, device="cuda", dtype=torch.half)
                        cut = copy.view(2, batch, kv_heads, context // page, page, dim).transpose(2, 3)
                        pool[:, table.flatten().long()] = cut.reshape(2, pages, kv_heads, page, dim)
                        pools.append(pool)
                    paged[page] = (table, pools)
                outputs = {}

                def sdpa(backend):
                    def call(i):
                        with sdpa_kernel(backend):
                            outputs[str(backend)] = torch.nn.functional.scaled_dot_product_attention(
                                q.transpose(1, 2), kv[i % copies][0], kv[i % copies][1], enable_gqa=q_heads != kv_heads)
                    return call

                candidates = {"fa2": sdpa(SDPBackend.FLASH_ATTENTION), "cudnn": sdpa(SDPBackend.CUDNN_ATTENTION)}
                shape = (batch, context, q_heads, kv_heads, dim)
                for variant in variants:
                    o = outputs[variant] = torch.full_like(q, float("nan"))
                    if variant.startswith("paged"):
                        page = int(variant[5:])
                        table, pools = paged[page]
                        candidates[variant] = lambda i, o=o, p=pools, t=table, page=page: strobe.call(
                            "paged", q, p[i % copies][0], p[i % copies][1], o, *shape, table=t, page=page)
                    else:
                        splits = int(variant[6:]) if variant.startswith("splits") else 0
                        name = "fixed 256" if variant == "fixed" else "strided" if splits else variant
                        candidates[variant] = lambda i, o=o, name=name, splits=splits: strobe.call(
                            name, q, kv[i % copies][0], kv[i % copies][1], o, *shape, splits=splits)
                time = graph_times(torch, candidates, calls, sweep)
                candidates["fa2"](0)
                reference = outputs[str(SDPBackend.FLASH_ATTENTION)].transpose(1, 2).float()
                for variant in variants:
                    candidates[variant](0)
                    difference = (outputs[variant].float() - reference).abs().max().item()
                    if not difference < 4e-3:
                        sys.exit(f"wrong result: {variant} {shape}: differs from FA2 by {difference}")
                row = {"Hq": q_heads, "Hkv": kv_heads, "D": dim, "B": batch, "Sk": context, "MB": size / 1e6, "us": time}
                rows.append(row)
                print(f"{q_heads:3}/{kv_heads:<3} D {dim:3} B {batch:3} Sk {context:6}  " +
                      "  ".join(f"{name} {t:8.2f}" for name, t in time.items()) +
                      f"   FA2/{variants[0]} {time['fa2'] / time[variants[0]]:.2f}", flush=True)
                del kv, paged
    ratios = [row["us"]["fa2"] / row["us"][variants[0]] for row in rows]
    print(f"FA2 / {variants[0]}: geometric mean {compare_prefill.geometric_mean(ratios):.3f}, smallest {min(ratios):.3f}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(
            {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "command": " ".join(sys.argv), "rows": rows},
            indent=1) + "\n")


if __name__ == "__main__":
    main()
