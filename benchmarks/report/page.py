# SPDX-License-Identifier: MIT
"""docs/benchmarks.md: page.md with the placeholders filled in. All numbers come from the result."""

import os
import pathlib
import re
import string

from . import agreement
from .providers import PROVIDERS, label
from .tables import DASH, anchored, caches, ceilings, comparison, count, microseconds, summary, spread, table

NOTHING = "Nothing was measured here in this run."


def _prefill(results, name):
    lead = {
        "prefill": {
            "D": lambda case: case.head_dim,
            "<mask": lambda case: case.variant,
            "tokens": lambda case: case.q_len,
            "batch": lambda case: case.batch,
        },
        "twelve-heads": {
            "batch": lambda case: case.batch,
            "<mask": lambda case: case.variant,
            "tokens": lambda case: case.q_len,
        },
        "variants": {"D": lambda case: case.head_dim, "<mask and score": lambda case: case.variant},
    }[name]
    some = results.grid(name)
    metric = "median_us" if name == "twelve-heads" else "TFLOPS"
    return comparison(results, some, lead, metric, "of the limit") if some else NOTHING


def _decode(results):
    def tokens(case):
        row = results.get(case)
        return count(case.batch / row["median_us"] * 1e6) if row else DASH

    lead = {
        "<heads": lambda case: case.heads,
        "D": lambda case: case.head_dim,
        "batch": lambda case: case.batch,
        "keys": lambda case: case.kv_len,
        "tokens/s": tokens,
    }
    some = results.grid("decode")
    return comparison(results, some, lead, "median_us", "floor / strobe") if some else NOTHING


def _caches(results):
    parts = list(caches(results)) if any(results.get(case) for case in results.grid("caches")) else []
    with_peers = [case for case in results.grid("caches") if results.best_peer(case)]
    if with_peers:
        lead = {
            "<cache": lambda case: case.cache,
            "<heads": lambda case: case.heads,
            "D": lambda case: case.head_dim,
            "batch": lambda case: case.batch,
            "keys": lambda case: case.kv_len,
        }
        alone = lambda case: not results.get(case)  # the others have their anchor above
        parts += ["Beside peers:", comparison(results, with_peers, lead, "median_us", "floor / strobe", alone)]
    return "\n\n".join(parts) or NOTHING


def _other(results):
    """Cells outside the grids are shown too."""
    rows = []
    for case in results.grid("other"):
        name, unit = anchored(case, f"`{case.name}`"), "TFLOP/s" if case.metric == "TFLOPS" else "GB/s"
        for provider in PROVIDERS:
            if row := results.get(case, provider):
                rows.append(
                    [name, PROVIDERS[provider].label, microseconds(row["median_us"]), f"{count(row[case.metric])} {unit}"]
                )
                name = f"`{case.name}`"
    return f'\n<a id="other"></a>\n## Other shapes\n\n{table(["<name", "<", "us", ""], rows)}\n' if rows else ""


def _refused(results):
    if not results.refused:
        return "Nothing was refused."
    reasons = {}
    for entry in results.refused:
        reasons.setdefault((entry["provider"], entry["reason"]), []).append(entry["name"])
    rows = []
    for (provider, reason), names in reasons.items():
        reason = reason.replace("|", "\\|").replace("<", "&lt;")
        which = "<br>".join(f"<code>{name}</code>" for name in names)
        rows.append([label(provider), reason, f"<details><summary>{len(names)}</summary>{which}</details>"])
    return table(["<", "<reason", "<cells"], rows)


