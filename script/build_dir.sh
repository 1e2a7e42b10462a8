# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# build_dir.sh: what the scripts share: configuring and building one folder. Sourced, not run.
#
#   build_dir DIR TARGETS [CMAKE OPTION...]
#
# TARGETS is a list in one word ("fluxion flx"), or "all". Options given before are kept by CMake, so a script names
# those it relies on each time.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${FLX_JOBS:-$(nproc 2>/dev/null || echo 2)}

build_dir() {
    local dir=$1 targets=$2
    shift 2
    local generator=()
    if [ ! -f "$dir/CMakeCache.txt" ] && command -v ninja >/dev/null; then
        generator=(-G Ninja)
    fi
    local target=()
    if [ "$targets" != all ]; then
        read -ra target <<<"--target $targets"
    fi
    mkdir -p "$dir"
    local log=$dir/build.log
    cmake -S "$root" -B "$dir" "${generator[@]}" -DCMAKE_BUILD_TYPE=Release "$@" >"$log" 2>&1 &&
        cmake --build "$dir" -j "$jobs" "${target[@]}" >>"$log" 2>&1 && return 0
    cat "$log" >&2
    return 1
}
