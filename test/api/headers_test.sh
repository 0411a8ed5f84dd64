#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Each public header compiles alone, as C11, C17 and C++17, with every warning an error.
# One line per header and language: "ok   name" or "FAIL name" followed by what the compiler said.
#
#   test/api/headers_test.sh [substring]      environment: CC="gcc clang" CXX="g++ clang++"
set -u
cd "$(dirname "$0")/../.." || exit 2
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Werror"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# check compiler standard language header: includes it twice, because guards are part of the deal.
check() {
    name="header_$(basename "$4" .h)_as_$2_by_$1"
    case "$name" in
    *"${only:-}"*) ;;
    *) return ;;
    esac
    printf '#include <kin/%s>\n#include <kin/%s>\n' "$4" "$4" >"$scratch/one"
    # shellcheck disable=SC2086 # the warnings are words
    if "$1" -std="$2" -x "$3" $warnings -Iinclude -fsyntax-only "$scratch/one" >"$scratch/said" 2>&1
    then
        echo "ok   $name"
    else
        echo "FAIL $name"
        sed 's/^/    | /' "$scratch/said"
        failed=1
    fi
}

only=${1:-}
for path in include/kin/*.h; do
    header=$(basename "$path")
    for compiler in ${CC:-gcc clang}; do
        if ! command -v "$compiler" >/dev/null; then
            echo "skip header_${header%.h}_by_$compiler no $compiler"
            continue
        fi
        check "$compiler" c11 c "$header"
        check "$compiler" c17 c "$header"
    done
    for compiler in ${CXX:-g++ clang++}; do
        if ! command -v "$compiler" >/dev/null; then
            echo "skip header_${header%.h}_by_$compiler no $compiler"
            continue
        fi
        check "$compiler" c++17 c++ "$header"
    done
done
exit "$failed"
