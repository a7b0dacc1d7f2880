# SPDX-License-Identifier: MIT
"""docs/analysis.md from a stored run: page.md with its tables and sentences filled in. Sentences follow from the data."""

import json
import os
import pathlib
import re
import string

from report import cases
from report.tables import microseconds, rate, table

from . import counters as ncu
from . import measure, model
from .model import MEASURED, MODELLED, NOT_AVAILABLE, UNITS

SATURATED = 0.8
KERNELS = {"prefill": "Prefill", "decode": "Decode"}
STALLS = {
    "long_scoreboard": "a load from L2 or memory",
    "wait": "the fixed latency of its last instruction",
    "short_scoreboard": "shared memory or MUFU",
    "barrier": "the other warps at a barrier",
    "math_pipe_throttle": "a busy arithmetic pipe",
    "mio_throttle": "a full queue to shared memory and MUFU",
    "no_instruction": "its next instruction",
    "imc_miss": "a constant",
    "dispatch_stall": "the dispatcher",
    "lg_throttle": "a full queue to memory",
    "branch_resolving": "a branch",
    "membar": "a memory fence",
    "sleeping": "a sleep",
    "drain": "its last stores",
    "tex_throttle": "the texture queue",
    "gmma": "its `wgmma`",
    "misc": "something else",
    "not_selected": "its turn: another warp was issued",
    "selected": "nothing: it was issued",
}
ISSUED = ("selected", "not_selected")  # not a stall


class PageError(ValueError):
    pass


def read(path):
    try:
        run = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise PageError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise PageError(f"{path}: not JSON ({error})") from None
    if not isinstance(run, dict) or run.get("format") != measure.FORMAT:
        raise PageError(f"{path}: format is not {measure.FORMAT}: not a file of analyse.py")
    for field in ("context", "device", "commands", "ceilings", "shapes"):
        if not run.get(field) and field != "ceilings":
            raise PageError(f"{path}: {field} is missing or empty")
    for field in ("gpu", "driver", "cuda", "date", "compute_capability"):
        if not run["context"].get(field):
            raise PageError(f"{path}: context: {field} is missing")
    for shape in run["shapes"]:
        for field in ("name", "resources", "counters", "missing"):
            if field not in shape:
                raise PageError(f"{path}: {shape.get('name', 'a shape')}: {field} is missing")
        try:
            if cases.parse(shape["name"]).kind not in KERNELS:
                raise ValueError("not a kernel's shape")
        except ValueError as error:
            raise PageError(f"{path}: {shape['name']}: {error}") from None
    return run


def short(case):
    if case.kind == "prefill":
        return f"D {case.head_dim}, S {case.kv_len}, {case.variant}"
    return f"{case.heads} heads, D {case.head_dim}, B {case.batch}, {case.kv_len} keys, {case.cache}"


class Shape:
    """One shape with everything known about it."""

    def __init__(self, run, stored):
        self.run, self.stored = run, stored
        self.case = cases.parse(stored["name"])
        self.name, self.resources, self.counters = short(self.case), stored["resources"], stored["counters"]
        self.time = stored.get("time") or {}
        self.work = model.work(self.case, self.resources)
        self.model = model.shares(run, stored, self.work)
        self.product = model.product(self.resources)
        self.busy = {unit: ncu.busy(self.counters, unit, self.product == model.WGMMA)[0] for unit in UNITS}
        self.ceilings = model.ceilings(run, stored)
        read = {reason: self.counters.get(ncu.stall(reason)) for reason in ncu.STALL_REASONS}
        total = sum(value for value in read.values() if value is not None)
        self.stalls = {reason: value / total for reason, value in read.items() if value is not None and total}

    def busiest(self, shares):
        """(unit, share) or None"""
        known = [(share, unit) for unit, share in shares.items() if share is not None]
        return max(known)[::-1] if known else None

    def largest_stall(self):
        waiting = {reason: share for reason, share in self.stalls.items() if reason not in ISSUED}
        return max(waiting.items(), key=lambda item: item[1]) if waiting else None


