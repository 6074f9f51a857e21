# Every target sets up what it needs in .venv, and only once: the files in .venv/ready/ say what is
# installed, and a newer pyproject.toml outdates them. Choose the Python with `make test PYTHON=...`,
# and hand options to pytest, the demo, the experiments or the benchmarks with ARGS, as in
# `make test ARGS="-k losses"`.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PYTHON ?=
ARGS ?=
# Processes that run tests side by side. Slow tests often wait for brokers, devices and clocks: five
# fit two processors.
JOBS ?= 5
# Share of their full size at which `make bench` runs the figures of devices, half an hour at 1.
SCALE ?= 0.05
# Fewer examples of each property, and nothing that watches over or serves slow tests only.
QUICK := --hypothesis-profile=quick -o faulthandler_timeout=0 -p no:schemathesis
# Which tests `make test` runs; a -m in ARGS goes before it.
MARKED := "not exhaustive"
# What pytest has made of the tests' assertions is kept for the next run.
unexport PYTHONDONTWRITEBYTECODE
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo quick test exhaustive check docs package architecture reproduce bench faults load containers homeassistant addon format clean FORCE

help:
	@echo "make demo       see it work on made-up data"
	@echo "make quick      run the quick tests: an answer within a minute"
	@echo "make test       run all tests but what is marked exhaustive"
	@echo "make exhaustive the matrices of which make test runs a few cases"
	@echo "make check      formatting, lint, types, imports and tests, as CI does"
	@echo "make docs       build the manual in build/docs"
	@echo "make package    build wheel and sdist, try them in clean environments, write the SBOM"
	@echo "make reproduce  rerun the paper's experiments, such as ARGS=--all"
	@echo "make bench      run the benchmarks"
	@echo "make faults     what the network does when things go wrong, and what intruders get"
	@echo "make load       how much the network takes, and for how long"
	@echo "make containers run a site in namespaces and under systemd, in a root of Debian packages"
	@echo "make homeassistant  import the history of a real Home Assistant, which it installs (400 MB)"
	@echo "make addon      put the add-on for Home Assistant together in build/addon"
	@echo "make format     format the sources and fix what ruff can"
	@echo "make clean      remove .venv, caches and build products"

demo: $(READY)/run
	@$(BIN)/discreet demo $(ARGS)

quick: JOBS = 2
quick: $(READY)/test
	@echo "==> quick tests"
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "not slow and not exhaustive" $(QUICK) $(ARGS)

# Brokers, browsers and clocks run beside each other on a busy machine: what failed there has to pass
# alone, and is named.
test: $(READY)/test
	@echo "==> tests"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m $(MARKED) --durations 25 --durations-min 5 $(ARGS) || { \
	  [ $$? = 1 ] && echo "==> what failed beside other tests, once more alone" && \
	  $(BIN)/python -m pytest -v --last-failed --last-failed-no-failures none -m $(MARKED) $(ARGS); }

exhaustive:
	@$(MAKE) --no-print-directory test MARKED=exhaustive

check: $(READY)/dev
	@echo "==> formatting"
	@$(BIN)/ruff format --check .
	@echo "==> lint"
	@$(BIN)/ruff check .
	@echo "==> types"
	@$(BIN)/mypy
	@echo "==> imports"
	@$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory docs
	@$(MAKE) --no-print-directory test

architecture: $(READY)/test
	@$(BIN)/python -m research.architecture

docs: $(READY)/docs
	@echo "==> manual"
	@$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "build/docs/index.html"

package: $(READY)/package
	@$(BIN)/python -m research.package $(ARGS)

reproduce: $(READY)/test
	@$(BIN)/python -m research.reproduce $(ARGS)

