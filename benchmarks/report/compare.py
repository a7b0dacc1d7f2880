# SPDX-License-Identifier: MIT
"""A new result against an old one: did a cell of strobe get slower?

What is compared is the share of the limit (fraction), so that a result of another machine compares too. Without it the time is,
on the same GPU only, and the line says so. Peers and ceilings are not compared.
"""

from .providers import STROBE
from .read import InputError


def compare(old, new):
    """(lines: (name, old, new, slowdown, basis), not comparable, gone, added). slowdown 0.1: ten per cent slower."""
    own = lambda results: [case for case in results.cases if not case.is_ceiling and results.get(case)]
    same_gpu = old.context["gpu"] == new.context["gpu"]
    lines, not_comparable = [], []
    gone = [case.name for case in own(old) if not new.get(case)]
    added = [case.name for case in own(new) if not old.get(case)]
    for case in own(old):
        a, b = old.get(case), new.get(case)
        if not b:
            continue
        if "fraction" in a and "fraction" in b:
            lines.append((case.name, a["fraction"], b["fraction"], a["fraction"] / b["fraction"] - 1, "of the limit"))
        elif same_gpu:
            lines.append((case.name, a["median_us"], b["median_us"], b["median_us"] / a["median_us"] - 1, "us, no fraction"))
        else:
            not_comparable.append(case.name)
    return lines, not_comparable, gone, added


def report(old, new, old_path, new_path, tolerance, subset=False):
    """Prints; returns 1 if a cell got slower by more than the tolerance or, unless `new` may be a subset, is gone; else 0."""
    lines, not_comparable, gone, added = compare(old, new)
    gone = [] if subset else gone
    if not lines and not gone:
        raise InputError(new_path, "rows", f"no cell of {STROBE} that compares with {old_path}")
    for title, path, results in (("old", old_path, old), ("new", new_path, new)):
        print(f"{title}: {path}, {results.context['gpu']}, {results.context['date']}")
    slower = sorted((line for line in lines if line[3] > tolerance), key=lambda line: -line[3])
    faster = sorted((line for line in lines if 1 / (1 + line[3]) - 1 > tolerance), key=lambda line: line[3])
    for title, some in (("slower", slower), ("faster", faster)):
        print(f"\n{title} by more than {100 * tolerance:g} %: {len(some)} of {len(lines)}")
        width = max((len(line[0]) for line in some), default=0)
        for name, a, b, slowdown, basis in some:
            by = slowdown if slowdown > 0 else 1 / (1 + slowdown) - 1
            print(f"  {name:<{width}}  {a:10.4g} -> {b:10.4g} {basis:15}  {100 * by:6.1f} % {title}")
    for title, names in (("gone", gone), ("not comparable (no fraction, another GPU)", not_comparable), ("added", added)):
        if names:
            print(f"\n{title}: {len(names)}", *(f"  {name}" for name in names), sep="\n")
    return 1 if slower or gone else 0
