# SPDX-License-Identifier: MIT
"""What benchmarks/report.py is made of. Read in this order:

cases      a benchmark's name, taken apart by spec.py beside this folder, and the table it belongs to
providers  who can be measured: labels and colors
read       raw files in, one stored result out; every check of the input
tables     numbers and Markdown tables
agreement  peers' figures beside a stored reference
charts     SVG charts; the only module that needs matplotlib
page       docs/benchmarks.md: page.md filled in
compare    a new result against an old one
links      anchors that other pages link to
"""