def shapes_of(run):
    return [Shape(run, stored) for stored in run["shapes"]]


def products_of(some):
    """The instructions by which these shapes' kernels multiply."""
    return list(dict.fromkeys(shape.product for shape in some))


def percent(x):
    return NOT_AVAILABLE if x is None else f"{100 * x:.0f} %" if x >= 0.1 or x == 0 else f"{100 * x:.1f} %"


def _or_not(x, form=lambda x: f"{x:g}"):
    return NOT_AVAILABLE if x is None else form(x)


def megabytes(x):
    return NOT_AVAILABLE if x is None else f"{x / 1e6:.1f}" if x < 1e8 else f"{x / 1e6:.0f}"


def _ratio(x):
    return f"{x:.2f}" if x >= 0.1 else f"{x:.2g}"


def _range(values):
    low, high = percent(min(values)), percent(max(values))
    return low if low == high else f"{low} to {high}"


def _reason(reason):
    return f"`{reason}` (waits for {STALLS[reason]})"


def _answer(kernel, some):
    """Sentences for one kernel, from its shapes' counters."""
    title = f"**{KERNELS[kernel]}.**"
    found = [(shape, *top) for shape in some if (top := shape.busiest(shape.busy))]
    if not found:
        modelled = [top for shape in some if (top := shape.busiest(shape.model))]
        text = f"{title} *Not available*: no counter of any unit could be read."
        if modelled:
            units = sorted({UNITS[unit] for unit, _ in modelled})
            shares = _range([share for _, share in modelled])
            text += f" By the model alone it would be {' or '.join(units)} ({shares}, *modelled*)."
        return text
    by_unit = {}
    for _, unit, share in found:
        by_unit.setdefault(unit, []).append(share)
    saturated = [(shape, unit, share) for shape, unit, share in found if share >= SATURATED]
    counted = ", ".join(
        f"{UNITS[unit]} in {len(shares)} ({_range(shares)}, *measured*)"
        for unit, shares in sorted(by_unit.items(), key=lambda item: -len(item[1]))
    )
    if len(saturated) == len(found):
        units = sorted({UNITS[unit] for _, unit, _ in saturated})
        lead = f"{' or '.join(units)} saturates in every shape."
    elif saturated:
        units = sorted({UNITS[unit] for _, unit, _ in saturated})
        lead = f"{' or '.join(units)} saturates in {len(saturated)} of {len(found)} shapes; in the others no unit does."
    else:
        lead = "No unit saturates."
    text = f"{title} {lead[0].upper()}{lead[1:]} Of {len(found)} shapes the busiest unit is: {counted}."
    stalls = [top for shape, _, _ in found if (top := shape.largest_stall())]
    if stalls:
        by_reason = {}
        for reason, share in stalls:
            by_reason.setdefault(reason, []).append(share)
        reason, shares = max(by_reason.items(), key=lambda item: (len(item[1]), max(item[1])))
        text += (
            f" A warp waits most often for {STALLS[reason]} (`{reason}`): the largest stall in {len(shares)} of {len(stalls)} "
            f"shapes, {_range(shares)} of a warp's time (*measured*)."
        )
    agree = [shape for shape, unit, _ in found if (top := shape.busiest(shape.model)) and top[0] == unit]
    return text + f" The model names the same unit in {len(agree)} of {len(found)} shapes."


