# SPDX-License-Identifier: MIT
# vcpkg port, for use from a checkout:
#
#   vcpkg install strobe-attention --overlay-ports=CHECKOUT/cmake/packaging/vcpkg
#
# A port outside of one fetches a release instead, with vcpkg_from_github; the rest stays.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

set(VCPKG_BUILD_TYPE release)  # headers: there is nothing to debug in them
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DSTROBE_BUILD_TESTS=OFF
    -DSTROBE_BUILD_BENCHMARKS=OFF
    -DSTROBE_BUILD_EXAMPLES=OFF
    -DSTROBE_INSTALL=ON
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/strobe-attention)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE
  "${CURRENT_PACKAGES_DIR}/share/cmake" "${CURRENT_PACKAGES_DIR}/share/licenses")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
