#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measured figures in, a page with tables and charts out; and a new result against an old one.

  report.py --strobe A.json [--strobe ..] --peers B.json [--peers ..]
      merge raw files into benchmarks/results/<date>-<gpu>.json, the later file wins; then as --from
  report.py --from RESULT.json [--reference FILE]
      write docs/benchmarks.md and docs/images/benchmarks-*.svg; RESULT-peers-alone.json beside it, a merged
      file of peers.py --alone, goes into the agreement with the reference
  report.py --compare OLD.json NEW.json [--tolerance 0.05] [--subset]
      exit 1 if a cell of strobe got slower or is gone; --subset: a quick run may have fewer cells
  report.py --check-links README.md [..]
      exit 1 if a link's anchor does not exist

Raw files are what strobe_bench and peers.py write. Bad input exits with 2 and says which file, entry and field.
Needs Python 3.9; charts need matplotlib (--no-charts leaves them out).
"""

import argparse
import pathlib
import sys

from report import charts, compare, draw, links, page, read  # the folder beside this file

ROOT = pathlib.Path(__file__).resolve().parent.parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    files = dict(type=pathlib.Path, metavar="FILE")
    parser.add_argument("--strobe", action="append", default=[], help="a raw file of strobe_bench", **files)
    parser.add_argument("--peers", action="append", default=[], help="a raw file of peers.py", **files)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "benchmarks/results", help="folder of the merged result")
    parser.add_argument("--from", dest="stored", help="a merged result", **files)
    parser.add_argument(
        "--reference", help="peers' figures to compare with; benchmarks/reference/<gpu>-peers.json if there is one", **files
    )
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/benchmarks.md")
    parser.add_argument("--images", type=pathlib.Path, default=ROOT / "docs/images")
    parser.add_argument("--no-charts", action="store_true", help="a page without charts")
    parser.add_argument("--compare", nargs=2, type=pathlib.Path, metavar=("OLD", "NEW"))
    parser.add_argument("--tolerance", type=float, default=0.05, help="0.05: five per cent")
    parser.add_argument("--subset", action="store_true", help="NEW may have fewer cells than OLD")
    parser.add_argument("--check-links", nargs="+", type=pathlib.Path, metavar="PAGE")
    options = parser.parse_args()
    if sum(map(bool, (options.strobe or options.peers, options.stored, options.compare, options.check_links))) != 1:
        parser.error("give one of --strobe and --peers, --from, --compare, --check-links")
    if not 0 <= options.tolerance < 1:
        parser.error(f"--tolerance: {options.tolerance} is not from 0 to 1")
    return options


def make_page(options):
    source = options.stored
    if not source:
        stored = read.merge([(path, "strobe") for path in options.strobe] + [(path, None) for path in options.peers])
        source = options.results / read.file_name(stored)
        if source.exists():
            read.note(f"{source} is replaced")
        read.write(stored, source)
    if not options.no_charts and not draw.available():  # what was measured is stored by now
        raise read.InputError(source, "charts need matplotlib: install it and give --from with this file, or --no-charts")
    results = read.read_stored(source)  # the page is made of what is stored, and nothing else
    known = ROOT / f"benchmarks/reference/{read.gpu_slug(results.context['gpu'])}-peers.json"
    path = options.reference or (known if known.exists() else None)
    reference = path and read.read_stored(path, reference=True)
    alone_path = source.with_name(f"{source.stem}-peers-alone.json")
    alone = read.read_stored(alone_path) if alone_path.exists() else None
    pictures = [] if options.no_charts else charts.chart_list(results)
    text = page.text(results, source, options.page, options.images, pictures, ROOT, reference, path, alone, alone_path)
    draw.draw_all(pictures, options.images)
    options.page.parent.mkdir(parents=True, exist_ok=True)
    options.page.write_text(text, encoding="utf-8")
    print(f"{source}, {options.page}" + (f", {len(pictures)} charts in {options.images}" if pictures else ""))
    return 0


def main():
    options = arguments()
    try:
        if options.compare:
            old, new = map(read.read_stored, options.compare)
            return compare.report(old, new, *options.compare, options.tolerance, options.subset)
        if options.check_links:
            wrong = [line for path in options.check_links for line in links.broken(path)]
            print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
            return 1 if wrong else 0
        return make_page(options)
    except read.InputError as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