def _verdicts(some):
    rows = []
    for shape in some:
        by_counter, by_model, stall = shape.busiest(shape.busy), shape.busiest(shape.model), shape.largest_stall()
        rows.append(
            [
                KERNELS[shape.case.kind],
                shape.name,
                f"{UNITS[by_counter[0]]}, {percent(by_counter[1])}" if by_counter else NOT_AVAILABLE,
                ("yes" if by_counter[1] >= SATURATED else "no") if by_counter else NOT_AVAILABLE,
                f"{UNITS[by_model[0]]}, {percent(by_model[1])}" if by_model else NOT_AVAILABLE,
                f"`{stall[0]}`, {percent(stall[1])}" if stall else NOT_AVAILABLE,
            ]
        )
    heads = ["<", "<shape", "<busiest unit (measured)", "<saturates", "<busiest unit (modelled)", "<largest stall (measured)"]
    return table(heads, rows)


def _times(kernel, some):
    speed, unit, of = ("TFLOPS", "TFLOP/s", "") if kernel == "prefill" else ("GBps", "GB/s", " of K and V")
    rows = []
    for shape in some:
        time, duration = shape.time.get("median_us"), shape.counters.get("gpu__time_duration.sum")
        mhz, label, _ = model.clock(shape.run, shape.stored)
        active, elapsed = (shape.counters.get(key) for key in ("sm__cycles_active.avg", "sm__cycles_elapsed.max"))
        rows.append(
            [
                shape.name,
                _or_not(time, microseconds),
                _or_not(shape.time.get(speed), rate),
                _or_not(duration, lambda ns: microseconds(ns / 1e3)),
                f"{mhz:.0f} ({label})",
                percent(active / elapsed if active and elapsed else None),
                f"{shape.work.tensor / shape.work.visible_flop:.2f}",
            ]
        )
    return table(
        [
            "<shape",
            "us (measured)",
            f"{unit}{of} (measured)",
            "us, profiled (measured)",
            "clock, MHz",
            "SMs active (measured)",
            "products done / visible (modelled)",
        ],
        rows,
    )


def _units(some):
    rows = []
    for shape in some:
        top = shape.busiest(shape.busy)
        cells = []
        for unit in UNITS:
            counter = percent(shape.busy[unit])
            counter = f"**{counter}**" if top and unit == top[0] else counter
            cells.append(f"{percent(shape.model[unit])} / {counter}")
        rows.append([shape.name, *cells])
    return table(["<shape", *UNITS.values()], rows)


def _stalls(some):
    seen = [reason for reason in ncu.STALL_REASONS if any(reason in shape.stalls for shape in some)]
    if not seen:
        return "*Not available*: no stall counter could be read."
    mean = lambda reason: sum(shape.stalls.get(reason, 0) for shape in some) / len(some)
    seen.sort(key=lambda reason: (-round(mean(reason), 6), reason))
    rows = [[f"`{reason}`", STALLS[reason], *(percent(shape.stalls.get(reason)) for shape in some)] for reason in seen]
    return table(["<stall", "<the warp waits for", *(shape.name for shape in some)], rows)


def _conflicts(some):
    name = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
    rows = []
    for shape in some:
        suffixes = (".sum", "_op_ld.sum", "_op_st.sum")
        all_of_them, loads, stores = (shape.counters.get(name + suffix) for suffix in suffixes)
        wavefronts = shape.counters.get("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum")
        whole = lambda x: _or_not(x, lambda x: f"{x:,.0f}".replace(",", "\u2009"))
        rows.append(
            [
                shape.name,
                whole(all_of_them),
                whole(loads),
                whole(stores),
                whole(wavefronts),
                percent(all_of_them / wavefronts if all_of_them is not None and wavefronts else None),
                whole(shape.work.shared / model.SHARED_BYTES),
            ]
        )
    heads = ["conflicts", "of loads", "of stores", "wavefronts", "conflicts / wavefronts"]
    return table(["<shape", *(f"{head} (measured)" for head in heads), "wavefronts (modelled)"], rows)


def _of_the_lsu(some):
    if model.WGMMA not in products_of(some):
        return ""
    return """ These counters are those of the load and store unit;
the modelled wavefronts also are what `wgmma` reads and TMA writes."""


