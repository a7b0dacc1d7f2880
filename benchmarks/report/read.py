# SPDX-License-Identifier: MIT
"""Raw files of strobe_bench and peers.py in, one stored result out. Every check of the input is here.

A raw file has Google Benchmark's shape. A stored result is {"format": 1, "context": {...}, "rows": [...], "refused": [...]}:
one row for a (name, provider), one entry in `refused` for what a provider would not run.
"""

import json
import math
import re
import sys

from . import cases
from .providers import CEILING, FLOOR, PROVIDERS, STROBE

FORMAT = 1
_METRICS = ("TFLOPS", "GBps", "Gops")
_NUMBERS = ("median_us", "low_us", "high_us", "samples", *_METRICS, "floor_us", "fraction")
# Facts about a run that are stored and shown. All else in a context (host name, folders, load) stays out.
RUN_FACTS = (
    "program",
    "date",
    "driver",
    "cuda",
    "torch",
    "cudnn",
    "triton",
    "flash_attn",
    "fa3",
    "flashinfer",
    "strobe_version",
    "command",
)


class InputError(Exception):
    """Bad input. Says which file, entry and field."""

    def __init__(self, path, *where_and_what):
        super().__init__(": ".join([str(path), *where_and_what]))


def note(text):
    print(f"note: {text}", file=sys.stderr)


class Results:
    """A stored result, easy to ask."""

    def __init__(self, stored):
        self.context, self.rows, self.refused = stored["context"], stored["rows"], stored.get("refused", [])
        self.source = stored.get("source", "")
        self._index = {(row["name"], row["provider"]): row for row in self.rows}
        self.cases = sorted({cases.parse(row["name"]) for row in self.rows}, key=lambda case: case.order)

    def get(self, case, provider=STROBE):
        """The row, or None."""
        return self._index.get((case if isinstance(case, str) else case.name, provider))

    def grid(self, name):
        return [case for case in self.cases if case.grid == name]

    def peers(self, some):
        """Peers with at least one of these cases, in the order of providers.py."""
        return [p for p in PROVIDERS if p != STROBE and any(self.get(case, p) for case in some)]

    def best_peer(self, case):
        rows = [row for p in PROVIDERS if p != STROBE and (row := self.get(case, p))]
        return min(rows, key=lambda row: row["median_us"], default=None)

    def floor_us(self, case):
        """Time to read the same bytes: strobe's own if it was measured there, else a peer's."""
        return next((row["floor_us"] for p in PROVIDERS if (row := self.get(case, p)) and "floor_us" in row), None)

    def matmul(self):
        """The fastest matrix product measured, as a row, or None."""
        rows = [row for row in self.rows if row["name"].startswith("ceiling/matmul/")]
        return max(rows, key=lambda row: row["TFLOPS"], default=None)


def _load(path):
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except OSError as error:
        raise InputError(path, error.strerror) from None
    except ValueError as error:
        raise InputError(path, f"not JSON ({error})") from None
    if not isinstance(data, dict):
        raise InputError(path, "not a JSON object")
    return data


def _number(path, where, entry, field):
    value = entry.get(field)
    if value is None:
        raise InputError(path, where, field, "missing")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(path, where, field, f"{value!r} is not a number")
    if not math.isfinite(value) or value <= 0:
        raise InputError(path, where, field, f"{value} is not a positive number")
    return value


def _text(path, where, entry, field, required=True):
    value = entry.get(field)
    if value is None and required:
        raise InputError(path, where, field, "missing")
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(path, where, field, f"{value!r} is not text")
    return str(value)


def _date(path, where, entry):
    date = _text(path, where, entry, "date")
    if not re.match(r"\d{4}-\d{2}-\d{2}", date):
        raise InputError(path, where, "date", f"{date!r} does not start like 2026-01-31")
    return date[:10]


def _list(path, data, field):
    value = data.get(field)
    if not isinstance(value, list):
        raise InputError(path, field, "missing" if value is None else "not a list")
    for i, entry in enumerate(value):
        if not isinstance(entry, dict):
            raise InputError(path, f"{field}[{i}]", "not an object")
    return value


def _object(path, data, field):
    value = data.get(field)
    if not isinstance(value, dict):
        raise InputError(path, field, "missing" if value is None else "not an object")
    return value


