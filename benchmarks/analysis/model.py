# SPDX-License-Identifier: MIT
"""What a launch has to do, and how long each unit of the GPU would take for it alone. Every formula of the page is here.

Amounts follow from the shape and from the tiles of the kernel that runs it (strobe_bench --resources).
"""

import dataclasses

import spec

from . import counters as ncu

UNITS = {
    "tensor": "tensor pipe",
    "mufu": "MUFU",
    "fma": "FMA pipe",
    "alu": "ALU pipe",
    "issue": "issue slots",
    "shared": "shared memory",
    "l2": "L2",
    "hbm": "HBM",
}
MEASURED, MODELLED, NOT_AVAILABLE = "measured", "modelled", "not available"

ELEMENT = 2  # bytes of fp16 and bf16
FMA_OF_A_LOGIT = 2  # one for the exponent, one for the sum
ALU_OF_A_LOGIT = 1.5  # a maximum, half of a conversion to two 16-bit numbers

# A clock and multiprocessor, by compute capability: CUDA's programming guide (throughput of native arithmetic instructions)
# and the vendor's data sheets for the tensor cores (dense fp16 products, fp32 sums).
FMA_LANES = {"8.0": 64, "8.6": 128, "8.9": 128, "9.0": 128}
TENSOR_FLOP = {"8.0": 2048, "8.6": 512, "8.9": 512, "9.0": 4096}
ALU_LANES, MUFU_LANES, SHARED_BYTES, ISSUE_SLOTS = 64, 16, 128, 4
# mma.sync on Hopper keeps its tensor pipe busy half as long again as wgmma would: the page's check of FLOP over busy clocks
# gave 2731 of 4096 on an H200, for every shape. wgmma has the whole rate.
MMA_SYNC_SHARE = {"9.0": 2 / 3}
MMA_SYNC, WGMMA = "mma.sync", "wgmma"


class ModelError(ValueError):
    pass


@dataclasses.dataclass(frozen=True)
class Work:
    """Amounts over a whole launch. Units of UNITS: the same key, counted in its own unit."""

    tiles: int  # pairs of a query block and a key tile
    visible_flop: float  # as everywhere: 4 D for each visible pair, half of all pairs if causal
    tensor: float  # FLOP of the tiles as they are multiplied
    mufu: float  # exponentials
    fma: float  # lanes
    alu: float  # lanes
    issue: float  # warp instructions, at least
    shared: float  # bytes read and written
    l2: float  # bytes
    hbm: float  # bytes
    shared_read: float


