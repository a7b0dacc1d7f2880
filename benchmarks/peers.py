#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What strobe is measured against, through PyTorch: the names, shapes, timing rules and JSON of strobe_bench.

  python3 benchmarks/peers.py [options]

  --grid NAME      ceilings, prefill, twelve_heads, variants, decode or all (all, unless --shape is given); may come
                   several times
  --shape NAME     one shape by its name (the grammar: benchmarks/spec.hpp); may come several times
  --quick          of the grids about a sixth of the cells, and fewer samples
  --hot            decode: one copy of K and V that stays in L2 where it fits
  --no-flex        without FlexAttention, whose compiler takes most of the time
  --alone          each prefill call alone: the GPU idle before, its launch included (as some tables of others are timed)
  --flex-seconds N FlexAttention starts no further shape after so many seconds (240; quick: 90)
  --ceilings FILE  JSON of an earlier run, from which the matmul ceiling is taken where this run measures none
  --json FILE      writes all figures there
  --list           prints the names of the chosen cells, and runs nothing

Needs PyTorch with CUDA and a GPU. Measures its FlashAttention-2 and cuDNN backends, FlexAttention for masks and scores
(the variants), and the packages flash-attn (2), FlashAttention-3 and FlashInfer where they can be imported; FlashInfer
compiles its kernels at the first call of a kind, which takes minutes. Also the ceilings matmul and copy. A peer that
refuses a shape is noted on the standard error and in the JSON's context. Ends with 1 if nothing was measured.
"""
import argparse
import contextlib
import datetime
import importlib
import json
import math
import pathlib
import random
import subprocess
import sys
import time

from spec import cells_of, flop, kv_bytes, matmul_ceiling, name_of, parse, percentile, rotation  # the file beside this

DEVICE = "cuda"

# ---- timing: the same rules as gpu.cu -------------------------------------------------------------------------------


class Timer:
    def __init__(self, torch, quick):
        self.torch = torch
        self.replays, self.least_samples, self.seconds = (5, 5, 0.015) if quick else (9, 10, 0.03)
        self.pause_seconds = 0.1  # bursts with pauses: why, says gpu.hpp
        self.sweep = torch.empty(256 << 20, device=DEVICE, dtype=torch.uint8)

    def event(self):
        return self.torch.cuda.Event(enable_timing=True)

    def graph_samples(self, calls, call, replays, cold):
        """Microseconds a call, ascending: one sample a replay of a CUDA graph of `calls` calls. Before each replay L2
        is swept (cold), or the same graph runs once untimed."""
        torch = self.torch
        for i in range(min(3, calls)):
            call(i)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(calls):
                call(i)
        graph.replay()
        samples = []
        for _ in range(replays):
            start, stop = self.event(), self.event()
            if cold:
                self.sweep.zero_()
            else:
                graph.replay()
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            samples.append(start.elapsed_time(stop) * 1e3 / calls)
        return sorted(samples)

    def single_samples(self, call, count):
        """One pair of events a call. Sweeps go first and nothing waits in between, so that the GPU always has the next
        call before it is done with the last."""
        pairs = [(self.event(), self.event()) for _ in range(count)]
        for _ in range(4):
            self.sweep.zero_()
        for i, (start, stop) in enumerate(pairs):
            start.record()
            call(i)
            stop.record()
        self.torch.cuda.synchronize()
        return sorted(start.elapsed_time(stop) * 1e3 for start, stop in pairs)

    def warm_samples(self, call):
        """Microseconds a call, ascending: in a graph where launching would count, else one by one."""
        self.single_samples(call, 3)
        estimate = percentile(self.single_samples(call, 3), 0.5)
        if estimate < 200:  # short enough that launching may be part of it: ask a graph
            estimate = percentile(self.graph_samples(4, call, 3, False), 0.5)
            calls = 20
            if estimate < 50:
                replays = self.count(2 * calls * estimate, 100)
                time.sleep(self.pause_seconds)
                return self.graph_samples(calls, call, replays, False)
        time.sleep(self.pause_seconds)
        return self.single_samples(call, self.count(estimate, 300))

    def alone_samples(self, call):
        """Microseconds a call, ascending: each starts when the GPU is idle, and its launch counts."""
        self.single_samples(call, 3)
        samples = []
        for _ in range(self.least_samples):
            start, stop = self.event(), self.event()
            self.torch.cuda.synchronize()
            start.record()
            call(0)
            stop.record()
            stop.synchronize()
            samples.append(start.elapsed_time(stop) * 1e3)
        return sorted(samples)

    def count(self, microseconds_each, most):
        return int(min(most, max(self.least_samples, self.seconds * 1e6 / microseconds_each)))


class Inputs:
    """Standard normals on the GPU: one allocation a type serves all cells, and nothing writes to it."""

    def __init__(self, torch):
        self.torch, self.arenas = torch, {}
        self.types = {"fp16": torch.float16, "bf16": torch.bfloat16}

    def tensors(self, type_name, *shapes):
        """One tensor a shape, each at a multiple of 256 bytes."""
        starts, total = [], 0
        for shape in shapes:
            starts.append(total)
            total += -(-math.prod(shape) // 128) * 128
        arena = self.arenas.get(type_name)
        if arena is None or arena.numel() < total:
            self.arenas[type_name] = arena = None  # the old one goes first
            self.torch.cuda.empty_cache()
            arena = self.torch.empty(total, device=DEVICE, dtype=self.types[type_name])
            for piece in arena.split(1 << 28):
                piece.normal_()
            self.arenas[type_name] = arena
        return [arena[start:start + math.prod(shape)].view(shape) for start, shape in zip(starts, shapes)]

    def prefill(self, s):
        """Q, K, V as [batch, token, head, dim]."""
        kv = (s.batch, s.kv_len, s.kv_heads, s.head_dim)
        return self.tensors(s.type, (s.batch, s.q_len, s.q_heads, s.head_dim), kv, kv)

    def decode(self, s, copies):
        """Q as [batch, token, head, dim], the copies of (K, V) as [batch, kv_head, token, dim] or, paged,
        [page, kv_head, slot, dim], and the block table [batch, pages] in random order, None where strided."""
        table, kv = None, (s.batch, s.kv_heads, s.kv_len, s.head_dim)
        if s.page:
            pages = -(-s.kv_len // s.page)
            kv = (s.batch * pages, s.kv_heads, s.page, s.head_dim)
            order = list(range(s.batch * pages))
            random.Random(1).shuffle(order)
            table = self.torch.tensor(order, device=DEVICE, dtype=self.torch.int32).view(s.batch, pages)
        q, *rest = self.tensors(s.type, (s.batch, s.q_len, s.q_heads, s.head_dim), *([kv] * (2 * copies)))
        return q, list(zip(rest[::2], rest[1::2])), table


# ---- the peers ------------------------------------------------------------------------------------------------------


class Refused(Exception):
    pass


class Peer:
    """`offers` says which specs it is meant for; `prefill` and `decode` return what enqueues call i and returns its
    output (the first of a tuple counts). A peer that offers a shape and then fails is noted as refusing it."""
    name = ""

    def context(self):
        return contextlib.nullcontext()


def plain_decode(s):
    return s.kind == "decode" and s.page == 0 and not s.policy


class Sdpa(Peer):
    """A backend of torch.nn.functional.scaled_dot_product_attention: no masks but square causal, no scores."""

    def __init__(self, torch, name, backend):
        self.torch, self.name, self.backend = torch, name, backend

    def context(self):
        from torch.nn.attention import sdpa_kernel
        return sdpa_kernel(self.backend)

    def offers(self, s):
        if s.kind == "prefill":
            return not s.mask and not s.score and (not s.causal or s.q_len == s.kv_len)
        return plain_decode(s) and s.q_len == 1

    def prefill(self, s, q, k, v):
        attention = self.torch.nn.functional.scaled_dot_product_attention
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return lambda i: attention(q, k, v, is_causal=s.causal, enable_gqa=s.q_heads != s.kv_heads)

    def decode(self, s, q, kv, table):
        attention = self.torch.nn.functional.scaled_dot_product_attention
        q = q.transpose(1, 2)
        return lambda i: attention(q, *kv[i % len(kv)], enable_gqa=s.q_heads != s.kv_heads)


class Flex(Peer):
    """FlexAttention under torch.compile: each mask and score is compiled anew."""
    name = "flex"

    def __init__(self, torch, seconds):
        from torch.nn.attention import flex_attention
        self.torch, self.module, self.seconds, self.started = torch, flex_attention, seconds, None
        self.variants = set(cells_of("variants", False))

    def offers(self, s):
        return s.kind == "prefill" and (bool(s.mask or s.score) or name_of(s) in self.variants)

    def modifiers(self, s):
        """mask_mod and score_mod of a spec, None where it has none. Queries stand at the end of the keys."""
        torch, offset, (family, number) = self.torch, s.kv_len - s.q_len, s.mask
        mask = score = None
        if family == "window":
            mask = lambda b, h, q, k: (k <= q + offset) & (q + offset - k < number)
        elif family == "prefix":
            mask = lambda b, h, q, k: (k < number) | (k <= q + offset)
        elif family == "document":
            document_of = torch.arange(s.kv_len, device=DEVICE) // number
            mask = lambda b, h, q, k: (k <= q + offset) & (document_of[q + offset] == document_of[k])
        elif s.causal:
            mask = lambda b, h, q, k: k <= q + offset
        if s.score == "alibi":
            heads = torch.arange(1, s.q_heads + 1, device=DEVICE, dtype=torch.float32)
            slopes = torch.exp2(-8.0 * heads / s.q_heads)
            score = lambda logit, b, h, q, k: logit - slopes[h] * (q + offset - k).abs()
        elif s.score == "softcap":
            score = lambda logit, b, h, q, k: 50.0 * torch.tanh(logit / 50.0)
        return mask, score

    def prefill(self, s, q, k, v):
        self.started = self.started or time.monotonic()
        if time.monotonic() - self.started > self.seconds:
            raise Refused(f"--flex-seconds {self.seconds:g} are over")
        self.torch.compiler.reset()  # else the limit of recompilations turns it into uncompiled code
        attention = self.torch.compile(self.module.flex_attention, dynamic=False, fullgraph=True)
        mask, score = self.modifiers(s)
        blocks = mask and self.module.create_block_mask(mask, None, None, s.q_len, s.kv_len, device=DEVICE)
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return lambda i: attention(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=s.q_heads != s.kv_heads)


class FlashAttn(Peer):
    """The package flash-attn, version 2."""
    name = "flash-attn"
    modules = ("flash_attn",)
    scores = ("", "alibi", "softcap")
    takes_pages = False  # of 16 and 64: its own are multiples of 256
    block_table = "block_table"

    def __init__(self, torch):
        self.torch, self.module = torch, import_first(self.modules)
        self.module.flash_attn_func  # other packages share the name

    def offers(self, s):
        if s.kind == "prefill":
            return s.mask.family in ("", "window") and s.score in self.scores
        return plain_decode(s) or (s.kind == "decode" and self.takes_pages and not s.policy)

    def prefill(self, s, q, k, v):
        options = {"causal": s.causal}
        if s.mask:
            options["window_size"] = (s.mask.number - 1, 0)
        if s.score == "softcap":
            options["softcap"] = 50.0
        elif s.score == "alibi":
            heads = self.torch.arange(1, s.q_heads + 1, device=DEVICE, dtype=self.torch.float32)
            options["alibi_slopes"] = self.torch.exp2(-8.0 * heads / s.q_heads)
        return lambda i: self.module.flash_attn_func(q, k, v, **options)

    def decode(self, s, q, kv, table):
        options = {"causal": s.q_len > 1}
        if table is not None:
            options[self.block_table] = table
            if s.kv_len % s.page:
                options["cache_seqlens"] = self.torch.full((s.batch,), s.kv_len, device=DEVICE, dtype=self.torch.int32)
        caches = [(k.transpose(1, 2), v.transpose(1, 2)) for k, v in kv]
        return lambda i: self.module.flash_attn_with_kvcache(q, *caches[i % len(caches)], **options)


class FlashAttn3(FlashAttn):
    """FlashAttention-3: built from source, or the wheel fa3-fwd (which has bf16 alone, no windows, no pages)."""
    name = "fa3"
    modules = ("flash_attn_interface", "fa3_fwd_interface")
    scores = ("", "softcap")
    takes_pages = True
    block_table = "page_table"


class FlashInfer(Peer):
    """FlashInfer's batch wrappers; plan() is not part of the time."""
    name = "flashinfer"

    def __init__(self, torch):
        self.torch, self.module = torch, importlib.import_module("flashinfer")
        self.space = torch.empty(256 << 20, device=DEVICE, dtype=torch.uint8)

    def offers(self, s):
        if s.kind == "prefill":
            return s.mask.family in ("", "window") and s.score in ("", "softcap")
        return s.kind == "decode" and s.page > 0 and not s.policy and s.q_len == 1

    def offsets(self, batch, length):
        return self.torch.arange(batch + 1, device=DEVICE, dtype=self.torch.int32) * length

    def prefill(self, s, q, k, v):
        wrapper = self.module.BatchPrefillWithRaggedKVCacheWrapper(self.space, "NHD")
        options = {"causal": s.causal, "q_data_type": q.dtype, "kv_data_type": k.dtype}
        if s.mask:
            options["window_left"] = s.mask.number - 1
        if s.score:
            options["logits_soft_cap"] = 50.0
        wrapper.plan(self.offsets(s.batch, s.q_len), self.offsets(s.batch, s.kv_len), s.q_heads, s.kv_heads, s.head_dim,
                     **options)
        q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        return lambda i: wrapper.run(q, k, v)

    def decode(self, s, q, kv, table):
        wrapper = self.module.BatchDecodeWithPagedKVCacheWrapper(
            self.space, "HND", use_tensor_cores=s.q_heads // s.kv_heads >= 4)
        last = self.torch.full((s.batch,), (s.kv_len - 1) % s.page + 1, device=DEVICE, dtype=self.torch.int32)
        wrapper.plan(self.offsets(s.batch, table.shape[1]), table.flatten(), last, s.q_heads, s.kv_heads, s.head_dim,
                     s.page, q_data_type=q.dtype, kv_data_type=q.dtype)
        q = q.squeeze(1)
        return lambda i: wrapper.run(q, kv[i % len(kv)])


def import_first(modules):
    for module in modules[:-1]:
        with contextlib.suppress(ImportError):
            return importlib.import_module(module)
    return importlib.import_module(modules[-1])


def find_peers(torch, options):
    """The peers that can be had, and a line on those that cannot."""
    from torch.nn.attention import SDPBackend
    makers = [("fa2", lambda: Sdpa(torch, "fa2", SDPBackend.FLASH_ATTENTION)),
              ("cudnn", lambda: Sdpa(torch, "cudnn", SDPBackend.CUDNN_ATTENTION))]
    if not options.no_flex:
        makers.append(("flex", lambda: Flex(torch, options.flex_seconds or (90 if options.quick else 240))))
    makers += [(kind.name, lambda kind=kind: kind(torch)) for kind in (FlashAttn, FlashAttn3, FlashInfer)]
    peers, missing = [], []
    for name, make in makers:
        try:
            peers.append(make())
        except Exception as error:  # whatever a package does when it is imported on the wrong machine
            missing.append(f"{name} ({first_line(error)})")
    say(f"torch {torch.__version__}; found {', '.join(peer.name for peer in peers)}" +
        (f"; not found: {', '.join(missing)}" if missing else ""))
    return peers


# ---- the run --------------------------------------------------------------------------------------------------------


def say(sentence):
    print(f"peers.py: {sentence}", file=sys.stderr, flush=True)


def first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def figures(samples):
    return {"real_time": percentile(samples, 0.5), "median_us": percentile(samples, 0.5),
            "low_us": percentile(samples, 0.1), "high_us": percentile(samples, 0.9), "samples": len(samples)}


class Run:
    def __init__(self, torch, options, ceiling):
        self.torch, self.options, self.ceiling = torch, options, ceiling
        self.timer, self.inputs = Timer(torch, options.quick), Inputs(torch)
        self.entries, self.refused = [], []

    def add(self, name, provider, samples, **counters):
        self.entries.append({"name": name, "provider": provider, "run_name": name, "run_type": "iteration",
                             "iterations": 1, "time_unit": "us", "label": "", **figures(samples), **counters})

    def warm_up(self):
        """Lets the clocks rise before the first cell."""
        a = self.torch.ones(4096, 4096, device=DEVICE, dtype=self.torch.half)
        start = time.monotonic()
        while time.monotonic() - start < 0.3:
            for _ in range(20):
                a @ a
            self.torch.cuda.synchronize()

    def limit(self, name, s):
        """A ceiling; returns its median microseconds."""
        torch = self.torch
        if s.kind == "matmul":
            a, b = self.inputs.tensors(s.type, (s.size, s.size), (s.size, s.size))
            out = torch.empty_like(a)
            samples = self.timer.warm_samples(lambda i: torch.mm(a, b, out=out))
            self.ceiling = flop(s) / percentile(samples, 0.5) * 1e-6
            self.add(name, "ceiling", samples, TFLOPS=self.ceiling)
        else:
            (data,) = self.inputs.tensors("fp16", (s.size * 500000,))
            to = torch.empty_like(data)
            samples = self.timer.warm_samples(lambda i: to.copy_(data))
            self.add(name, "ceiling", samples, GBps=2e6 * s.size / percentile(samples, 0.5) * 1e-3)
        return percentile(samples, 0.5)

    def cell(self, name, s, peer):
        """One peer on one shape; returns its median microseconds."""
        with self.torch.no_grad(), peer.context():
            if s.kind == "prefill":
                call = peer.prefill(s, *self.inputs.prefill(s))
                self.require_finite(call(0))
                samples = (self.timer.alone_samples if self.options.alone else self.timer.warm_samples)(call)
                tflops = flop(s) / percentile(samples, 0.5) * 1e-6
                fraction = {"fraction": tflops / self.ceiling} if self.ceiling else {}
                self.add(name, peer.name, samples, TFLOPS=tflops, **fraction)
            else:
                copies, calls = rotation(kv_bytes(s))
                call = peer.decode(s, *self.inputs.decode(s, 1 if self.options.hot else copies))
                self.require_finite(call(0))
                samples = self.timer.graph_samples(calls, call, self.timer.replays, not self.options.hot)
                self.add(name, peer.name, samples, GBps=kv_bytes(s) / percentile(samples, 0.5) * 1e-3)
        return percentile(samples, 0.5)

    def require_finite(self, output):
        output = output[0] if isinstance(output, (tuple, list)) else output
        if not bool(output.isfinite().all()):
            raise Refused("its result is not finite")

    def run(self, names, peers):
        """Measures all names; False where the GPU was lost on the way."""
        work = [(name, parse(name)) for name in names]
        work = [(name, s, [peer for peer in peers if peer.offers(s)]) for name, s in work]
        work = [item for item in work if item[2] or item[1].kind in ("matmul", "copy")]
        self.warm_up()
        for number, (name, s, offering) in enumerate(work, 1):
            print(f"[{number}/{len(work)}] {name} ...", end="", file=sys.stderr, flush=True)
            for peer in offering or [None]:
                provider = peer.name if peer else "ceiling"
                try:
                    median = self.cell(name, s, peer) if peer else self.limit(name, s)
                    print(f" {provider} {median:.2f} us", end="", file=sys.stderr, flush=True)
                except Exception as error:
                    self.refused.append({"name": name, "provider": provider, "why": first_line(error)})
                    print(f" {provider} refused ({first_line(error)})", end="", file=sys.stderr, flush=True)
                    if not self.gpu_works():
                        print(file=sys.stderr)
                        say("the GPU answers no more after this failure; the run ends here")
                        return False
            print(file=sys.stderr)
        return True

    def gpu_works(self):
        try:
            self.torch.cuda.synchronize()
            return True
        except Exception:
            return False

    def context(self):
        torch = self.torch
        properties = torch.cuda.get_device_properties(0)
        return {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"), "program": "peers.py",
                "command": command(sys.argv[1:]), "gpu": properties.name, "driver": driver_version(),
                "cuda": torch.version.cuda,
                "compute_capability": f"{properties.major}.{properties.minor}",
                "sm_count": str(properties.multi_processor_count), "torch": torch.__version__,
                "cudnn": str(torch.backends.cudnn.version()), "refused": self.refused}


def driver_version():
    """As nvidia-smi says it."""
    with contextlib.suppress(OSError):
        answer = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                                capture_output=True, text=True, check=False)
        if answer.returncode == 0 and answer.stdout.strip():
            return answer.stdout.splitlines()[0].strip()
    return "unknown: nvidia-smi did not answer"