def _case(path, field, entry):
    name = entry.get("name")
    if not isinstance(name, str):
        raise InputError(path, field, "name", "missing" if name is None else f"{name!r} is not text")
    try:
        return cases.parse(cases.strip_suffixes(name))
    except ValueError as error:
        raise InputError(path, field, "name", str(error)) from None


def _provider(path, case, entry, default, known):
    provider = entry.get("provider", default)
    if provider is None:
        raise InputError(path, case.name, "provider", "missing")
    if provider not in known:
        raise InputError(path, case.name, "provider", f"{provider!r} is not one of {', '.join(known)}")
    return provider


def _row(path, case, provider, entry, required):
    row = {"name": case.name, "provider": provider}
    for field in _NUMBERS:
        if field in required or entry.get(field) is not None:
            row[field] = float(f"{_number(path, case.name, entry, field):.6g}")
    if "samples" in row:
        row["samples"] = int(row["samples"])
    if label := _text(path, case.name, entry, "label", required=False):
        row["label"] = label
    return row


def _required(case, provider):
    fields = ["median_us", "low_us", "high_us", "samples", case.metric]
    return fields + ["floor_us", "fraction"] if case.kind == "decode" and provider == STROBE else fields


def _without_folders(text):
    """Without the folders of absolute paths, which mean nothing elsewhere; on one line."""
    return re.sub(r"(^|[\s='\"(])/(?:[^/\s'\"]+/)+", r"\1", " ".join(text.split()))


def _run(path, context):
    """What is kept of a raw file's context."""
    run = {field: _text(path, "context", context, field, required=field in ("program", "command")) for field in RUN_FACTS}
    run = {field: value for field, value in run.items() if value}
    if other := re.search(r"--(hot|bound)\b", run["command"]):
        raise InputError(path, "context", "command", f"{other[0]}: other rules under the same names; not for a result")
    return {**run, "date": _date(path, "context", context), "command": _without_folders(run["command"])}


def read_raw(path, default_provider):
    """(context, rows, refused) of one raw file. default_provider: of entries that name none; None: an error."""
    data = _load(path)
    context = _object(path, data, "context")
    machine, known = {"gpu": _text(path, "context", context, "gpu")}, (*PROVIDERS, CEILING)
    for field in ("compute_capability", "sm_count"):
        if value := _text(path, "context", context, field, required=False):
            machine[field] = value
    rows, refused = [], []

    def refuse(case, provider, reason):
        refused.append({"name": case.name, "provider": provider, "reason": _without_folders(reason or "no reason given")})

    for i, entry in enumerate(_list(path, context, "refused") if "refused" in context else []):  # as peers.py says it
        case = _case(path, f"context.refused[{i}]", entry)
        provider = _provider(path, case, entry, default_provider, known)
        refuse(case, provider, _text(path, case.name, entry, "why", required=False))
    for i, entry in enumerate(_list(path, data, "benchmarks")):
        if entry.get("run_type", "iteration") == "aggregate":
            continue
        case = _case(path, f"benchmarks[{i}]", entry)
        provider = _provider(path, case, entry, default_provider, known)
        if entry.get("error_occurred") or entry.get("skipped"):  # as Google Benchmark says it, older and newer
            field = "error_message" if entry.get("error_occurred") else "skip_message"
            refuse(case, provider, _text(path, case.name, entry, field, required=False))
        else:
            rows.append(_row(path, case, provider, entry, _required(case, provider)))
    return {**machine, "run": _run(path, context)}, rows, refused


