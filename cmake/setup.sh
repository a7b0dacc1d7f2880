# SPDX-License-Identifier: MIT
# Sourced by tests/run.sh, examples/quickstart.sh and benchmarks/run_all.sh: finds what the build needs and, on
# Debian and Ubuntu with root, installs what is missing. The CUDA toolkit is never installed, only looked for.

say() { printf '== %s\n' "$*"; }
fail() {
  printf 'strobe: %s\n' "$*" >&2
  exit 1
}

# Is version $1 at least $2?
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]; }

# Puts nvcc on the PATH and sets
#   have_nvcc      yes or no
#   cuda_headers   the folder with cuda_runtime_api.h, empty if there is none
find_cuda() {
  local root
  for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    if ! command -v nvcc >/dev/null && [ -n "$root" ] && [ -x "$root/bin/nvcc" ]; then
      export PATH="$root/bin:$PATH"
    fi
  done
  have_nvcc=no cuda_headers=''
  if nvcc --version >/dev/null 2>&1; then
    have_nvcc=yes
  fi
  local nvcc_root=''
  [ "$have_nvcc" = no ] || nvcc_root=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
  for root in "$nvcc_root" "${CUDAToolkit_ROOT:-}" "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda /usr; do
    if [ -n "$root" ] && [ -z "$cuda_headers" ] && [ -f "$root/include/cuda_runtime_api.h" ]; then
      cuda_headers=$root/include
    fi
  done
}

# Sets gpu_arch to what CMAKE_CUDA_ARCHITECTURES should be for the first GPU, or leaves it empty and says why
# in no_gpu.
find_gpu() {
  gpu_arch='' no_gpu='' gpu_name=''
  if [ "$have_nvcc" = no ]; then
    no_gpu="nvcc was not found"
    return
  fi
  local capability=''
  if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then
    gpu_name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n1)
    capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n1)
  elif [ ! -e /dev/nvidia0 ]; then
    no_gpu="this machine has no NVIDIA GPU"
    return
  fi
  case $capability in
    9.0) gpu_arch=90a-real ;;  # the a: wgmma exists only there
    [0-7].*) no_gpu="${gpu_name:-the GPU} has compute capability $capability, and 8.0 or newer is needed" ;;
    [0-9]*.[0-9]) gpu_arch=${capability/./}-real ;;
    *) gpu_arch="90a-real;80-virtual" gpu_name=${gpu_name:-a GPU that did not say its name} ;;
  esac
}

# ---- packages --------------------------------------------------------------------------------------------

# Whether CMake finds package $1, version $2 or newer.
cmake_finds() {
  local probe
  probe=$(mktemp -d)
  printf 'cmake_minimum_required(VERSION 3.24)\nproject(probe CXX)\nfind_package(%s %s REQUIRED)\n' "$1" "$2" \
    >"$probe/CMakeLists.txt"
  local found=0
  cmake -S "$probe" -B "$probe/build" >/dev/null 2>&1 || found=1
  rm -rf "$probe"
  return $found
}

# Is what $1 names there?
present() {
  case $1 in
    cmake) command -v cmake >/dev/null && at_least "$(cmake --version | awk 'NR == 1 { print $3 }')" 3.24 ;;
    g++) command -v "${CXX:-g++}" >/dev/null ;;
    make) command -v ninja >/dev/null || command -v make >/dev/null ;;
    catch2) present cmake && present g++ && present make && cmake_finds Catch2 3.4 ;;
    benchmark) present cmake && present g++ && present make && cmake_finds benchmark 1.7 ;;
    python) python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null ;;
  esac
}

described() {
  case $1 in
    cmake) echo "CMake 3.24 or newer" ;;
    g++) echo "g++ 11 or newer" ;;
    make) echo "Ninja (or make)" ;;
    catch2) echo "Catch2 3.4 or newer" ;;
    benchmark) echo "Google Benchmark 1.7 or newer" ;;
    python) echo "Python 3.9 or newer" ;;
  esac
}

apt_candidate() { LC_ALL=C apt-cache policy "$1" | awk '/Candidate:/ && $2 != "(none)" { print $2 }'; }

