#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where strobe's kernels spend their time: counters of the GPU beside a model of each unit.

  analyse.py --bin strobe_bench --json FILE [--ncu ncu] [--seconds 90]
      on the GPU machine: resources, times, ceilings and Nsight Compute's counters of eight shapes into FILE;
      Python alone, no clock is changed; about a minute on an H200
  analyse.py --from FILE
      write docs/analysis.md and docs/images/roofline.svg (needs matplotlib; --no-chart leaves it out)

A counter that cannot be read is "not available" on the page, never a guess. Bad input exits with 2. Needs Python 3.9.
"""

import argparse
import pathlib
import shutil
import sys

from analysis import measure, model, page  # the folder beside this file
from report import draw

ROOT = pathlib.Path(__file__).resolve().parent.parent


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    files = dict(type=pathlib.Path, metavar="FILE")
    parser.add_argument("--bin", help="strobe_bench", **files)
    parser.add_argument("--json", help="where the figures go", **files)
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute's command line (%(default)s)")
    parser.add_argument("--seconds", type=float, default=90, help="no new launch is profiled after that (%(default)g)")
    parser.add_argument("--from", dest="stored", help="such figures", **files)
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs/analysis.md")
    parser.add_argument("--image", type=pathlib.Path, default=ROOT / "docs/images/roofline.svg")
    parser.add_argument("--no-chart", action="store_true", help="a page without the chart")
    options = parser.parse_args(given)
    if bool(options.bin) == bool(options.stored):
        parser.error("give either --bin and --json, or --from")
    if options.bin and not options.json:
        parser.error("--bin needs --json FILE")
    if not options.seconds > 0:
        parser.error(f"--seconds: {options.seconds:g} is not above 0")
    return options


def measured(options):
    if not options.bin.is_file():
        raise measure.MeasureError(f"--bin: {options.bin} is not there")
    if not shutil.which(options.ncu):
        raise measure.MeasureError(f"--ncu: {options.ncu} was not found")
    return measure.Run(options.bin, options.ncu, options.json, options.seconds)()


def written(options):
    run = page.read(options.stored)
    if not options.no_chart and not draw.available():
        raise page.PageError("the chart needs matplotlib; --no-chart leaves it out")
    image = None if options.no_chart else options.image
    text = page.text(run, options.stored, options.page, image, ROOT)
    if image:
        from analysis import roofline

        image.parent.mkdir(parents=True, exist_ok=True)
        roofline.draw(run, image)
    options.page.parent.mkdir(parents=True, exist_ok=True)
    options.page.write_text(text, encoding="utf-8")
    print(", ".join(str(path) for path in (options.page, image) if path))
    return 0


def main():
    options = arguments()
    try:
        return measured(options) if options.bin else written(options)
    except (measure.MeasureError, model.ModelError, page.PageError) as error:
        print(f"analyse.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
