# SPDX-License-Identifier: MIT
"""What a benchmark measures, and its name, which says all of it: spec.hpp's twin for peers.py, report.py and analyse.py, with the
same grammar, checks and sentences. tests/data/benchmark_names.txt holds both to it; the grid is in grid.inc, which both read.

prefill/fp16/B:1/Hq:16/Hkv:16/Sq:16384/Sk:16384/D:128/causal:1[/mask:window1024][/score:alibi]
decode/fp16/B:1/Hq:32/Hkv:8/Sq:1/Sk:1024/D:128/kv:fp16/page:0[/policy:fixed256]
ceiling/matmul/fp16/N:8192   ceiling/copy/MB:1024   ceiling/read/MB:1024   ceiling/exp2
"""
import dataclasses
import json
import math
import pathlib
import typing

MOST_TOKENS = 1 << 30


class Numbered(typing.NamedTuple):
    """`family<number>`, as in window1024; false where there is none."""

    family: str = ""
    number: int = 0

    def __bool__(self):
        return bool(self.family)

    def __str__(self):
        return f"{self.family}{self.number}" if self else ""


@dataclasses.dataclass(frozen=True)
class Spec:
    kind: str  # prefill, decode, matmul, copy, read, exp2
    type: str = ""
    batch: int = 0
    q_heads: int = 0
    kv_heads: int = 0
    q_len: int = 0
    kv_len: int = 0
    head_dim: int = 0
    causal: bool = False
    mask: Numbered = Numbered()
    score: str = ""
    page: int = 0
    policy: Numbered = Numbered()
    size: int = 0  # N of matmul, MB of copy and read


def one_of(words):
    return ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]


def number_of(digits):
    """The number that `digits` writes, or -1: no sign, no leading zero, at most ten digits."""
    plain = digits.isascii() and digits.isdigit() and len(digits) <= 10 and (digits == "0" or digits[0] != "0")
    return int(digits) if plain else -1


class NameReader:
    """Takes a name apart from left to right; what is wrong becomes a ValueError that names the field and the value."""

    def __init__(self, name):
        self.name, self.fields, self.next = name, name.split("/"), 0

    def fail(self, sentence):
        raise ValueError(f"{self.name}: {sentence}")

    def has(self, key):
        return self.next < len(self.fields) and self.fields[self.next].startswith(key + ":")

    def required(self, key):
        if not self.has(key):
            there = self.next < len(self.fields)
            self.fail(f"{key} is missing: " +
                      (f"'{self.fields[self.next]}' stands in its place" if there else "the name ends before it"))
        self.next += 1
        return self.fields[self.next - 1][len(key) + 1:]

    def require_one_of(self, what, value, allowed):
        if value not in allowed:
            self.fail(f"{what} is '{value}'; it must be {one_of(allowed)}")
        return value

    def word(self, what, allowed):
        value = self.fields[self.next] if self.next < len(self.fields) else ""
        self.next += 1
        return self.require_one_of(what, value, allowed)

    def keyed_word(self, key, allowed):
        return self.require_one_of(key, self.required(key), allowed)

    def number(self, key, least, most):
        text = self.required(key)
        value = number_of(text)
        if not least <= value <= most:
            self.fail(f"{key} is '{text}'; it must be an integer from {least} to {most}")
        return value

    def optional_word(self, key, allowed):
        return self.keyed_word(key, allowed) if self.has(key) else ""

    def optional_numbered(self, key, families):
        if not self.has(key):
            return Numbered()
        value = self.required(key)
        for family in families:
            if value.startswith(family):
                number = number_of(value[len(family):])
                if 1 <= number <= MOST_TOKENS:
                    return Numbered(family, number)
        self.fail(f"{key} is '{value}'; it must be {one_of([f + '<N>' for f in families])}, N from 1 to {MOST_TOKENS}")

    def end(self):
        if self.next < len(self.fields):
            self.fail(f"'{self.fields[self.next]}' is one field too many")


