# SPDX-License-Identifier: MIT
"""Conan 2 recipe, for use from a checkout: conan create cmake/packaging/conan

Consumers get strobe::strobe and strobe_add_host_test() from find_package(strobe-attention). The CUDA toolkit is
theirs: nvcc brings it for .cu files; who only has .cpp files adds CUDA::toolkit from find_package(CUDAToolkit).
"""
import os
import re

from conan import ConanFile
from conan.tools.files import copy, load
from conan.tools.layout import basic_layout

CHECKOUT = os.path.join("..", "..", "..")  # from this file
HOST_EXECUTION = os.path.join("share", "cmake", "strobe-attention", "StrobeHostExecution.cmake")


class StrobeAttention(ConanFile):
    name = "strobe-attention"
    description = "Header-only FlashAttention for CUDA C++"
    license = "MIT"
    topics = ("cuda", "attention", "header-only")
    package_type = "header-library"
    no_copy_source = True

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, CHECKOUT, "include", "strobe", "version.hpp"))
        numbers = dict(re.findall(r"^#define STROBE_VERSION_(\w+) (\d+)$", header, re.MULTILINE))
        self.version = ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH"))

    def export_sources(self):
        checkout = os.path.join(self.recipe_folder, CHECKOUT)
        for pattern in ("LICENSE", "include/*", "cmake/StrobeHostExecution.cmake"):
            copy(self, pattern, src=checkout, dst=self.export_sources_folder)

    def layout(self):
        basic_layout(self, src_folder=".")

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        copy(self, "include/*", src=self.source_folder, dst=self.package_folder)
        copy(self, "StrobeHostExecution.cmake", src=os.path.join(self.source_folder, "cmake"),
             dst=os.path.join(self.package_folder, os.path.dirname(HOST_EXECUTION)))

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "strobe-attention")
        self.cpp_info.set_property("cmake_target_name", "strobe::strobe")
        self.cpp_info.set_property("cmake_build_modules", [HOST_EXECUTION])
        self.cpp_info.set_property("pkg_config_name", "strobe-attention")
