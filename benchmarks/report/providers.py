# SPDX-License-Identifier: MIT
"""Who can be measured. One line each: label, what it is, color and marker in every chart (Okabe and Ito's palette, which
color-blind readers can tell apart)."""

import collections

Provider = collections.namedtuple("Provider", "label what color marker")

STROBE = "strobe"
PEERS = {
    "fa2": Provider("FA2", "FlashAttention-2, as PyTorch's flash backend of scaled_dot_product_attention", "#e69f00", "s"),
    "flash-attn": Provider("flash-attn", "FlashAttention-2, the flash-attn package", "#8c6d1f", "P"),
    "cudnn": Provider("cuDNN", "cuDNN, as PyTorch's cuDNN backend of scaled_dot_product_attention", "#009e73", "^"),
    "fa3": Provider("FA3", "FlashAttention-3, written for Hopper", "#d55e00", "D"),
    "flex": Provider("FlexAttention", "PyTorch's FlexAttention under torch.compile", "#cc79a7", "v"),
    "flashinfer": Provider("FlashInfer", "FlashInfer", "#56b4e9", "X"),
}
PROVIDERS = {STROBE: Provider("strobe", "this library", "#0047ab", "o"), **PEERS}
CEILING = "ceiling"  # not a peer: entries of peers.py that measure the machine
FLOOR = "floor"  # only in a reference: the time to read the same bytes


def label(provider):
    return PROVIDERS[provider].label if provider in PROVIDERS else provider
