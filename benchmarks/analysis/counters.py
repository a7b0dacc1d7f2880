# SPDX-License-Identifier: MIT
"""Counters of one kernel launch, from Nsight Compute's command line. What it does not give stays missing, with a reason."""

import csv
import re
import subprocess

ACTIVE, ELAPSED = ".avg.pct_of_peak_sustained_active", ".avg.pct_of_peak_sustained_elapsed"
STALL_REASONS = (
    "long_scoreboard",
    "wait",
    "short_scoreboard",
    "barrier",
    "math_pipe_throttle",
    "mio_throttle",
    "no_instruction",
    "imc_miss",
    "dispatch_stall",
    "lg_throttle",
    "branch_resolving",
    "membar",
    "sleeping",
    "drain",
    "tex_throttle",
    "gmma",
    "misc",
    "not_selected",
    "selected",
)


def stall(reason):
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


# Asked for together, and group by group where ncu refuses that.
GROUPS = {
    "time": ("gpu__time_duration.sum", "sm__cycles_elapsed.max", "sm__cycles_active.max", "sm__cycles_active.avg"),
    "occupancy": ("sm__warps_active" + ACTIVE, "smsp__issue_active" + ACTIVE, "smsp__inst_executed.sum"),
    "tensor": (
        "sm__pipe_tensor_op_hmma_cycles_active" + ACTIVE,
        "sm__pipe_tensor_cycles_active" + ACTIVE,
        "sm__inst_executed_pipe_tensor.sum",
        "sm__inst_executed_pipe_tensor_op_hmma.sum",
        "sm__inst_executed_pipe_tensor_op_hmma" + ACTIVE,
        "sm__inst_executed_pipe_tensor_op_gmma.sum",
    ),
    "xu": ("smsp__inst_executed_pipe_xu.sum", "sm__inst_executed_pipe_xu" + ACTIVE),
    "fma": ("smsp__inst_executed_pipe_fma.sum", "sm__inst_executed_pipe_fma" + ACTIVE, "sm__pipe_fma_cycles_active" + ACTIVE),
    "alu": ("smsp__inst_executed_pipe_alu.sum", "sm__inst_executed_pipe_alu" + ACTIVE, "sm__pipe_alu_cycles_active" + ACTIVE),
    "lsu": ("smsp__inst_executed_pipe_lsu.sum", "sm__inst_executed_pipe_lsu" + ACTIVE),
    "shared": (
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared" + ELAPSED,
        "l1tex__data_bank_reads" + ELAPSED,
        "l1tex__data_bank_writes" + ELAPSED,
    ),
    "dram": ("dram__bytes_read.sum", "dram__bytes_write.sum", "dram__throughput" + ELAPSED),
    "l2": (
        "lts__t_bytes.sum",
        "lts__t_bytes.sum.pct_of_peak_sustained_elapsed",
        "lts__t_sectors_op_read.sum",
        "lts__throughput" + ELAPSED,
    ),
    "stalls": tuple(stall(reason) for reason in STALL_REASONS),
}
METRICS = tuple(metric for group in GROUPS.values() for metric in group)

# Which counter says how busy a unit is, the first that was read. On Hopper hmma's cycles have those of wgmma in them.
BUSY = {
    "tensor": (
        "sm__pipe_tensor_op_hmma_cycles_active" + ACTIVE,
        "sm__pipe_tensor_cycles_active" + ACTIVE,
        "sm__inst_executed_pipe_tensor_op_hmma" + ACTIVE,
    ),
    "mufu": ("sm__inst_executed_pipe_xu" + ACTIVE,),
    "fma": ("sm__pipe_fma_cycles_active" + ACTIVE, "sm__inst_executed_pipe_fma" + ACTIVE),
    "alu": ("sm__pipe_alu_cycles_active" + ACTIVE, "sm__inst_executed_pipe_alu" + ACTIVE),
    "issue": ("smsp__issue_active" + ACTIVE,),
    "shared": ("l1tex__data_pipe_lsu_wavefronts_mem_shared" + ELAPSED,),
    "l2": ("lts__throughput" + ELAPSED, "lts__t_bytes.sum.pct_of_peak_sustained_elapsed"),
    "hbm": ("dram__throughput" + ELAPSED,),
}
# wgmma and TMA move their data without an instruction of the load and store unit.
BUSY_OF_WGMMA = {**BUSY, "shared": ("l1tex__data_bank_reads" + ELAPSED,)}


def busy(counters, unit, wgmma=False):
    """(fraction, counter's name), or (None, None)."""
    for name in (BUSY_OF_WGMMA if wgmma else BUSY)[unit]:
        if counters.get(name) is not None:
            return counters[name] / 100, name
    return None, None


_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def _in_base_units(value, unit):
    """Bytes, nanoseconds; everything else as it is. ncu scales units by itself unless told not to."""
    if match := re.fullmatch(r"([KkMGT]?)bytes?", unit):
        return value * _PREFIXES[match[1]]
    if match := re.fullmatch(r"([num]?)(?:s|second|seconds)", unit):
        return value * _PREFIXES[match[1]] * 1e9
    return value