bench: $(READY)/bench
	@mkdir -p build
	@$(BIN)/python -m research.bench --out build/bench.json --plot build/bench.svg $(ARGS)
	@for script in $(notdir $(basename $(wildcard research/benchmarks/*.py))); do \
	  case $$script in clients|edge) scale="--scale $(SCALE)";; *) scale=;; esac; \
	  echo "==> $$script $$scale"; $(BIN)/python -m "research.benchmarks.$$script" $$scale || exit 1; \
	done

faults: SCRIPTS := faults intruder eavesdropper
load: SCRIPTS := throughput overload floods soak
faults load: $(READY)/test
	@missed=; for script in $(SCRIPTS); do \
	  echo "==> $$script"; \
	  $(BIN)/python -m "research.benchmarks.network.$$script" || missed="$$missed $$script"; \
	done; [ -z "$$missed" ] || { echo "missed:$$missed"; exit 1; }

containers: $(READY)/test
	@$(BIN)/python -m research.benchmarks.network.containers $(ARGS)

# The newest that Python 3.11 can run; it fetches what its integrations need when it starts.
HASS := $(VENV)/homeassistant
homeassistant: $(READY)/test
	@test -x $(HASS)/bin/hass || { $(BIN)/python -m venv $(HASS) && \
	  $(HASS)/bin/python -m pip --disable-pip-version-check -qq install homeassistant==2024.3.3 "josepy<2"; }
	@DISCREET_HASS=$(abspath $(HASS))/bin/hass $(BIN)/python -m pytest -q tests/e2e/test_homeassistant.py $(ARGS)

addon: $(READY)/package
	@$(BIN)/python -m research.addon $(ARGS)

format: $(READY)/dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean:
	@echo "==> removing $(VENV), caches and build products"
	@rm -rf $(VENV) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	@find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# Each set holds the ones before it.
$(READY)/run: pyproject.toml $(READY)/python
	@echo "==> installing discreet and what its demo needs"
	@$(PIP) install -e '.[demo]'
	@touch $@

$(READY)/test: pyproject.toml $(READY)/python
	@echo "==> installing discreet and what its tests need"
	@$(PIP) install -e '.[test]'
	@touch $(READY)/run $@

$(READY)/docs: pyproject.toml $(READY)/test
	@echo "==> installing what builds the manual"
	@$(PIP) install -e '.[docs]'
	@touch $@

$(READY)/package: pyproject.toml $(READY)/run
	@echo "==> installing what builds packages"
	@$(PIP) install build cyclonedx-bom
	@touch $@

$(READY)/bench: pyproject.toml $(READY)/test
	@echo "==> installing what the benchmarks compare with"
	@$(PIP) install -e '.[bench]'
	@touch $@

$(READY)/dev: pyproject.toml $(READY)/python
	@echo "==> installing discreet, what its tests need and the checkers"
	@$(PIP) install -e '.[dev]'
	@touch $(READY)/run $(READY)/test $(READY)/docs $@

# Running the candidate is the only safe test: a name on the PATH may be a shim for nothing. Debian
# ships `venv` without `ensurepip`, and then no environment can be made.
$(READY)/python:
	@lame=; for python in $(CANDIDATES); do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	  if "$$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	    echo "==> making $(VENV) with $$("$$python" --version)"; \
	    rm -rf $(VENV) && "$$python" -m venv $(VENV) && mkdir $(READY) && \
	    printf '%s\n' "$(CURDIR)" "$(PYTHON)" >$@; exit $$?; \
	  fi; \
	  lame="$$lame $$python"; \
	done; \
	if [ -n "$$lame" ]; then \
	  echo "error: no venv module in$$lame: install it (Debian, Ubuntu: python3-venv) or give PYTHON=/path/to/python3" >&2; \
	else \
	  echo "error: discreet needs Python 3.11 or newer; tried: $(CANDIDATES). Give one with PYTHON=/path/to/python3" >&2; \
	fi; exit 1

# An environment does not survive its folder being moved or copied, its Python being removed, or
# another PYTHON being asked for: then it is recreated.
ifneq ($(shell [ -x $(BIN)/python ] && grep -qxF "$(CURDIR)" $(READY)/python 2>/dev/null && \
  { [ -z "$(PYTHON)" ] || grep -qxF "$(PYTHON)" $(READY)/python; } && echo fits),fits)
$(READY)/python: FORCE
endif
