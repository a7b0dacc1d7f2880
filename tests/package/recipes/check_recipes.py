# SPDX-License-Identifier: MIT
"""The recipes of cmake/packaging and .github, as far as they can be checked without vcpkg, Conan and a network.

usage: check_recipes.py CMAKE CXX PROJECT_DIR WORK_DIR

vcpkg: the manifest is JSON with the library's version, and the portfile's steps, with vcpkg's functions played by
vcpkg.cmake, give a package that find_package finds and that has nothing where vcpkg does not want it. Conan: the
recipe gives the version and packages the headers, with Conan's functions played here. Workflows: the YAML is
well-formed, where PyYAML is there to say so, and each runs the tests by the script that everyone uses.
"""
import fnmatch
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import types


def fail(text):
    sys.exit(f"recipes: {text}")


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return file.read()


def files_of(folder):
    return sorted(
        os.path.relpath(os.path.join(place, name), folder) for place, _, names in os.walk(folder) for name in names)


def version_of(project):
    numbers = re.findall(r"^#define STROBE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$",
                         read(project, "include/strobe/version.hpp"), re.MULTILINE)
    return ".".join(numbers)


def described(project):
    return re.search(r'DESCRIPTION "([^"]+)"', read(project, "CMakeLists.txt")).group(1)


def check_vcpkg(cmake, cxx, project, work):
    port = os.path.join(project, "cmake/packaging/vcpkg/strobe-attention")
    manifest = json.loads(read(port, "vcpkg.json"))
    expected = {"name": os.path.basename(port), "version-semver": version_of(project), "license": "MIT",
                "description": described(project)}
    for key, value in expected.items():
        if manifest.get(key) != value:
            fail(f"vcpkg.json: {key} is {manifest.get(key)!r}, not {value!r}")

    options = set(re.findall(r"^option\((\w+)", read(project, "CMakeLists.txt"), re.MULTILINE))
    portfile = read(port, "portfile.cmake")
    given = re.findall(r"-D(\w+)=", portfile)
    if not given or not set(given) <= options:
        fail(f"portfile.cmake gives {sorted(set(given) - options)}, which CMakeLists.txt does not have")

    packages = os.path.join(work, "vcpkg")
    shutil.rmtree(packages, ignore_errors=True)
    subprocess.run([cmake, "-DPORT=strobe-attention", f"-DPORTFILE={port}/portfile.cmake",
                    f"-DCMAKE_CXX_COMPILER={cxx}", f"-DCURRENT_PACKAGES_DIR={packages}",
                    f"-DCURRENT_BUILDTREES_DIR={work}/vcpkg-build", "-P",
                    os.path.join(os.path.dirname(__file__), "vcpkg.cmake")], check=True)
    found = files_of(packages)
    for name in ("include/strobe/strobe.cuh", "share/strobe-attention/copyright",
                 "share/strobe-attention/strobe-attention-config.cmake",
                 "share/strobe-attention/StrobeHostExecution.cmake", "share/pkgconfig/strobe-attention.pc"):
        if name not in found:
            fail(f"the port does not install {name}")
    strays = [name for name in found if not name.startswith(("include/strobe/", "share/strobe-attention/",
                                                             "share/pkgconfig/"))]
    if strays:
        fail(f"the port installs {strays}, where vcpkg wants nothing")
    build = os.path.join(work, "vcpkg-consumer")
    shutil.rmtree(build, ignore_errors=True)
    subprocess.run([cmake, "-S", os.path.join(project, "tests/package/cpp"), "-B", build, "-DSTROBE_FROM=find_package",
                    f"-DCMAKE_PREFIX_PATH={packages}", f"-DCMAKE_CXX_COMPILER={cxx}"], check=True)
    subprocess.run([cmake, "--build", build], check=True)


def play_conan():
    """Modules with as much of Conan as the recipe uses."""

    def copy(_, pattern, src, dst):
        copied = [name for name in files_of(src) if fnmatch.fnmatch(name, pattern)]
        for name in copied:
            os.makedirs(os.path.dirname(os.path.join(dst, name)), exist_ok=True)
            shutil.copy(os.path.join(src, name), os.path.join(dst, name))
        if not copied:
            fail(f"conanfile.py copies nothing: {pattern} in {src}")

    pieces = {
        "conan": {"ConanFile": object},
        "conan.tools": {},
        "conan.tools.files": {"copy": copy, "load": lambda _, path: read(path)},
        "conan.tools.layout": {"basic_layout": None},
    }
    for name, members in pieces.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        sys.modules[name] = module


def check_conan(project, work):
    folder = os.path.join(project, "cmake/packaging/conan")
    for name in ("conanfile.py", "test_package/conanfile.py"):
        py_compile.compile(os.path.join(folder, name), cfile=os.path.join(work, "compiled"), doraise=True)

    play_conan()
    scope = {"__name__": "conanfile"}
    exec(compile(read(folder, "conanfile.py"), "conanfile.py", "exec"), scope)
    recipe = scope["StrobeAttention"]()
    if (recipe.name, recipe.license, recipe.description) != ("strobe-attention", "MIT", described(project)):
        fail("conanfile.py: name, license or description is not CMakeLists.txt's")
    recipe.recipe_folder = folder
    recipe.set_version()
    if recipe.version != version_of(project):
        fail(f"conanfile.py: version {recipe.version}, not {version_of(project)}")

    recipe.export_sources_folder = recipe.source_folder = os.path.join(work, "conan-source")
    recipe.package_folder = os.path.join(work, "conan-package")
    for place in (recipe.source_folder, recipe.package_folder):
        shutil.rmtree(place, ignore_errors=True)
    recipe.export_sources()
    recipe.package()
    packaged = files_of(recipe.package_folder)
    headers = ["include/strobe/" + name for name in files_of(os.path.join(project, "include/strobe"))]
    missing = set(headers + ["licenses/LICENSE", scope["HOST_EXECUTION"]]) - set(packaged)
    if missing:
        fail(f"the Conan package lacks {sorted(missing)}")


def check_workflows(project):
    folder = os.path.join(project, ".github/workflows")
    names = [name for name in sorted(os.listdir(folder)) if name.endswith(".yml")]
    for name in names:
        text = read(folder, name)
        if not re.search(r"^ +run: bash tests/run\.sh\b", text, re.MULTILINE):
            fail(f"{name} does not run tests/run.sh")
        try:
            import yaml
        except ImportError:
            print(f"recipes: {name} not parsed, for want of PyYAML")
            continue
        try:
            jobs = yaml.safe_load(text)["jobs"]
        except (yaml.YAMLError, KeyError, TypeError) as error:
            fail(f"{name}: {error!r}")
        for job in jobs.values():
            if not job.get("runs-on") or not all("run" in step or "uses" in step for step in job["steps"]):
                fail(f"{name}: a job without runs-on, or a step that does nothing")
    if not names:
        fail("no workflows")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    os.makedirs(sys.argv[4], exist_ok=True)
    check_workflows(sys.argv[3])
    check_conan(sys.argv[3], sys.argv[4])
    check_vcpkg(*sys.argv[1:])
    print(f"recipes: version {version_of(sys.argv[3])}, vcpkg port, Conan recipe and workflows")
