# SPDX-License-Identifier: MIT
"""What one prefill instance costs its user's compiler, portable and Hopper kernel for 9.0a (BLD-13): less than 2 GB of
memory a process and 60 seconds of one core, on any machine that builds CUDA. benchmarks/compile_cost.sh has the figures.

usage: instance_cost.py NVCC INCLUDE_DIR BUILD_DIR"""
import pathlib
import resource
import subprocess
import sys

nvcc, include_dir, build_dir = sys.argv[1:]
source = pathlib.Path(build_dir) / "one_instance.cu"
source.write_text("""#include <strobe/prefill.cuh>
strobe::Status call(const strobe::Attention<__half, 128, strobe::Causal>& a, const strobe::Device& d) {
  return strobe::prefill(a, d, {}, nullptr);
}
""")
subprocess.run(
    [nvcc, "-std=c++17", "-O3", "-gencode=arch=compute_90a,code=sm_90a", f"-I{include_dir}", "-c", str(source),
     "-o", str(source.with_suffix(".o"))], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds, gigabytes = used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20
print(f"{seconds:.1f} CPU-seconds, {gigabytes:.2f} GB in the largest process")
sys.exit(not (0.1 < seconds < 60 and 0.01 < gigabytes < 2))
