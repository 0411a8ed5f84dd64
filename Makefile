# SPDX-License-Identifier: MIT
#
# The first command anybody types. Everything is described in CMakeLists.txt; this only calls it.
# Builds live in build/, one directory per variant. JOBS=n sets how many compilers run at once.

CMAKE  ?= cmake
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
build   = $(CMAKE) --build $(1) -j $(JOBS)

# The runner of the tests; without python3 it says so, in the form every run ends with.
test    = command -v python3 >/dev/null || { echo "python3 is needed to run the tests"; \
          echo "0 passed, 1 failed, 0 skipped"; exit 1; }; python3 tools/test.py
MAKEFLAGS += --no-print-directory

.PHONY: all run test check check-hard check-flags mutants theorem model
.PHONY: bench soak fuzz lab-deep nightly
.PHONY: install dist man clean help
all:
	@command -v $(CMAKE) >/dev/null || { echo "cmake is needed to build kin"; exit 1; }
	@$(CMAKE) -S . -B build/release -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@$(call build,build/release)

help:
	@sed -n 's/^## //p' Makefile

## make                      build the libraries, the program kin and the examples
## make run                  build kin and run its showcase
run:
	@tools/deps.sh run
	@$(MAKE) --no-print-directory all
	@build/release/kin demo

## make test [ONLY=text]     build and run every test; KIN_STRICT=1 turns skips into failures
test:
	@tools/deps.sh test
	@$(test) --only "$(ONLY)"

## make check [ONLY=text]    the unit tests of a debug build, in less than a minute
check:
	@$(test) --stage debug --only "$(ONLY)"

## make check-hard           the unit tests under each hard mode
check-hard:
	@$(test) --stage hard --only "$(ONLY)"

## make check-flags          unit tests of builds for size, by link-time optimisation, hardened
check-flags:
	@$(test) --stage flags --only "$(ONLY)"

## make mutants [ONLY=text]  put each mistake of test/mutants into kin: a test must notice
mutants: export KIN_MUTANTS ?= all
mutants:
	@$(test) --stage mutants --only "$(ONLY)"

## make theorem [COUNT=5000] new small programs: the lab must have seen all that they do
theorem: export KIN_THEOREM_COUNT = $(or $(COUNT),5000)
theorem:
	@$(CMAKE) -S . -B build/soak -DCMAKE_BUILD_TYPE=Release -DKIN_TESTS=ON >/dev/null
	@$(call build,build/soak) --target test_lab_theorem_test >/dev/null
	@build/soak/test/lab/theorem_test --verbose

## make model                check the models of the protocols
model:
	@$(test) --stage model --only "$(ONLY)"

## make bench                measure kin and its peers
bench:
	@tools/deps.sh bench
	@python3 bench/run.py

## make soak [SECONDS=60]    a million connections, then cancellations of everything for so long
soak: export KIN_SOAK = $(or $(CYCLES),1000000)
soak: export KIN_LONG_LIFE = $(or $(CHILDREN),10000000)
soak: export KIN_SOAK_S = $(or $(SECONDS),60)
# What is counted as in use is: without caches of the allocator.
soak: export GLIBC_TUNABLES = glibc.malloc.tcache_count=0
soak:
	@$(CMAKE) -S . -B build/soak -DCMAKE_BUILD_TYPE=Release -DKIN_TESTS=ON >/dev/null
	@$(call build,build/soak) --target \
		test_api_net_soak_test test_stress_io_soak_test test_stress_long_life_test >/dev/null
	@build/soak/test/api/net_soak_test --here
	@build/soak/test/stress/io_soak_test --here
	@build/soak/test/stress/long_life_test --here
	@echo "soak: nothing is left behind"

## make fuzz [SECONDS=60]    feed what comes from outside to libFuzzer, so long for each reader
fuzz: export KIN_FUZZ_S = $(or $(SECONDS),60)
fuzz:
	@$(test) --stage fuzz --only "$(ONLY)"

## make lab-deep             the large explorations of atom mode, too; takes long
lab-deep: export KIN_ATOMS_DEEP = 1
lab-deep:
	@$(test) --stage atoms --only "$(ONLY)"

## make nightly [SECONDS=..] every test of the lab under fresh seeds, for an hour or so long
nightly:
	@python3 tools/nightly.py --seconds $(or $(SECONDS),3600) --only "$(ONLY)"

## make install              with headers and man pages [PREFIX=/usr/local] [DESTDIR=]
# Root tells the loader of the shared library; a packager, who has a DESTDIR, does so later.
install: all
	@DESTDIR="$(DESTDIR)" $(CMAKE) --install build/release --prefix "$(PREFIX)"
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || /sbin/ldconfig 2>/dev/null || true

## make dist                 the amalgamation dist/kin.c and dist/kin.h
dist:
	@python3 tools/amalgamate.py --output dist

## make man                  man pages in build/man
man:
	@python3 tools/man.py --output build/man

## make clean                remove build/ and dist/
clean:
	@rm -rf build dist
