# SPDX-License-Identifier: MIT
"""A benchmark's name, taken apart as spec.py does, and what the pages say of it: words, table, order, anchor."""

import dataclasses
import re

import spec

# What Google Benchmark appends to a name.
_SUFFIX = re.compile(r"/(manual_time|real_time|process_time|(iterations|repeats|threads|min_time|min_warmup_time):[\w.]+)$")


@dataclasses.dataclass(frozen=True)
class Case(spec.Spec):
    @property
    def name(self):
        return spec.name_of(self)

    @property
    def heads(self):
        return f"{self.q_heads}/{self.kv_heads}"

    @property
    def metric(self):
        """The counter that says how fast."""
        return {"prefill": "TFLOPS", "matmul": "TFLOPS", "exp2": "Gops"}.get(self.kind, "GBps")

    @property
    def variant(self):
        """Mask and score in words: "full", "causal", "window 1024", "causal, ALiBi"."""
        mask = _words(self.mask) or ("causal" if self.causal else "full")
        score = {"alibi": "ALiBi", "softcap": "soft cap"}.get(self.score)
        return f"{mask}, {score}" if score else mask

    @property
    def cache(self):
        """Where and how decode reads, in words: "strided", "pages of 16", "fixed 256"."""
        page = f"pages of {self.page}" if self.page else "strided"
        policy = _words(self.policy)
        return page if not policy else policy if not self.page else f"{page}, {policy}"

    @property
    def is_ceiling(self):
        return self.kind not in ("prefill", "decode")

    @property
    def grid(self):
        """The table this case is shown in."""
        if self.is_ceiling:
            return "ceilings"
        if self.kind == "decode":
            if self.q_len != 1:
                return "other"
            return "caches" if self.page or self.policy else "decode"
        square = self.q_len == self.kv_len and self.q_heads == self.kv_heads
        if square and (self.type, self.batch, self.q_heads, self.q_len) == ("bf16", 4, 16, 4096):
            return "variants"
        if not square or self.type != "fp16" or self.mask or self.score:
            return "other"
        if self.batch * self.q_len == 16384 and self.q_heads * self.head_dim == 2048:
            return "prefill"
        return "twelve-heads" if (self.q_heads, self.head_dim) == (12, 64) else "other"

    @property
    def order(self):
        """Sorts cases as the tables show them. In the grid of 16k tokens the batch follows from the length."""
        batch = 0 if self.grid == "prefill" else self.batch
        return (
            ("prefill", "decode", "copy", "exp2", "read", "matmul").index(self.kind),
            self.type,
            self.head_dim,
            self.q_heads,
            self.kv_heads,
            batch,
            self.causal,
            self.mask,
            self.score,
            self.kv_len,
            self.q_len,
            self.page,
            self.policy,
            self.size,
        )

    def base(self):
        """The same decode shape with a strided cache and the default policy."""
        return dataclasses.replace(self, page=0, policy=spec.Numbered()).name


def _words(numbered):
    return f"{numbered.family} {numbered.number}" if numbered else ""


def strip_suffixes(name):
    while _SUFFIX.search(name):
        name = _SUFFIX.sub("", name)
    return name


def parse(name):
    """ValueError as spec.parse."""
    return spec.parse(name, Case)


def slug(name):
    """The anchor of a case's row: prefill/fp16/B:1/... is prefill-fp16-b1-..."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace(":", "")).strip("-")
