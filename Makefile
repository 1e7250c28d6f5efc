# Requirements: Python 3.11 or later, a C++20 compiler and make. The rest, including cmake and
# ninja, is installed from PyPI into .venv. Each target makes its prerequisites if they are out of
# date. Try `make help`.

PYTHON ?= python3
VENV   ?= .venv

BIN   := $(VENV)/bin
PY    := $(BIN)/python
PIP   := $(PY) -m pip --disable-pip-version-check --quiet
BUILD := build/$(patsubst .%,%,$(notdir $(VENV)))
JOBS  := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)

CXX_FILES  := $(shell find core benchmarks verify -name '*.cpp' -o -name '*.hpp' 2>/dev/null)
NATIVE     := $(filter-out core/tests/%,$(filter core/%,$(CXX_FILES)))
TIDY_FILES := $(wildcard core/kernel/*.cpp core/platform/*.cpp core/work/*.cpp core/control/*.cpp core/control/policies/*.cpp core/record/*.cpp core/world/*.cpp core/io/*.cpp core/host/*.cpp core/burn/*.cpp core/bind/*.cpp)
PY_DIRS    := $(wildcard conftest.py src tests verify benchmarks examples requirements docs/extensions)

# Byte code is always kept: the tests start hundreds of interpreters, each of which would compile the
# package again.
unexport PYTHONDONTWRITEBYTECODE

# One pip at a time in one environment; the compilers run in parallel by themselves.
.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help demo test browser lint stub format bench coverage verify sanitize docs lock clean FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The demo tests whether the recommendation holds, so no verdict is a failure.
demo: $(VENV)/.package ## close the loop on this machine, in under four minutes; OFFLINE=1: on recorded runs
	@$(BIN)/twinloop loop examples/demo/loop.yaml -o demo --overwrite \
	  $(if $(OFFLINE),--traces src/twinloop/recordings/demo.tar.zst) || case $$? in 1|3) ;; *) exit 1;; esac

# Two steps. Tests marked `real` observe processes of this machine, so they run one after the other
# without concurrent tests. Both steps run, and both must pass; ARGS that select no test in one of
# them (status 5 of pytest) are no failure, but in both of them they are. The examples of a page build
# on one another, so a file stays on one worker.
STEP_OPTIONS := --durations=20
NO_MARKERS    = $(if $(filter -m%,$(ARGS)),$(error ARGS cannot select by marker (-m), because the \
  steps of this target do: call $(PY) -m pytest itself))
test: $(VENV)/.package $(VENV)/.extra-test ## run the tests, and the examples of docs and docstrings
	$(NO_MARKERS)@beside=0; alone=0; \
	$(PY) -m pytest -m "not real" -n auto --dist loadfile $(STEP_OPTIONS) $(ARGS) || beside=$$?; \
	$(PY) -m pytest -m real $(STEP_OPTIONS) $(ARGS) -n 0 || alone=$$?; \
	case "$$beside $$alone" in \
	  "0 0"|"0 5"|"5 0") ;; \
	  "5 5") echo "make test: no test matches ARGS" >&2; exit 1 ;; \
	  *) echo "make test: failed (pytest's status: $$beside beside others, $$alone for 'real')" >&2; \
	     exit 1 ;; \
	esac

# The browser of the system, controlled by Playwright. A missing browser is an error here; `make test`
# does not need one.
browser: $(VENV)/.package $(VENV)/.extra-test $(VENV)/.extra-browser ## look at the reports in a real browser
	@$(FIND_BROWSER) >/dev/null || $(GET_BROWSER)
	@browser="$$($(FIND_BROWSER))" && echo "in $$browser" && \
	  TWINLOOP_BROWSER="$$browser" $(PY) -m pytest tests/browser -m browser $(ARGS)

lint: $(VENV)/.package $(VENV)/.extra-lint ## check style and types, Python and C++
	$(BIN)/ruff check $(PY_DIRS)
	$(BIN)/ruff format --check $(PY_DIRS)
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)
	@$(MAKE) --no-print-directory $(BUILD)/.tidy

stub: $(VENV)/.package ## write the types of the extension anew, after a change of core/bind
	$(PY) -m nanobind.stubgen -q -m twinloop._core -p core/bind/stub.pattern -o src/twinloop/_core.pyi

format: $(VENV)/.extra-lint ## rewrite the sources in the style that lint asks for
	$(BIN)/ruff check --fix-only --quiet $(PY_DIRS)
	$(BIN)/ruff format $(PY_DIRS)
	$(BIN)/clang-format -i $(CXX_FILES)

bench: $(VENV)/.package $(VENV)/.extra-bench ## measure the speed, print the table
	$(PY) benchmarks/run.py $(ARGS)

# Line coverage of the Python sources by both steps of `make test`, child processes included.
coverage: $(VENV)/.package $(VENV)/.extra-test $(VENV)/.extra-coverage ## measure which lines the tests reach
	$(NO_MARKERS)@mkdir -p build/coverage && rm -f build/coverage/.coverage*
	$(PY) -m pytest -q -m "not real" -n auto --dist loadfile $(MEASURED) $(ARGS) || test $$? = 5
	$(PY) -m pytest -q -m real $(MEASURED) --cov-append $(ARGS) -n 0 || test $$? = 5
	@$(PY) -m coverage combine --append --quiet 2>/dev/null || true # of children that ended late
	$(PY) -m coverage report --skip-covered --sort=cover | tee build/coverage/report.txt
	$(PY) -m coverage html --quiet
	@echo "open build/coverage/html/index.html"
MEASURED := --cov --cov-report=

# All parts, also after a failure; ARGS names some of them, or --list.
verify: $(VENV)/.package $(VENV)/.extra-test ## run the long proofs: oracle, fuzzers, thorough laws
	$(PY) verify/run.py $(ARGS)

docs: $(VENV)/.package $(VENV)/.extra-docs ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

# Newer versions only with `make lock ARGS=--upgrade`.
lock: $(VENV)/.extra-lock ## write requirements/ anew, after a change of dependencies in pyproject.toml
	$(PY) requirements/compile.py $(ARGS)

clean: ## remove what was built, and the environment
	rm -rf build demo dist site $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache

# --- the environment -----------------------------------------------------------------------------

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Twinloop needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# The groups of requirements are separate, so that the demo does not need the linters: `run` has the
# imports of the package, `build` the requirements of an isolated build, the others are the extras of
# pyproject.toml. Exact versions, and only files with the hashes in requirements/. UNLOCKED=1 installs
# the newest versions of the package index instead, within the limits of pyproject.toml.
UNLOCKED ?=
ifeq ($(UNLOCKED),)
$(VENV)/.extra-%: requirements/%.txt $(VENV)/.created
	@echo "installing what '$*' needs"
	@$(PIP) install --require-hashes -r $<
	@touch $@
else
$(VENV)/.extra-%: pyproject.toml $(VENV)/.created
	@echo "installing what '$*' needs, versions not locked"
	@$(PY) requirements/compile.py --print $* > $@.txt
	@$(PIP) install -r $@.txt
	@touch $@
endif

# The list of native sources: an added or removed file must cause a rebuild, like a changed file.
$(VENV)/.sources: FORCE | $(VENV)/.created
	@printf '%s\n' $(sort $(NATIVE)) > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

# An editable install, so that changes of Python sources take effect immediately. Without isolation,
# because ninja and clang-tidy need the headers that the build folder refers to.
$(VENV)/.package: pyproject.toml CMakeLists.txt $(NATIVE) $(VENV)/.sources $(VENV)/.extra-build \
                  $(VENV)/.extra-run
	@echo "building twinloop"
	@$(PIP) install --no-deps --no-build-isolation --config-settings=build-dir=$(BUILD) --editable .
	@touch $@

# The clang tools read the command lines of the compiler; all files are checked if any changed.
$(BUILD)/.tidy: .clang-tidy core/bind/.clang-tidy $(TIDY_FILES) $(filter core/%.hpp,$(CXX_FILES)) \
                $(VENV)/.package $(VENV)/.extra-lint
	printf '%s\n' $(TIDY_FILES) | xargs -P $(JOBS) -n 1 $(BIN)/clang-tidy --quiet -p $(BUILD)
	@touch $@

# --- the browser ---------------------------------------------------------------------------------

TWINLOOP_BROWSER ?=
FIND_BROWSER := $(if $(TWINLOOP_BROWSER),command -v "$(TWINLOOP_BROWSER)",\
  { command -v chromium || command -v chromium-browser || command -v google-chrome; })
GET_BROWSER  := { \
  if [ -z "$(TWINLOOP_BROWSER)" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
    echo "installing chromium"; \
    apt-get -qq update && \
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install \
      chromium fonts-dejavu-core >/dev/null; \
  else \
    echo "These tests need chromium: install it (Debian: apt-get install chromium), or name a" >&2; \
    echo "browser of its kind: make browser TWINLOOP_BROWSER=/path/to/chrome" >&2; exit 1; \
  fi; }

# --- the sanitizers ------------------------------------------------------------------------------

SANITIZED   := build/sanitize
# Python itself is not instrumented, so the runtimes are loaded first, with libstdc++: the interceptor
# of C++ exceptions resolves the original function at start-up.
RUNTIMES     = $(foreach lib,libasan.so libubsan.so libstdc++.so.6,$(shell $(CXX) -print-file-name=$(lib)))
SANITIZE_ENV = ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc

sanitize: sanitize-native sanitize-threads sanitize-python ## run the core under AddressSanitizer, UBSan and ThreadSanitizer

.PHONY: sanitize-native sanitize-threads sanitize-python
sanitize-native: $(VENV)/.extra-build
	CXX="$(CXX)" $(BIN)/cmake -S . -B $(SANITIZED)/native -G Ninja \
	  -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DTWINLOOP_SANITIZE=ON -DTWINLOOP_PYTHON=OFF -DTWINLOOP_NATIVE_TESTS=ON
	$(BIN)/cmake --build $(SANITIZED)/native
	$(BIN)/ctest --test-dir $(SANITIZED)/native --output-on-failure --no-tests=error

# Runs on several threads that share a scenario, as `run_many` does, or rows, as copies do.
sanitize-threads: $(VENV)/.extra-build
	CXX="$(CXX)" $(BIN)/cmake -S . -B $(SANITIZED)/threads -G Ninja \
	  -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DTWINLOOP_SANITIZE=THREADS -DTWINLOOP_PYTHON=OFF -DTWINLOOP_NATIVE_TESTS=ON
	$(BIN)/cmake --build $(SANITIZED)/threads --target threads shared_rows
	TSAN_OPTIONS=halt_on_error=1 $(BIN)/ctest --test-dir $(SANITIZED)/threads --output-on-failure \
	  --no-tests=error --tests-regex '^(threads|shared_rows)$$'

# The instrumented extension has a second environment, because the editable install of the first one
# would precede any other folder on the path.
sanitize-python: $(VENV)/.created
	@$(if $(filter /%,$(firstword $(RUNTIMES))),,echo "no libasan.so for CXX=$(CXX): use GCC" >&2; exit 1)
	@$(MAKE) --no-print-directory PYTHON=$(PY) VENV=$(SANITIZED)/venv \
	  $(SANITIZED)/venv/.extra-build $(SANITIZED)/venv/.extra-run $(SANITIZED)/venv/.extra-test
	CXX="$(CXX)" $(SANITIZED)/venv/bin/python -m pip --disable-pip-version-check --quiet install \
	  --no-deps --no-build-isolation --config-settings=build-dir=$(SANITIZED)/extension \
	  --config-settings=cmake.build-type=RelWithDebInfo --config-settings=install.strip=false \
	  --config-settings=cmake.define.TWINLOOP_SANITIZE=ON .
	env $(SANITIZE_ENV) LD_PRELOAD="$(RUNTIMES)" \
	  $(SANITIZED)/venv/bin/python -m pytest --capture=sys tests/engine tests/cluster tests/clouds $(ARGS)
