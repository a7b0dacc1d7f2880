# SPDX-License-Identifier: MIT
"""Where a kernel's time goes: counters.py and measure.py ask the GPU, model.py says what to expect, page.py and roofline.py
set the two side by side. Only roofline.py needs more than Python."""