def _ceil(a, b):
    return -(-a // b)


def product(resources):
    """The instruction by which a kernel multiplies."""
    return WGMMA if resources["kernel"].endswith("_sm90a") else MMA_SYNC


def key_tiles(case, block_q, block_kv):
    """Pairs of a query block and a key tile that one head of one sequence walks."""
    blocks = _ceil(case.q_len, block_q)
    if not case.causal:
        return blocks * _ceil(case.kv_len, block_kv)
    offset = case.kv_len - case.q_len
    ends = (min((i + 1) * block_q, case.q_len) + offset for i in range(blocks))
    return sum(_ceil(max(end, 0), block_kv) for end in ends)


def work(case, resources):
    """case: report.cases.Case; resources: an entry of strobe_bench --resources."""
    if case.kind not in ("prefill", "decode") or case.mask or case.score or case.policy:
        raise ModelError(f"{case.name}: the model knows prefill, full or causal, and decode with the default policy")
    block_q, block_kv, row_warps = (resources[key] for key in ("block_q", "block_kv", "row_warps"))
    width = resources["compiled_head_dim"]
    if case.kind == "prefill":
        blocks = case.batch * case.q_heads * _ceil(case.q_len, block_q)
        tiles = case.batch * case.q_heads * key_tiles(case, block_q, block_kv)
    else:
        row_blocks = case.batch * case.kv_heads * _ceil(case.q_len * case.q_heads // case.kv_heads, block_q)
        blocks = row_blocks * resources["parts"]
        tiles = row_blocks * _ceil(case.kv_len, block_kv)
    rows = case.batch * case.q_heads * case.q_len
    logits = tiles * block_q * block_kv
    kv_tile = block_kv * 2 * width * ELEMENT
    tensor = 2 * logits * 2 * width
    fma, alu = FMA_OF_A_LOGIT * logits, ALU_OF_A_LOGIT * logits
    # Who reads each K and V tile: a warp of mma.sync, a warpgroup of wgmma (64 rows). Q is read anew for each key tile.
    readers = row_warps // 4 if product(resources) == WGMMA else row_warps
    shared_read = tiles * (readers * kv_tile + block_q * width * ELEMENT)
    if product(resources) == WGMMA:  # O is seldom rescaled
        mufu = logits
        # Four warps issue each wgmma, 16 deep: the first product is block_kv wide, the second `width`.
        multiply = tiles * readers * 4 * (width // 16 + block_kv // 16)
    else:
        mufu = logits + 4 * tiles * block_q
        multiply = tensor / 4096 + shared_read / 512
    shared_written = tiles * kv_tile + blocks * block_q * width * ELEMENT
    outputs = rows * case.head_dim * ELEMENT + (4 * rows if case.kind == "prefill" else 0)  # O, and LSE of prefill
    queries = rows * case.head_dim * ELEMENT * (resources["parts"] if case.kind == "decode" else 1)
    partials = rows * resources["parts"] * (width + 2) * 4 if resources["parts"] > 1 else 0
    cache = spec.kv_bytes(case)
    return Work(
        tiles=tiles,
        visible_flop=spec.flop(case),
        tensor=tensor,
        mufu=mufu,
        fma=fma,
        alu=alu,
        issue=multiply + (mufu + fma + alu) / 32,
        shared=shared_read + shared_written,
        l2=tiles * block_kv * 2 * case.head_dim * ELEMENT + queries + outputs + 2 * partials,
        hbm=cache + rows * case.head_dim * ELEMENT + outputs + partials,
        shared_read=shared_read,
    )


@dataclasses.dataclass(frozen=True)
class Ceiling:
    rate: float  # amount of Work a microsecond, None if unknown
    label: str
    why: str


def clock(run, shape):
    """(MHz, label, why) while the shape ran."""
    cycles, duration = (shape["counters"].get(key) for key in ("sm__cycles_elapsed.max", "gpu__time_duration.sum"))
    if cycles and duration:
        return cycles / duration * 1e3, MEASURED, "cycles over time of the profiled launch"
    return run["device"]["max_clock_khz"] / 1e3, MODELLED, "the device's highest clock"


def ceilings(run, shape, instruction=None):
    """{unit: Ceiling} for one shape: bytes, FLOP or operations a microsecond over the whole GPU. instruction: that multiplies,
    its kernel's own unless given."""
    capability, sm_count = run["context"]["compute_capability"], run["device"]["sm_count"]
    mhz = clock(run, shape)[0]
    unknown = lambda what: Ceiling(None, NOT_AVAILABLE, what)

    def by_clock(amount, why):
        return Ceiling(amount * sm_count * mhz, MODELLED, f"{amount:g} {why} a clock and multiprocessor")

    made = {
        "alu": by_clock(ALU_LANES, "lanes"),
        "issue": by_clock(ISSUE_SLOTS, "warp instructions"),
        "shared": by_clock(SHARED_BYTES, "bytes"),
    }
    lanes, tensor = FMA_LANES.get(capability), TENSOR_FLOP.get(capability)
    no_rate = unknown(f"no rate is known here for compute capability {capability}")
    made["fma"] = by_clock(lanes, "lanes") if lanes else no_rate
    if tensor:
        instruction = instruction or product(shape["resources"])
        share = MMA_SYNC_SHARE.get(capability, 1) if instruction == MMA_SYNC else 1
        of = f"FLOP ({100 * share:.0f} % of {tensor}, see below)" if share < 1 else "FLOP"
        made["tensor"] = by_clock(tensor * share, of)
    else:
        made["tensor"] = no_rate
    exp2 = run["ceilings"].get("ceiling/exp2", {}).get("Gops")
    read = next((row.get("GBps") for name, row in run["ceilings"].items() if name.startswith("ceiling/read/")), None)
    made["mufu"] = Ceiling(exp2 * 1e3, MEASURED, "`ceiling/exp2`") if exp2 else by_clock(MUFU_LANES, "exponentials")
    made["hbm"] = Ceiling(read * 1e3, MEASURED, "`ceiling/read`") if read else unknown("`ceiling/read` was not measured")
    names = ("lts__t_bytes.sum", "lts__t_bytes.sum.pct_of_peak_sustained_elapsed", "gpu__time_duration.sum")
    moved, percent, duration = (shape["counters"].get(name) for name in names)
    if moved and percent and duration:
        rate = moved / (percent / 100) / (duration / 1e3)
        made["l2"] = Ceiling(rate, MEASURED, "peak of `lts__t_bytes`, from its sum and its percentage")
    else:
        made["l2"] = unknown("needs `lts__t_bytes` and its percentage")
    return {unit: made[unit] for unit in UNITS}


def shares(run, shape, amounts):
    """{unit: (fraction of the measured time, or None)}: the unit's time at its ceiling over the time of a call."""
    time = (shape.get("time") or {}).get("median_us")
    return {
        unit: getattr(amounts, unit) / ceiling.rate / time if ceiling.rate and time else None
        for unit, ceiling in ceilings(run, shape).items()
    }


def implied_tensor_rate(run, shape, amounts):
    """FLOP a clock and multiprocessor if the tensor pipe were busy all the time, by its counter; or None."""
    share, _ = ncu.busy(shape["counters"], "tensor", product(shape["resources"]) == WGMMA)
    cycles = shape["counters"].get("sm__cycles_active.avg")
    return amounts.tensor / (share * cycles * run["device"]["sm_count"]) if share and cycles else None


def resident(run, resources):
    """({"registers": blocks, "shared memory": blocks, "threads": blocks}) that each would let a multiprocessor hold."""
    device = run["device"]
    warps = resources["threads"] // 32
    # Registers are handed out to warps, 256 at a time.
    by_registers = device["registers_per_sm"] // (_ceil(resources["registers"] * 32, 256) * 256 * warps)
    # strobe's kernels have no static shared memory of their own; a binary may count the reserved bytes there.
    besides = max(resources["static_shared_bytes"], device["reserved_shared_bytes_per_block"])
    by_shared = device["shared_bytes_per_sm"] // (resources["dynamic_shared_bytes"] + besides)
    return {
        "registers": by_registers,
        "shared memory": by_shared,
        "threads": device["max_threads_per_sm"] // resources["threads"],
    }
