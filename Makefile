# Everything runs in .venv inside the checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.rooftune-setup
SOURCES := $(wildcard native/*.cpp native/*.h native/*/*.cpp native/*/*.h native/CMakeLists.txt)

.PHONY: setup demo test test-unit test-slow lint bench native clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt CMakeLists.txt $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "scikit-build-core>=1.1" nanobind cmake ninja "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c constraints.txt -e ".[engine,dev]"
	touch $(STAMP)

native:
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