def _memory(some):
    rows = []
    for shape in some:
        names = ("dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum")
        read, written, l2 = (shape.counters.get(name) for name in names)
        both = read + written if read is not None and written is not None else None
        rows.append(
            [
                shape.name,
                megabytes(shape.work.hbm),
                megabytes(read),
                megabytes(written),
                _or_not(both and both / shape.work.hbm, _ratio),
                megabytes(shape.work.l2),
                megabytes(l2),
                _or_not(l2 and l2 / shape.work.l2, _ratio),
            ]
        )
    heads = ["HBM (modelled)", "HBM read (measured)", "HBM written (measured)", "measured / modelled"]
    return table(["<shape", *heads, "L2 (modelled)", "L2 (measured)", "measured / modelled"], rows)


def _kernel(kernel, some):
    return f"""<a id="{kernel}"></a>
## {KERNELS[kernel]}

Times. "profiled" is the launch that the counters come from. "products done / visible" says how much more than the visible pairs the
tiles hold.

{_times(kernel, some)}

How busy each unit is, *modelled* / *measured*: its time at its ceiling over the measured time / its counter. The highest counter is
bold.

{_units(some)}

Stalls, *measured*: what a warp does with its time, as a share of all the reasons that could be read.

{_stalls(some)}

Bank conflicts in shared memory. A wavefront is one turn of up to {model.SHARED_BYTES} bytes.{_of_the_lsu(some)}

{_conflicts(some)}

Bytes that moved, in MB. HBM writes may still sit in L2 when the launch ends, so the counter can be below the model. The L2 counter
also counts what comes from HBM.

{_memory(some)}"""


def _occupancy(run, some):
    rows = []
    for shape in some:
        r = shape.resources
        limits = model.resident(run, r)
        fewest = min(limits.values())
        by = " and ".join(name for name, blocks in limits.items() if blocks == fewest)
        if fewest != r["blocks_per_sm"]:  # then the runtime counts something else besides
            by = NOT_AVAILABLE
        active = shape.counters.get("sm__warps_active" + ncu.ACTIVE)
        held = r["blocks_per_sm"] * r["threads"] / run["device"]["max_threads_per_sm"]
        rows.append(
            [
                f"`{r['kernel']}`",
                shape.name,
                f"{r['block_q']} x {r['block_kv']}",
                f"{r['row_warps']} x {r['key_warps']}",
                r["registers"],
                r["local_bytes"],
                r["static_shared_bytes"] + r["dynamic_shared_bytes"],
                r["blocks_per_sm"],
                by,
                percent(held),
                percent(None if active is None else active / 100),
                r["blocks"],
                f"{r['binary_version'] / 10:.1f}",
            ]
        )
    heads = ["<kernel", "<shape", "tile, rows x keys", "warps, rows x keys", "registers", "spilled bytes", "shared bytes a block"]
    heads += ["blocks an SM", "<limited by (modelled)", "occupancy", "warps active (measured)", "blocks launched", "built for"]
    text = table(heads, rows) + "\n\nFigures without a label in this table are *measured*: the runtime's answers."
    if model.WGMMA in products_of(some):
        text += """
`prefill_sm90a` is launched with those registers; then its consumers, the warps counted here, take some from its producer,
four more warps. Its blocks stay for the whole launch and take query blocks one after another."""
    return text


def _ceilings(some):
    """The first shape's; those that follow the clock differ a little from shape to shape."""
    shape = some[0]
    tensor = [
        ("tensor", f"{UNITS['tensor']}, `{by}`", model.ceilings(shape.run, shape.stored, by)["tensor"]) for by in products_of(some)
    ]
    others = [(unit, UNITS[unit], ceiling) for unit, ceiling in shape.ceilings.items() if unit != "tensor"]
    rows = []
    for unit, name, ceiling in tensor + others:
        unit_of = {"tensor": "TFLOP/s", "shared": "TB/s", "l2": "TB/s", "hbm": "TB/s"}.get(unit, "T/s")
        value = NOT_AVAILABLE if ceiling.rate is None else f"{ceiling.rate / 1e6:.3g} {unit_of}"
        rows.append([name, value, ceiling.label, ceiling.why])
    mhz, label, why = model.clock(shape.run, shape.stored)
    return (
        table(["<unit", "ceiling", "<label", "<where it comes from"], rows)
        + f"\n\nThis is for {shape.name}, at {mhz:.0f} MHz (*{label}*: {why}). "
        + "Ceilings that follow the clock differ a little from shape to shape."
    )


