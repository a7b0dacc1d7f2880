# SPDX-License-Identifier: MIT
"""Raw files as strobe_bench and peers.py write them, with figures from a formula. Nothing here was measured.

To look at a full page and its charts:
  python3 tests/python/made_up.py FOLDER
  python3 benchmarks/report.py --strobe FOLDER/strobe.json --peers FOLDER/peers.json --results FOLDER \\
    --page FOLDER/page.md --images FOLDER
"""

import json
import pathlib
import sys
import zlib

HEADS = ((12, 12, 64), (14, 2, 64), (32, 8, 128), (32, 32, 128))
SHAPE = "B:{}/Hq:{}/Hkv:{}/Sq:{}/Sk:{}/D:{}"
# (seconds that a call costs at least, share of the limit that it reaches), by provider
PREFILL = {"strobe": (3e-6, 0.52), "fa2": (5e-6, 0.45), "cudnn": (4e-6, 0.81), "fa3": (6e-6, 0.93), "flex": (9e-6, 0.44)}
DECODE = {"strobe": (2.5e-6, 0.97), "fa2": (7e-6, 0.62), "cudnn": (3.5e-6, 0.93), "fa3": (9e-6, 0.95)}
MATMUL = 750.0


def prefill_names():
    for dim in (64, 128, 256):
        heads = 2048 // dim
        for causal in (0, 1):
            for length in (512, 1024, 2048, 4096, 8192, 16384):
                yield "prefill/fp16/" + SHAPE.format(16384 // length, heads, heads, length, length, dim) + f"/causal:{causal}"
    for batch in (1, 8):
        for causal in (0, 1):
            for length in (128, 256, 512, 1024, 2048, 4096):
                yield "prefill/fp16/" + SHAPE.format(batch, 12, 12, length, length, 64) + f"/causal:{causal}"
    for dim in (64, 128):
        for tail in (
            "0",
            "1",
            "1/mask:window1024",
            "1/mask:prefix512",
            "1/mask:document700",
            "1/score:alibi",
            "1/score:softcap",
        ):
            yield "prefill/bf16/" + SHAPE.format(4, 16, 16, 4096, 4096, dim) + f"/causal:{tail}"


def decode_names():
    for q_heads, kv_heads, dim in HEADS:
        for batch in (1, 8, 64):
            for keys in (128, 512, 1024, 2048, 8192, 65536):
                if 4 * batch * kv_heads * keys * dim <= 20e9:
                    for tail in ("0", "16", "64", "0/policy:fixed256"):
                        yield "decode/fp16/" + SHAPE.format(batch, q_heads, kv_heads, 1, keys, dim) + f"/kv:fp16/page:{tail}"


def fields(name):
    return {key: int(value) for key, value in (part.split(":") for part in name.split("/") if ":" in part) if value.isdigit()}


def wiggle(name, provider):
    """A few per cent that look like noise and are the same on every machine."""
    return 1 + 0.06 * (zlib.crc32(f"{name} {provider}".encode()) / 2**32 - 0.5)


def entry(name, us, **more):
    return {
        "name": f"{name}/manual_time",
        "run_name": name,
        "run_type": "iteration",
        "iterations": 9,
        "real_time": us,
        "time_unit": "us",
        "median_us": us,
        "low_us": 0.99 * us,
        "high_us": 1.02 * us,
        "samples": 9,
        **more,
    }


def prefill(name, provider):
    f = fields(name)
    share = 0.5 if f["causal"] else 1.0
    share = 0.4 if "mask:window" in name else 0.1 if "mask:document" in name else share
    flop = 4.0 * f["B"] * f["Hq"] * f["Sq"] * f["Sk"] * f["D"] * share
    least, reach = PREFILL[provider]
    reach *= f["Sq"] / (f["Sq"] + (500 if f["causal"] else 250)) * (0.95 if f["D"] == 64 else 1)
    seconds = (least + flop / (reach * MATMUL * 1e12)) * wiggle(name, provider)
    tflops = flop / seconds / 1e12
    return entry(
        name,
        seconds * 1e6,
        TFLOPS=tflops,
        **({"fraction": tflops / MATMUL, "label": "made up"} if provider == "strobe" else {}),
    )


def decode(name, provider):
    f = fields(name)
    size = 4.0 * f["B"] * f["Hkv"] * f["Sk"] * f["D"]
    floor = 1.5 + size / 4.6e6
    least, reach = DECODE[provider]
    us = (least * 1e6 + floor / reach) * wiggle(name, provider)
    us *= 1.4 if "fixed" in name else 1.03 if f["page"] else 1.0
    extra = {"floor_us": floor, "fraction": floor / us, "label": "made up"} if provider == "strobe" else {}
    return entry(name, us, GBps=size / us / 1e3, **extra)


def ceilings():
    return [
        entry("ceiling/matmul/fp16/N:8192", 2 * 8192**3 / MATMUL / 1e6, TFLOPS=MATMUL),
        entry("ceiling/copy/MB:1024", 490.0, GBps=4180.0),
        entry("ceiling/read/MB:1024", 222.0, GBps=4610.0),
        entry("ceiling/exp2", 100.0, Gops=3900.0),
    ]


def strobe(names=None):
    names = [*prefill_names(), *decode_names()] if names is None else names
    return {
        "context": {
            "date": "2001-02-03T04:05:06+00:00",
            "host_name": "secret",
            "executable": "/home/someone/strobe_bench",
            "gpu": "Made-up GPU 1000",
            "driver": "1.2",
            "cuda": "13.0",
            "compute_capability": "9.0",
            "sm_count": 132,
            "program": "strobe_bench",
            "strobe_version": "0.0.0",
            "command": "/home/someone/build/strobe_bench --grid all --benchmark_out=/home/someone/strobe.json",
        },
        "benchmarks": [prefill(name, "strobe") if name.startswith("prefill") else decode(name, "strobe") for name in names],
    }


def peers(names=None):
    names = [*prefill_names(), *decode_names()] if names is None else names
    made, refused = [{**one, "provider": "ceiling"} for one in ceilings()], []
    for name in names:
        if name.startswith("prefill"):
            plain = "mask:" not in name and "score:" not in name
            some = (["fa2", "cudnn"] if plain else []) + (
                ["flex"] if "bf16" in name else ["fa3"] if "Hq:12/" not in name else []
            )
            made += [{**prefill(name, provider), "provider": provider} for provider in some]
        elif name.endswith("page:0"):
            made += [
                {**decode(name, provider), "provider": provider}
                for provider in ("fa2", "cudnn", "fa3")
                if provider != "fa3" or "D:128" in name
            ]
        if "D:64" in name and "page:0" in name and "policy" not in name and "Sk:65536" in name:
            refused.append({"name": name, "provider": "fa3", "why": "no | kernel in /home/someone/lib.so"})
    return {
        "context": {
            "date": "2001-02-03T05:00:00+00:00",
            "gpu": "Made-up GPU 1000",
            "driver": "1.2",
            "cuda": "13.0",
            "torch": "2.0",
            "cudnn": 91900,
            "program": "peers.py",
            "command": "peers.py --json peers.json",
            "refused": refused,
        },
        "benchmarks": made,
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "strobe.json").write_text(json.dumps(strobe()))
    (folder / "peers.json").write_text(json.dumps(peers()))


if __name__ == "__main__":
    main()
