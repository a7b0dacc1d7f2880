# SPDX-License-Identifier: MIT
"""A benchmark's name is its whole specification; here it is taken apart.

prefill/fp16/B:1/Hq:16/Hkv:16/Sq:16384/Sk:16384/D:128/causal:1[/mask:window1024][/score:alibi]
decode/fp16/B:1/Hq:32/Hkv:8/Sq:1/Sk:1024/D:128/kv:fp16/page:0[/policy:fixed256]
ceiling/matmul/fp16/N:8192   ceiling/copy/MB:1024   ceiling/read/MB:1024   ceiling/exp2
"""

import dataclasses
import re

_SHAPE = (
    r"(?P<dtype>\w+)/B:(?P<batch>\d+)/Hq:(?P<q_heads>\d+)/Hkv:(?P<kv_heads>\d+)"
    r"/Sq:(?P<q_len>\d+)/Sk:(?P<kv_len>\d+)/D:(?P<dim>\d+)"
)
_PATTERNS = (
    re.compile(rf"(?P<kind>prefill)/{_SHAPE}/causal:(?P<causal>[01])(?:/mask:(?P<mask>\w+))?(?:/score:(?P<score>\w+))?"),
    re.compile(rf"(?P<kind>decode)/{_SHAPE}/kv:(?P<kv>\w+)/page:(?P<page>\d+)(?:/policy:(?P<policy>\w+))?"),
    re.compile(r"(?P<kind>ceiling)/(?P<what>matmul)/(?P<dtype>\w+)/N:(?P<size>\d+)"),
    re.compile(r"(?P<kind>ceiling)/(?P<what>copy|read)/MB:(?P<size>\d+)"),
    re.compile(r"(?P<kind>ceiling)/(?P<what>exp2)"),
)
_NUMBERS = {"batch", "q_heads", "kv_heads", "q_len", "kv_len", "dim", "causal", "page", "size"}
# What Google Benchmark appends to a name.
_SUFFIX = re.compile(r"/(manual_time|real_time|process_time|(iterations|repeats|threads|min_time|min_warmup_time):[\w.]+)$")


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    kind: str
    dtype: str = ""
    batch: int = 0
    q_heads: int = 0
    kv_heads: int = 0
    q_len: int = 0
    kv_len: int = 0
    dim: int = 0
    causal: int = 0
    mask: str = ""
    score: str = ""
    kv: str = ""
    page: int = 0
    policy: str = ""
    what: str = ""
    size: int = 0

    @property
    def heads(self):
        return f"{self.q_heads}/{self.kv_heads}"

    @property
    def metric(self):
        """The counter that says how fast."""
        if self.kind == "ceiling":
            return {"matmul": "TFLOPS", "exp2": "Gops"}.get(self.what, "GBps")
        return {"prefill": "TFLOPS", "decode": "GBps"}[self.kind]

    @property
    def variant(self):
        """Mask and score in words: "full", "causal", "window 1024", "causal, ALiBi"."""
        spaced = lambda text: re.sub(r"(?<=[a-z])(?=\d)", " ", text)
        mask = spaced(self.mask) or ("causal" if self.causal else "full")
        score = {"alibi": "ALiBi", "softcap": "soft cap"}.get(self.score, spaced(self.score))
        return f"{mask}, {score}" if score else mask

    @property
    def cache(self):
        """Where and how decode reads, in words: "strided", "pages of 16", "fixed 256"."""
        page = f"pages of {self.page}" if self.page else "strided"
        policy = re.sub(r"(?<=[a-z])(?=\d)", " ", self.policy)
        return page if not policy else policy if not self.page else f"{page}, {policy}"

    @property
    def grid(self):
        """The table this case is shown in."""
        if self.kind == "ceiling":
            return "ceilings"
        if self.kind == "decode":
            if self.q_len != 1 or self.dtype != "fp16" or self.kv != "fp16":
                return "other"
            return "caches" if self.page or self.policy else "decode"
        square = self.q_len == self.kv_len and self.q_heads == self.kv_heads
        if square and (self.dtype, self.batch, self.q_heads, self.q_len) == ("bf16", 4, 16, 4096):
            return "variants"
        if not square or self.dtype != "fp16" or self.mask or self.score:
            return "other"
        if self.batch * self.q_len == 16384 and self.q_heads * self.dim == 2048:
            return "prefill"
        return "twelve-heads" if (self.q_heads, self.dim) == (12, 64) else "other"

    @property
    def order(self):
        """Sorts cases as the tables show them. In the grid of 16k tokens the batch follows from the length."""
        batch = 0 if self.grid == "prefill" else self.batch
        return (
            ("prefill", "decode", "ceiling").index(self.kind),
            self.dtype,
            self.dim,
            self.q_heads,
            self.kv_heads,
            batch,
            self.causal,
            self.mask,
            self.score,
            self.kv_len,
            self.q_len,
            self.kv,
            self.page,
            self.policy,
            self.what,
            self.size,
        )

    def base(self):
        """The same decode shape with a strided cache and the default policy."""
        return re.sub(r"/page:\d+.*", "/page:0", self.name)


def strip_suffixes(name):
    while _SUFFIX.search(name):
        name = _SUFFIX.sub("", name)
    return name


def parse(name):
    """ValueError where the name is not one of the forms above."""
    for pattern in _PATTERNS:
        if match := pattern.fullmatch(name):
            return Case(
                name,
                **{
                    key: int(value) if key in _NUMBERS else value
                    for key, value in match.groupdict().items()
                    if value is not None
                },
            )
    raise ValueError("not a benchmark's name")


def slug(name):
    """The anchor of a case's row: prefill/fp16/B:1/... is prefill-fp16-b1-..."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace(":", "")).strip("-")
