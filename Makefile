# Everything runs in .venv inside the checkout. `make demo` and `make test` set it up when needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.rooftune-setup
NATIVE := CMakeLists.txt $(wildcard native/* native/*/*)
# The editable install knows the packages that it was made with, so a new one asks for a new install.
PACKAGES := $(shell find rooftune -name __init__.py)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO_OUT ?= out/demo-$(shell date +%Y%m%d-%H%M%S)

.PHONY: setup native demo test test-unit test-slow lint bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt $(NATIVE) $(PACKAGES)
	@test -x $(BIN)/python || { echo "Setting up .venv (about 3 minutes, most of it PyTorch)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) "scikit-build-core>=1.1" nanobind cmake ninja torch
	@echo "Building the native extension"
	@$(PIP) --no-build-isolation -e ".[engine,dev]"
	@touch $@

# Rebuild the C++ extension only.
native:
	@$(PIP) --no-build-isolation --no-deps -e .

# The whole loop on a real model: from a goal to a proven better configuration, and the report of it.
demo: setup
	@$(BIN)/rooftune models pull smollm2-135m
	@$(BIN)/rooftune optimize examples/chat.yaml --out $(DEMO_OUT)

test: setup
	@$(BIN)/rooftune models pull smollm2-135m
	@$(BIN)/python -m pytest -q -m "not very_slow"

test-unit: setup
	@$(BIN)/python -m pytest -q -m "not slow and not very_slow and not model and not browser"

test-slow: setup
	@$(BIN)/rooftune models pull smollm2-135m
	@$(BIN)/python -m pytest -q

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	@for file in benchmarks/*/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:
	rm -rf build out .mypy_cache .ruff_cache .pytest_cache .hypothesis
