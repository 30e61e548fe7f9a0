# One command per need; every target works from a clean clone with Python 3.11 and nothing else set up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install lock up lint test golden check clean

help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install: $(STAMP)  ## make .venv with everything Muster needs, pinned by hash

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

lock:  ## resolve the dependencies anew (needs uv); records versions and hashes, no addresses
	uv pip compile --universal --generate-hashes --no-annotate --no-header --python-version 3.11 \
	  --group pyproject.toml:dev pyproject.toml -o requirements.lock

up: install  ## start everything and show the fleet live until Ctrl-C
	$(BIN)/muster up

lint: install  ## formatting, rules, types, floors of the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: install  ## everything that needs no container engine and no Kubernetes
	$(BIN)/python -m pytest

golden: install  ## record the golden logs of tests/golden anew
	PYTHONPATH=tests $(BIN)/python -m golden.record

check: lint test  ## what CI runs

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