def command(arguments):
    """The command line; of files only their names, since folders are of no interest to whoever reads the figures."""
    words = ["peers.py"]
    for word in arguments:
        option, value = word.split("=", 1) if word.startswith("--") and "=" in word else (None, word)
        is_shape = value.startswith(("prefill/", "decode/", "ceiling/"))
        words += ([option] if option else []) + [value if is_shape else pathlib.PurePath(value).name]
    return " ".join(words)


def chosen_names(options):
    names = list(options.shape)
    for name in names:
        if parse(name).kind in ("read", "exp2"):
            raise ValueError(f"{name}: strobe_bench measures this one")
    for grid in options.grid or ([] if names else ["all"]):
        names += [name for name in cells_of(grid, options.quick) if parse(name).kind not in ("read", "exp2")]
    return names


def main():
    parser = argparse.ArgumentParser(add_help=False, usage=argparse.SUPPRESS, allow_abbrev=False)
    for name in ("--help", "--quick", "--hot", "--no-flex", "--alone", "--list"):
        parser.add_argument(name, action="store_true")
    for name in ("--grid", "--shape"):
        parser.add_argument(name, action="append", default=[])
    for name in ("--ceilings", "--json"):
        parser.add_argument(name)
    parser.add_argument("--flex-seconds", type=float)
    options = parser.parse_args()
    if options.help:  # the docstring says it all, in order
        print(__doc__.strip())
        return 0
    try:
        names = chosen_names(options)
        ceiling = matmul_ceiling(pathlib.Path(options.ceilings).read_text()) if options.ceilings else None
        if options.ceilings and not ceiling:
            raise ValueError(f"{options.ceilings} has no ceiling/matmul entry with TFLOPS")
    except (ValueError, OSError) as error:
        say(error)
        return 1
    if options.list:
        print("\n".join(names))
        return 0
    try:
        import torch
    except ImportError as error:
        say(f"needs PyTorch with CUDA ({error})")
        return 1
    if not torch.cuda.is_available():
        say("needs a GPU; PyTorch sees none")
        return 1
    torch.manual_seed(1)
    run = Run(torch, options, ceiling)
    try:
        complete = run.run(names, find_peers(torch, options))
    finally:  # also what was measured before an interruption
        if options.json:
            pathlib.Path(options.json).write_text(
                json.dumps({"context": run.context(), "benchmarks": run.entries}, indent=1) + "\n")
    if not run.entries:
        say("no shape was measured")
    return 0 if complete and run.entries else 1


if __name__ == "__main__":
    sys.exit(main())
