#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Installs what a command of the Makefile needs and this machine lacks, from Debian's packages.
#
#   tools/deps.sh run|test|bench
#
# It prints the exact apt-get line first and runs it only as root, or through sudo when that asks
# for no password. Otherwise the line is left for the reader, and what needs the packages is skipped
# later. The exit status is 0 in both cases: what cannot be had must not stop what can be built.
# KIN_NO_INSTALL=1 prints the line and installs nothing.
set -eu

run_packages="gcc libc6-dev make cmake"

test_packages="$run_packages g++ clang libclang-rt-14-dev python3 pkg-config binutils gdb valgrind
    libc6-dbg libunwind-dev spin qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross mandoc
    curl netcat-openbsd socat bind9-dnsutils dnsmasq-base libcurl4-openssl-dev libhiredis-dev
    libpq-dev"

bench_packages="$run_packages g++ python3 golang-go libboost-fiber-dev libboost-context-dev
    erlang-base libtbb-dev rustc cargo librust-tokio-dev librust-num-cpus-dev libuv1-dev"

case "${1:-}" in
run) wanted=$run_packages ;;
test) wanted=$test_packages ;;
bench) wanted=$bench_packages ;;
-h | --help)
    sed -n '3,13s/^#  \{0,1\}//p' "$0"
    exit 0
    ;;
*)
    echo "usage: tools/deps.sh run|test|bench" >&2
    exit 2
    ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "deps: this is no Debian system; needed are the counterparts of:" $wanted
    exit 0
fi

# True when dpkg does not call the package installed ("not-installed" is another word).
is_absent() {
    ! dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

missing=""
for package in $wanted; do
    if is_absent "$package"; then
        missing="$missing $package"
    fi
done
if [ -z "$missing" ]; then
    exit 0
fi

if [ "$(id -u)" -eq 0 ]; then
    sudo=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo="sudo "
else
    sudo="none"
fi

line="apt-get install -y --no-install-recommends$missing"
if [ "$sudo" = none ] || [ -n "${KIN_NO_INSTALL:-}" ]; then
    echo "deps: missing for 'make $1':$missing"
    echo "deps: to install them: sudo apt-get update && sudo $line"
    echo "deps: going on without; what needs them is skipped"
    exit 0
fi

echo "deps: ${sudo}apt-get update && ${sudo}$line"
export DEBIAN_FRONTEND=noninteractive
# A package that cannot be had must not keep the others away: then each is tried alone.
${sudo}apt-get update -q || echo "deps: apt-get update failed; trying with the lists at hand"
if ! ${sudo}$line; then
    for package in $missing; do
        ${sudo}apt-get install -y --no-install-recommends "$package" ||
            echo "deps: $package could not be installed; what needs it is skipped"
    done
fi