def parse(name, make=Spec):
    """ValueError, which names the field and the value, where the name is not one of the forms above."""
    reader = NameReader(name)
    kind = reader.word("the kind", ["prefill", "decode", "ceiling"])
    if kind == "ceiling":
        s = {"kind": reader.word("the ceiling", ["matmul", "copy", "read", "exp2"])}
        if s["kind"] == "matmul":
            s["type"] = reader.word("the element type", ["fp16", "bf16"])
            s["size"] = reader.number("N", 1, 65536)
        elif s["kind"] != "exp2":
            s["size"] = reader.number("MB", 1, 100000)
        reader.end()
        return make(**s)
    s = {"kind": kind}
    s["type"] = reader.word("the element type", ["fp16", "bf16"] if kind == "prefill" else ["fp16"])
    s["batch"] = reader.number("B", 1, 65536)
    s["q_heads"] = reader.number("Hq", 1, 65536)
    s["kv_heads"] = reader.number("Hkv", 1, 65536)
    s["q_len"] = reader.number("Sq", 1, MOST_TOKENS)
    s["kv_len"] = reader.number("Sk", 1, MOST_TOKENS)
    s["head_dim"] = reader.number("D", 8, 256)
    if s["q_heads"] % s["kv_heads"]:
        reader.fail(f"Hq is '{s['q_heads']}'; it must be a multiple of Hkv, {s['kv_heads']}")
    if s["head_dim"] % 8:
        reader.fail(f"D is '{s['head_dim']}'; it must be a multiple of 8")
    if kind == "prefill":
        s["causal"] = reader.number("causal", 0, 1) == 1
        s["mask"] = reader.optional_numbered("mask", ["window", "prefix", "document"])
        s["score"] = reader.optional_word("score", ["alibi", "softcap"])
        if s["mask"] and not s["causal"]:
            reader.fail(f"mask is '{s['mask']}'; it needs causal:1")
    else:
        reader.keyed_word("kv", ["fp16"])
        s["page"] = reader.number("page", 0, 65536)
        if s["page"] & (s["page"] - 1):
            reader.fail(f"page is '{s['page']}'; it must be 0 or a power of two")
        s["policy"] = reader.optional_numbered("policy", ["fixed"])
    reader.end()
    return make(**s)


def name_of(s):
    if s.kind == "matmul":
        return f"ceiling/matmul/{s.type}/N:{s.size}"
    if s.kind in ("copy", "read"):
        return f"ceiling/{s.kind}/MB:{s.size}"
    if s.kind == "exp2":
        return "ceiling/exp2"
    name = (f"{s.kind}/{s.type}/B:{s.batch}/Hq:{s.q_heads}/Hkv:{s.kv_heads}/Sq:{s.q_len}/Sk:{s.kv_len}/D:{s.head_dim}")
    if s.kind == "prefill":
        name += f"/causal:{int(s.causal)}"
        name += f"/mask:{s.mask}" if s.mask else ""
        return name + (f"/score:{s.score}" if s.score else "")
    return name + f"/kv:fp16/page:{s.page}" + (f"/policy:{s.policy}" if s.policy else "")


# ---- the amount of work, statistics, the grid: as in spec.hpp -------------------------------------------------------


def visible_pairs(s):
    """Pairs of a query and a key it sees, in one head of one sequence; plain square causal counts as half of all."""
    offset, (family, number) = s.kv_len - s.q_len, s.mask
    if s.q_len == 1 if s.kind == "decode" else not s.causal:
        return float(s.q_len * s.kv_len)
    if not family and offset == 0:
        return s.q_len * s.kv_len / 2
    pairs = 0
    for position in range(offset, s.kv_len):
        keys = max(position + 1, 0)
        if family == "window":
            keys = min(keys, number)
        elif family == "prefix":
            keys = max(keys, min(number, s.kv_len))
        elif family == "document":
            keys -= max(position, 0) // number * number
        pairs += keys
    return float(pairs)


def flop(s):
    if s.kind == "matmul":
        return 2.0 * s.size**3
    return 4.0 * s.batch * s.q_heads * visible_pairs(s) * s.head_dim


def kv_bytes(s):
    return 2 * s.batch * s.kv_heads * s.kv_len * s.head_dim * 2


def rotation(size):
    """Copies of K and V of `size` bytes, and calls in a graph."""
    copies = max(1, min(100, int(16e9 // size), math.ceil(400e6 / size)))
    return copies, max(4, copies)


def percentile(ascending, fraction):
    at = fraction * (len(ascending) - 1)
    below = int(at)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (at - below) * (ascending[above] - ascending[below])


def all_cells():
    """(grid, name, quick) of every cell of grid.inc, in its order."""
    cells, grid = [], None
    for line in pathlib.Path(__file__).with_name("grid.inc").read_text().splitlines():
        if line.startswith("["):
            grid = line[1:-1]
        elif grid and "/" in line:
            name, _, mark = line.partition(" ")
            cells.append((grid, name, mark.strip() == "quick"))
    return cells


def cells_of(grid, quick):
    allowed = list(dict.fromkeys(cell[0] for cell in all_cells())) + ["all"]
    if grid not in allowed:
        raise ValueError(f"the grid is '{grid}'; it must be {one_of(allowed)}")
    return [name for where, name, is_quick in all_cells() if grid in ("all", where) and (is_quick or not quick)]


def matmul_ceiling(text):
    """TFLOPS of the first ceiling/matmul entry in a run's JSON, or None."""
    for entry in json.loads(text)["benchmarks"]:
        if entry["name"].startswith("ceiling/matmul/") and "TFLOPS" in entry:
            return entry["TFLOPS"]
    return None