# Catch2 3 is in Debian 12 only by way of bookworm-backports. This lists that suite with the mirror and the key
# that the machine already uses for bookworm itself.
list_backports() {
  local suite file=/etc/apt/sources.list.d/strobe-backports.sources
  suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  local entry
  entry=$(deb822_entry "$suite")
  [ -n "$entry" ] || entry=$(one_line_entry "$suite")
  [ -n "$entry" ] || fail "no apt source for $suite was found, so $suite-backports cannot be added: \
install Catch2 3.4 or newer yourself"
  say "adding $suite-backports in $file (for Catch2 3)"
  {
    echo "# Written by strobe's tests/run.sh: the suite that has libcatch2-dev 3."
    echo "Types: deb"
    echo "$entry"
    echo "Suites: $suite-backports"
    echo "Components: main"
  } >"$file"
}

# The URIs, Signed-By and Trusted lines of the first deb822 source that has suite $1.
deb822_entry() {
  local sources=(/etc/apt/sources.list.d/*.sources)
  [ -e "${sources[0]}" ] || return 0
  # A blank line between files, since a stanza ends there; comment lines may stand inside one.
  for file in "${sources[@]}"; do grep -v '^#' "$file" || true; echo; done | awk -v suite="$1" '
    BEGIN { RS = ""; FS = "\n" }
    {
      has = 0; off = 0; out = ""; key = ""
      for (i = 1; i <= NF; i++) {
        if ($i ~ /^[ \t]/) { if (keep) out = out "\n" $i; continue }
        key = tolower($i); sub(/:.*/, "", key)
        keep = key == "uris" || key == "signed-by" || key == "trusted"
        if (keep) out = out (out == "" ? "" : "\n") $i
        if (key == "enabled" && tolower($i) ~ /no/) off = 1
        if (key == "suites") {
          n = split($i, word, /[ \t]+/)
          for (j = 2; j <= n; j++) if (word[j] == suite) has = 1
        }
      }
      if (has && !off) { print out; exit }
    }'
}

# The same from lines like "deb [signed-by=KEY] URI bookworm main".
one_line_entry() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | awk -v suite="$1" '
    $1 == "deb" {
      line = $0; key = ""; trusted = ""
      if (match(line, /\[[^]]*\]/)) {
        options = substr(line, RSTART + 1, RLENGTH - 2)
        line = substr(line, 1, RSTART - 1) substr(line, RSTART + RLENGTH)
        n = split(options, option, /[ \t]+/)
        for (i = 1; i <= n; i++) {
          if (option[i] ~ /^signed-by=/) key = substr(option[i], 11)
          if (option[i] ~ /^trusted=/) trusted = substr(option[i], 9)
        }
      }
      split(line, word, /[ \t]+/)
      if (word[3] == suite) {
        print "URIs: " word[2]
        if (key != "") print "Signed-By: " key
        if (trusted != "") print "Trusted: " trusted
        exit
      }
    }'
}

# need INSTALL THING...: makes sure that each thing (see described) is there. INSTALL is yes or no.
need() {
  local install=$1 thing missing=() packages=()
  shift
  for thing in "$@"; do
    present "$thing" || missing+=("$thing")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  local names
  names=$(for thing in "${missing[@]}"; do described "$thing"; done | paste -sd, | sed 's/,/, /g')
  if [ "$install" = no ]; then
    fail "missing: $names (not installed because of --no-install)"
  elif ! command -v apt-get >/dev/null; then
    fail "missing: $names. Install them, then run this again."
  elif [ "$(id -u)" -ne 0 ]; then
    fail "missing: $names. Run this as root to have them installed, or install them yourself."
  fi

  say "missing: $names"
  apt-get update -qq
  for thing in "${missing[@]}"; do
    case $thing in
      cmake | g++) packages+=("$thing") ;;
      make) packages+=(ninja-build) ;;
      benchmark) packages+=(libbenchmark-dev) ;;
      python) packages+=(python3) ;;
      catch2)
        # The package is called libcatch2-dev or, where that name is not used, catch2 (version 2 on Debian 12).
        if [ -n "$(apt_candidate libcatch2-dev)" ]; then
          packages+=(libcatch2-dev)
        elif at_least "$(apt_candidate catch2)" 3.4; then
          packages+=(catch2)
        else
          list_backports
          apt-get update -qq
          packages+=(libcatch2-dev)
        fi ;;
    esac
  done
  say "installing: ${packages[*]}"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
  for thing in "${missing[@]}"; do
    present "$thing" || fail "$(described "$thing") is still missing after installing ${packages[*]}"
  done
}
