# SPDX-License-Identifier: MIT
"""Compiles a .cu file to a shared object the way Python packages do, then loads it.

usage: build.py NVCC CXX CUDA_LIBRARY_DIR INCLUDE_DIR SOURCE.cu OBJECT.so

The steps are those of PyTorch's CUDAExtension, without PyTorch: one -gencode for each architecture, PyTorch's
macros, an object by nvcc, and a link by the C++ compiler that knows nothing of CUDA but libcudart. No build system
tells the library its architectures.
"""
import ctypes
import os
import subprocess
import sys
import sysconfig

ARCHITECTURES = ("80", "90a")


def compile_command(nvcc, include_dir, source, compiled):
    command = [nvcc, "-I" + include_dir, "-I" + sysconfig.get_paths()["include"], "-c", source, "-o", compiled]
    command += ["-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__"]
    command += ["-D__CUDA_NO_BFLOAT16_CONVERSIONS__", "-D__CUDA_NO_HALF2_OPERATORS__"]
    command += ["--expt-relaxed-constexpr", "--compiler-options", "-fPIC", "-std=c++17"]
    for name in ARCHITECTURES:
        command += ["-gencode", f"arch=compute_{name},code=sm_{name}"]
    return command


def link_command(cxx, library_dir, compiled, shared):
    # PyTorch would have loaded libcudart; here the object says where it is.
    return [cxx, "-shared", compiled, "-L" + library_dir, "-Wl,-rpath," + library_dir, "-lcudart", "-o", shared]


def run(command):
    print(" ".join(command), flush=True)
    subprocess.run(command, check=True)


def build(nvcc, cxx, library_dir, include_dir, source, shared):
    compiled = shared + ".o"
    run(compile_command(nvcc, include_dir, source, compiled))
    run(link_command(cxx, library_dir, compiled, shared))


class Device(ctypes.Structure):
    """strobe::Device"""

    _fields_ = [(name, ctypes.c_int) for name in ("ordinal", "compute_capability", "sm_count", "shared_bytes")]


def check(shared):
    """Every symbol is found, nothing but the CUDA runtime is asked for, and a call answers."""
    text = subprocess.run(["readelf", "--wide", "--dynamic", shared], check=True, capture_output=True, text=True).stdout
    needed = [line.split("[")[1].split("]")[0] for line in text.splitlines() if "(NEEDED)" in line]
    print("needs:", *needed)
    known = ("libcudart.", "libstdc++.", "libgcc_s.", "libm.", "libc.", "libdl.", "librt.", "libpthread.", "ld-linux")
    strangers = [name for name in needed if not name.startswith(known)]
    if strangers:
        sys.exit(f"the object needs {strangers}, which the library does not ask for")
    if not any(name.startswith("libcudart.") for name in needed):
        sys.exit("the object does not need libcudart, so the link proves nothing")

    library = ctypes.CDLL(os.path.abspath(shared), mode=os.RTLD_NOW)
    message = ctypes.create_string_buffer(1024)
    # A device that no kernel is for: checked before CUDA is asked anything, with a GPU and without.
    code = library.strobe_test_attend(ctypes.byref(Device(0, 75, 40, 64 * 1024)), message)
    sentence = message.value.decode()
    print("a call says:", sentence)
    if code == 0 or "device.compute_capability is 75" not in sentence:
        sys.exit(f"expected a word about compute capability 7.5, not code {code}: {sentence}")


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    build(*sys.argv[1:])
    check(sys.argv[6])