def _tensor_check(run, some):
    peak = model.TENSOR_FLOP.get(run["context"]["compute_capability"])
    rows = []
    for shape in some:
        found = model.implied_tensor_rate(run, shape.stored, shape.work)
        share = f"{100 * found / peak:.0f} %" if found and peak else NOT_AVAILABLE
        rows.append([KERNELS[shape.case.kind], shape.name, f"`{shape.product}`", _or_not(found, lambda x: f"{x:.0f}"), share])
    return table(["<", "<shape", "<by", "FLOP a busy clock and SM (modelled / measured)", f"of {peak or 'the peak'}"], rows)


def _missing(some):
    reasons = {}
    for shape in some:
        for metric, reason in shape.stored["missing"].items():
            reasons.setdefault(reason, {}).setdefault(metric, []).append(shape.name)
    if not reasons:
        return "Every counter that was asked for could be read."
    rows = []
    for reason, metrics in sorted(reasons.items()):
        for metric, names in metrics.items():
            rows.append([f"`{metric}`", reason, "all" if len(names) == len(some) else "; ".join(names)])
    return table(["<counter", "<reason", "<shapes"], rows)


def text(run, source, page, image, root):
    """What belongs into the file `page`. image: the chart's file, or None."""
    some = shapes_of(run)
    relative = lambda path: pathlib.PurePath(os.path.relpath(path, page.parent)).as_posix()
    resolved, root = pathlib.Path(source).resolve(), root.resolve()
    inside = resolved.is_relative_to(root)
    result = resolved.relative_to(root).as_posix() if inside else resolved.name
    of = lambda kernel: [shape for shape in some if shape.case.kind == kernel]
    kernels = [kernel for kernel in KERNELS if of(kernel)]
    context = run["context"]
    chart = ""
    if image:
        alt = "Left: TFLOP/s over FLOP per byte, with the ceilings. Right: how busy each unit is, by model and by counter"
        chart = f"""![{alt}]({relative(image)})

Left, the roofline: a filled point counts bytes of HBM, a hollow one bytes of L2, both *measured* where the counter could be read,
*modelled* elsewhere. Right: a filled point is the counter (*measured*), a hollow one the model.
"""
    template = string.Template((pathlib.Path(__file__).parent / "page.md").read_text(encoding="utf-8"))
    filled = template.substitute(
        result=result,
        result_link=relative(resolved) if inside else result,
        gpu=context["gpu"],
        driver=context["driver"],
        cuda=context["cuda"],
        date=context["date"][:10],
        ncu=context.get("ncu", NOT_AVAILABLE),
        threshold=percent(SATURATED),
        answer="\n\n".join(_answer(kernel, of(kernel)) for kernel in kernels),
        verdicts=_verdicts(some),
        chart=chart,
        kernels="\n\n".join(_kernel(kernel, of(kernel)) for kernel in kernels),
        occupancy=_occupancy(run, some),
        element=model.ELEMENT,
        fma=model.FMA_OF_A_LOGIT,
        alu=model.ALU_OF_A_LOGIT,
        ceilings=_ceilings(some),
        tensor_check=_tensor_check(run, some),
        missing=_missing(some),
        commands="\n".join(run["commands"]),
        again=f"python3 benchmarks/analyse.py --from {result}",
    )
    return re.sub(r"\n{3,}", "\n\n", filled)
