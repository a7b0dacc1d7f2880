# SPDX-License-Identifier: MIT
"""A Python package with one CUDA source and no PyTorch: setuptools, and nvcc in the place of its compiler.

The environment says where things are: NVCC, CXX, CUDA_LIBRARY_DIR, STROBE_INCLUDE_DIR, EXTENSION_SOURCE.
"""
import os

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

import build as steps


class BuildByNvcc(build_ext):
    def build_extension(self, ext):
        shared = os.path.abspath(self.get_ext_fullpath(ext.name))
        os.makedirs(os.path.dirname(shared), exist_ok=True)
        place = os.environ
        steps.build(place["NVCC"], place["CXX"], place["CUDA_LIBRARY_DIR"], place["STROBE_INCLUDE_DIR"],
                    ext.sources[0], shared)
        steps.check(shared)


setup(
    name="attend",
    version="0.1",
    py_modules=[],
    ext_modules=[Extension("attend", sources=[os.environ["EXTENSION_SOURCE"]])],
    cmdclass={"build_ext": BuildByNvcc},
)