def merge(files):
    """Raw files, [(path, default_provider)], as one stored result. The later file wins, and a figure over a refusal."""
    rows, refused, origin, runs, machine = {}, {}, {}, [], {}
    for path, default_provider in files:
        context, new_rows, new_refused = read_raw(path, default_provider)
        run = context.pop("run")
        if run not in runs:
            runs.append(run)
        if machine and context["gpu"] != machine["gpu"]:
            raise InputError(path, "context", "gpu", f"{context['gpu']!r}, but {files[0][0]} has {machine['gpu']!r}")
        machine = {**context, **machine}
        refused.update({(entry["name"], entry["provider"]): entry for entry in new_refused})
        for row in new_rows:
            key = (row["name"], row["provider"])
            if key in rows:
                note(f"{row['name']} of {row['provider']}: {path} replaces {origin[key]}")
            rows[key], origin[key] = row, path
    for key in sorted(refused.keys() & rows.keys()):  # refused once and measured once: there is a figure
        note(f"{key[0]} of {key[1]}: refused once, but measured in {origin[key]}")
        del refused[key]
    if not rows:
        raise InputError(files[-1][0], "benchmarks", "no results")
    order = lambda row: (cases.parse(row["name"]).order, [*PROVIDERS, CEILING].index(row["provider"]))
    stored = {
        "format": FORMAT,
        "context": {"date": max(run["date"] for run in runs), **machine, "runs": runs},
        "rows": sorted(rows.values(), key=order),
        "refused": sorted(refused.values(), key=order),
    }
    _fill_fractions(stored)
    return stored


def _fill_fractions(stored):
    """Prefill measured without a ceiling of its own gets its fraction from the ceiling in the other files, if there is one."""
    matmul = Results(stored).matmul()
    bare = [row for row in stored["rows"] if row["name"].startswith("prefill/") and "fraction" not in row]
    if not matmul or not bare:
        return
    for row in bare:
        row["fraction"] = float(f"{row['TFLOPS'] / matmul['TFLOPS']:.6g}")
    note(
        f"fraction of {len(bare)} prefill rows taken from {matmul['name']} of {matmul['provider']}, {matmul['TFLOPS']} TFLOP/s"
    )


def gpu_slug(gpu):
    """"NVIDIA H200" is h200."""
    return cases.slug(re.sub(r"^nvidia\s+", "", gpu.lower()))


def file_name(stored):
    return f"{stored['context']['date']}-{gpu_slug(stored['context']['gpu'])}.json"


def write(stored, path):
    """A row a line, so that two results can be compared by eye too."""
    lines = lambda rows: "[" + ",".join("\n  " + json.dumps(row) for row in rows) + "\n ]" if rows else "[]"
    context = json.dumps(stored["context"], indent=1).replace("\n", "\n ")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'{{\n "format": {stored["format"]},\n "context": {context},\n "rows": {lines(stored["rows"])},\n'
        f' "refused": {lines(stored["refused"])}\n}}\n',
        encoding="utf-8",
    )


def read_stored(path, reference=False):
    """A stored result. A reference may hold a rate instead of a time, and floors."""
    data = _load(path)
    if "benchmarks" in data:
        raise InputError(path, "benchmarks", "a raw file; merge it first (--strobe, --peers, --results)")
    if data.get("format") != FORMAT:
        raise InputError(path, "format", f"{data.get('format')!r} is not {FORMAT}")
    context = _object(path, data, "context")
    _text(path, "context", context, "gpu")
    _date(path, "context", context)
    if reference:
        _text(path, "reference", data, "source")
    else:
        for run in _list(path, context, "runs"):
            _text(path, "context.runs", run, "program")
            _text(path, "context.runs", run, "command")
    known = (*PROVIDERS, CEILING, FLOOR) if reference else (*PROVIDERS, CEILING)
    rows, seen = [], set()
    for i, entry in enumerate(_list(path, data, "rows")):
        case = _case(path, f"rows[{i}]", entry)
        provider = _provider(path, case, entry, None, known)
        by_rate = reference and entry.get("median_us") is None
        rows.append(
            _row(
                path,
                case,
                provider,
                entry,
                [case.metric] if by_rate else ["median_us"] if reference else _required(case, provider),
            )
        )
        if (case.name, provider) in seen:
            raise InputError(path, case.name, "provider", f"a second row of {provider!r}")
        seen.add((case.name, provider))
    refused = []
    for i, entry in enumerate(_list(path, data, "refused") if "refused" in data else []):
        case = _case(path, f"refused[{i}]", entry)
        refused.append(
            {
                "name": case.name,
                "provider": _provider(path, case, entry, None, known),
                "reason": _text(path, case.name, entry, "reason"),
            }
        )
    return Results({"context": context, "rows": rows, "refused": refused, "source": data.get("source", "")})