def _agreement(results, reference, path, link, alone, alone_link):
    if not reference:
        return "No reference was given for this page."
    found = agreement.cells(results, reference, path)
    if not found:
        return "The reference and this result have no cell of a peer in common."
    by_provider, outside = agreement.tables(found)
    text = (
        f"Are the peers measured fairly? Their times here over those of a stored reference, [{path.name}]({link}): "
        f"{reference.source} Ratios are time here / time there, so above 1 is slower here.\n\n{by_provider}\n\n"
    )
    if launches := agreement.launches(found):
        text += (
            "A call timed by itself, or in a graph of its own, contains its launch; here calls follow one another, as the "
            "rules of the yardstick want. So one launch a group is added to the times here: fitted, not measured, as the median "
            "of reference minus here over the group's shorter half. One that is near 0, or leaves many cells outside, explains "
            f"little.\n\n{launches}\n\n"
        )
    outside_of = f"outside of {100 * agreement.TOLERANCE:.0f} %"
    text += f"As timed, {outside_of}:\n\n{outside}" if outside else f"As timed, none is {outside_of}."
    again = alone and agreement.cells(alone, reference, path)
    if again:
        both, inside = agreement.between(found, again)
        text += (
            "\n\nHow much is the way of timing? The same peers, each call timed alone, the GPU idle before and the launch "
            f"included ([{pathlib.PurePath(alone_link).name}]({alone_link})). In {inside} of the {both} cells timed both ways "
            f"the reference lies between the two times or within {100 * agreement.TOLERANCE:.0f} % of one of them.\n\n"
            f"{agreement.tables(again)[0]}"
        )
    return text


def _environment(results):
    heads = {
        "program": "<program",
        "date": "<date",
        "driver": "<driver",
        "cuda": "<CUDA",
        "torch": "<PyTorch",
        "cudnn": "<cuDNN",
        "triton": "<Triton",
        "flash_attn": "<flash-attn",
        "fa3": "<FA3",
        "flashinfer": "<FlashInfer",
        "strobe_version": "<strobe",
    }
    runs = list({tuple(run.get(field) for field in heads): run for run in results.context["runs"]}.values())
    used = [field for field in heads if any(run.get(field) for run in runs)]
    return table([heads[field] for field in used], [[run.get(field) or DASH for field in used] for run in runs])


def _from_root(path, root):
    """How a command run in the project's folder names the file; only its name if it lies elsewhere."""
    path, root = path.resolve(), root.resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def text(results, source, page, images, charts, root, reference=None, reference_path=None, alone=None, alone_path=None):
    """What belongs into the file `page`. source: the stored result's file; charts: those in the folder images; alone: peers
    timed by peers.py --alone."""
    relative = lambda path: pathlib.PurePath(os.path.relpath(path, page.parent)).as_posix()
    context = results.context
    picture = {chart.file: f"![{chart.alt}]({relative(images / chart.file)})\n" for chart in charts}
    again = f"python3 benchmarks/report.py --from {_from_root(source, root)}"
    if reference:
        again += f" --reference {_from_root(reference_path, root)}"
    facts = {"gpu": "", "compute_capability": "compute capability ", "sm_count": "multiprocessors: "}
    used = [p for p in PROVIDERS if any(row["provider"] == p for row in results.rows)]
    template = string.Template((pathlib.Path(__file__).parent / "page.md").read_text(encoding="utf-8"))
    filled = template.substitute(
        result=_from_root(source, root),
        result_link=relative(source),
        gpu=context["gpu"],
        date=context["date"],
        dash=DASH,
        summary=summary(results),
        spread=spread(results),
        machine=", ".join(f"{word}{context[field]}" for field, word in facts.items() if field in context),
        environment=_environment(results),
        providers=table(["<", "<what"], [[PROVIDERS[p].label, PROVIDERS[p].what] for p in used]),
        commands="\n".join(dict.fromkeys(run["command"] for run in context["runs"])),
        prefill=_prefill(results, "prefill"),
        twelve_heads=_prefill(results, "twelve-heads"),
        variants=_prefill(results, "variants"),
        decode=_decode(results),
        caches=_caches(results),
        ceilings=ceilings(results) if results.grid("ceilings") else NOTHING,
        other=_other(results),
        refused=_refused(results),
        agreement=_agreement(
            results, reference, reference_path, reference and relative(reference_path), alone, alone and relative(alone_path)
        ),
        again=again,
        **{
            f"chart_{name.replace('-', '_')}": picture.get(f"benchmarks-{name}.svg", "")
            for name in ("ratios", "prefill", "twelve-heads", "decode", "decode-limit", "decode-tokens")
        },
    )
    return re.sub(r"\n{3,}", "\n\n", filled)