def _number(text):
    """None for whatever is no finite number: "n/a", "(!) n/a", an empty field, "nan"."""
    text = text.strip().replace(",", "")
    return float(text) if re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text) else None


def parse(text):
    """The launches in what `ncu --csv --page raw` printed: a list of {column: number or None}; text columns are left out.

    Layout: whatever program and ncu say, then a header row, a row of units, a row a launch.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return []
    rows = list(csv.reader(line for line in lines[start:] if line.startswith('"')))
    header, rest = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    units = rest.pop(0) if rest and not rest[0][0].strip() else [""] * len(header)
    launches = []
    for row in rest:
        launch = {}
        for name, unit, field in zip(header, units, row):
            if "__" in name:
                value = _number(field)
                launch[name] = None if value is None else _in_base_units(value, unit.strip())
        launches.append(launch)
    return launches


class Profiler:
    """Runs ncu, once a shape if all goes well."""

    def __init__(self, ncu, binary, remaining, say, run=subprocess.run):
        self.ncu, self.binary, self.remaining, self.say, self._run = ncu, binary, remaining, say, run
        self.unknown = {}  # counters that ncu refused by name
        self.blocked = ""  # why nothing can be asked at all
        self.commands = []

    def version(self):
        said = self._run([self.ncu, "--version"], capture_output=True, text=True).stdout
        return (re.findall(r"Version (\S+)", said) or ["unknown"])[-1]

    def _ask(self, shape, metrics):
        """(counters of the launch or None, what was said)"""
        calls = 3  # of which the last is profiled
        arguments = [
            "--clock-control none --csv --page raw --print-units base -k regex:(prefill|decode)_sm(80|90a)",
            f"--launch-skip {calls - 1} --launch-count 1 --metrics {','.join(metrics)}",
        ]
        arguments = " ".join(arguments).split()
        program = ["--shape", shape, "--calls", str(calls)]
        self.commands.append([*arguments, *program])
        seconds = self.remaining()
        if seconds < 1:
            return None, "time was up"
        try:
            done = self._run(
                [self.ncu, *arguments, str(self.binary), *program], capture_output=True, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return None, "time was up"
        launches = parse(done.stdout)
        said = "\n".join(line for line in (done.stdout + "\n" + done.stderr).splitlines() if line.startswith("=="))
        return (launches[-1] if launches else None), said or done.stderr[-300:]

    def counters(self, shape):
        """({counter: number}, {counter: why it is missing})"""
        found, missing = {}, dict(self.unknown)
        wanted = [metric for metric in METRICS if metric not in missing]

        def take(launch, metrics):
            for metric in metrics:
                if launch.get(metric) is not None:
                    found[metric] = launch[metric]
                else:
                    missing[metric] = "n/a" if metric in launch else "not in ncu's answer"

        def fail(metrics, reason):
            missing.update({metric: reason for metric in metrics})

        if self.blocked:
            fail(wanted, self.blocked)
            return found, missing
        launch, said = self._ask(shape, wanted)
        if launch is None and "ERR_NVGPUCTRPERM" in said:
            self.blocked = "no permission to read counters (ERR_NVGPUCTRPERM)"
            self.say(self.blocked)
            fail(wanted, self.blocked)
            return found, missing
        for _ in range(8):  # ncu may name one at a time
            refused = self._named(said, wanted) if launch is None else []
            if not refused or len(refused) == len(wanted):
                break
            self.say(f"ncu knows no {', '.join(refused)}: asking again without")
            self.unknown.update({metric: "unknown to this ncu or GPU" for metric in refused})
            missing.update(self.unknown)
            wanted = [metric for metric in wanted if metric not in refused]
            launch, said = self._ask(shape, wanted)
        if launch is not None:
            take(launch, wanted)
        elif said == "time was up":
            fail(wanted, said)
        else:
            self.say(f"ncu gave no counters: asking group by group\n{said[-500:]}")
            for metrics in GROUPS.values():
                metrics = [metric for metric in metrics if metric in wanted]
                launch, said = self._ask(shape, metrics) if metrics else (None, "")
                if launch is not None:
                    take(launch, metrics)
                else:
                    reason = said if said == "time was up" else "ncu refused its group"
                    fail(metrics, reason)
                    if found and reason != "time was up":  # others came, so it is the group's fault: not asked again
                        self.unknown.update({metric: reason for metric in metrics})
        return found, missing

    @staticmethod
    def _named(said, metrics):
        """The counters that ncu's errors name, in full or without their suffixes."""
        errors = "\n".join(line for line in said.splitlines() if re.match(r"==(ERROR|WARNING)==", line))
        words = set(re.findall(r"[A-Za-z]+__[\w.]*\w", errors))
        return [metric for metric in metrics if metric in words or metric.split(".")[0] in words]
