# SPDX-License-Identifier: MIT
"""The run on the GPU machine: resources, times, ceilings, counters. Python's own library only."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from report import cases

from . import counters

FORMAT = 1
SHAPES = (
    "prefill/fp16/B:4/Hq:32/Hkv:32/Sq:4096/Sk:4096/D:64/causal:0",
    "prefill/fp16/B:4/Hq:32/Hkv:32/Sq:4096/Sk:4096/D:64/causal:1",
    "prefill/fp16/B:4/Hq:16/Hkv:16/Sq:4096/Sk:4096/D:128/causal:0",
    "prefill/fp16/B:4/Hq:16/Hkv:16/Sq:4096/Sk:4096/D:128/causal:1",
    "prefill/fp16/B:4/Hq:8/Hkv:8/Sq:4096/Sk:4096/D:256/causal:0",
    "decode/fp16/B:8/Hq:32/Hkv:8/Sq:1/Sk:8192/D:128/kv:fp16/page:0",
    "decode/fp16/B:64/Hq:12/Hkv:12/Sq:1/Sk:2048/D:64/kv:fp16/page:0",
    "decode/fp16/B:64/Hq:14/Hkv:2/Sq:1/Sk:2048/D:64/kv:fp16/page:16",
)
FACTS = ("gpu", "driver", "cuda", "date", "compute_capability", "strobe_version")
FIGURES = ("median_us", "low_us", "high_us", "samples", "TFLOPS", "GBps", "Gops", "floor_us", "fraction")


class MeasureError(Exception):
    pass


def _said(words):
    """A command for the page: programs by their names, without folders."""
    words = [pathlib.PurePath(word).name if os.sep in word and pathlib.PurePath(word).is_absolute() else word for word in words]
    return " ".join(f"'{word}'" if re.search(r"[()|]", word) else word for word in words)


class Run:
    """Collects; what there is so far is written after each step."""

    def __init__(self, binary, ncu, path, seconds, shapes=SHAPES, run=subprocess.run):
        self.binary, self.path, self.seconds, self.shapes, self._run = pathlib.Path(binary).resolve(), path, seconds, shapes, run
        self.started = time.monotonic()
        self.profiler = counters.Profiler(ncu, self.binary, self.remaining, self.say, run)
        self.result = {"format": FORMAT, "context": {}, "device": {}, "commands": [], "ceilings": {}, "shapes": []}

    def remaining(self):
        return self.seconds - (time.monotonic() - self.started)

    def say(self, text):
        print(f"[{time.monotonic() - self.started:3.0f} s] {text}", file=sys.stderr, flush=True)

    def _bench(self, *options):
        """What strobe_bench writes with these options."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "figures.json"
            command = [str(self.binary), *options, "--json", str(file)]
            try:
                done = self._run(command, capture_output=True, text=True, timeout=max(self.remaining(), 1))
            except subprocess.TimeoutExpired:
                raise MeasureError(f"strobe_bench {options[0]} took more than the {self.seconds:g} seconds of --seconds") from None
            except OSError as error:
                raise MeasureError(f"--bin: {self.binary.name}: {error.strerror}") from None
            if not file.is_file():
                raise MeasureError(f"strobe_bench wrote no figures; it ended with {done.returncode}: {done.stderr.strip()[-600:]}")
            self.result["commands"].append(_said(["strobe_bench", *options, "--json", file.name]))
            try:
                return json.loads(file.read_text(encoding="utf-8"))
            except ValueError as error:
                raise MeasureError(f"strobe_bench {options[0]} wrote no JSON ({error}): {done.stderr.strip()[-600:]}") from None

    def _write(self):
        part = self.path.with_name(self.path.name + ".part")
        part.write_text(json.dumps(self.result, indent=1) + "\n", encoding="utf-8")
        part.replace(self.path)

    def __call__(self):
        named = [word for shape in self.shapes for word in ("--shape", shape)]
        self.say("resources")
        said = self._bench("--resources", *named)
        resources = {shape.pop("name"): shape for shape in said["shapes"]}
        self.result["device"] = said["device"]
        self.say("times and ceilings")
        figures = self._bench("--grid", "ceilings", *named)
        context = {**said["context"], **figures["context"]}
        self.result["context"] = {key: context[key] for key in FACTS if key in context}
        self.result["context"]["ncu"] = self.profiler.version()
        rows = {}
        for entry in figures["benchmarks"]:
            name = cases.strip_suffixes(entry["name"])
            if entry.get("error_occurred"):
                self.say(f"{name}: {entry.get('error_message')}")
            elif entry.get("run_type", "iteration") == "iteration":
                rows[name] = {key: entry[key] for key in FIGURES if key in entry}
        self.result["ceilings"] = {name: row for name, row in rows.items() if name.startswith("ceiling/")}
        for name in self.shapes:
            shape = {"name": name, "resources": resources[name], "time": rows.get(name), "counters": {}, "missing": {}}
            shape["missing"] = {metric: "time was up" for metric in counters.METRICS}
            self.result["shapes"].append(shape)
        self._write()
        for shape in self.result["shapes"]:
            self.say(f"counters: {shape['name']}")
            shape["counters"], shape["missing"] = self.profiler.counters(shape["name"])
            self._write()
        commands = self.profiler.commands
        if commands:
            arguments, program = commands[0][:-4], commands[0][-4:]
            self.result["commands"].append(_said(["ncu", *arguments, "strobe_bench", *program]))
            self._write()
        read = sum(len(shape["counters"]) for shape in self.result["shapes"])
        self.say(f"{read} of {len(self.shapes) * len(counters.METRICS)} counters read; {self.path}")
        return 0
