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

.PHONY: all run test check check-hard model bench soak lab-deep install dist man clean help
all:
	@$(CMAKE) -S . -B build/release -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@$(call build,build/release)

help:
	@sed -n 's/^## //p' Makefile

## make                      build both libraries, the program kin and the examples
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

## make model                check the models of the protocols
model:
	@$(test) --stage model --only "$(ONLY)"

## make bench                measure kin and its peers
bench:
	@tools/deps.sh bench
	@python3 bench/run.py

## make soak                 a million connections, and what is left of them; takes minutes
soak: export KIN_SOAK = 1000000
soak: export KIN_TEST_SCALE = 10
soak: export KIN_SOAK_FIGURES = $(CURDIR)/build/soak.txt
soak:
	@rm -f build/soak.txt
	@$(test) --stage release --only net_soak
	@cat build/soak.txt

## make lab-deep             the large explorations of atom mode, too; takes long
lab-deep: export KIN_ATOMS_DEEP = 1
lab-deep:
	@$(test) --stage atoms --only "$(ONLY)"

## make install PREFIX= DESTDIR=
install: all
	@DESTDIR="$(DESTDIR)" $(CMAKE) --install build/release --prefix "$(PREFIX)"

## make dist                 the amalgamation dist/kin.c and dist/kin.h
dist:
	@python3 tools/amalgamate.py --output dist

## make man                  man pages in build/man
man:
	@python3 tools/man.py --output build/man

## make clean                remove build/ and dist/
clean:
	@rm -rf build dist
