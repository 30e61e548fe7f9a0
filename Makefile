# One command per need; every target works from a clean clone with Python 3.11 and nothing else set up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

DASHBOARD := services/dashboard
DASHBOARD_BUILT := services/muster/gateway/static/index.html
DASHBOARD_SOURCES := $(shell find $(DASHBOARD) -path '*/node_modules' -prune -o -type f -print 2>/dev/null)
NPM := cd $(DASHBOARD) && PATH="$(abspath $(BIN)):$$PATH" npm

# Images of CI set it, and then every worker and every process of a stack compiles all that it imports: seconds each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install lock web up lint test test-unit test-stack test-documents hunt test-web test-browser test-k8s test-compose test-security structure plain-english check-images pin-images golden docs screenshots wheel check clean

help:  ## show the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install: $(STAMP)  ## make .venv with everything Muster needs, pinned by hash

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

lock:  ## resolve the dependencies anew (needs uv); records versions and hashes, no addresses
	uv pip compile --universal --generate-hashes --no-annotate --no-header --python-version 3.11 \
	  --extra server --group pyproject.toml:dev pyproject.toml -o requirements.lock

$(DASHBOARD)/node_modules/.installed: $(STAMP) $(DASHBOARD)/package-lock.json
	$(NPM) ci --no-audit --no-fund
	touch $@

$(DASHBOARD_BUILT): $(DASHBOARD)/node_modules/.installed $(DASHBOARD_SOURCES)
	$(NPM) run build

web: $(DASHBOARD_BUILT)  ## build the dashboard, with the Node that came as a wheel

up: install web  ## start everything and show the fleet live until Ctrl-C
	$(BIN)/muster up

lint: install check-images structure plain-english  ## formatting, rules, types, import contracts, pinned images, structure, vocabulary
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(YIELDING) $(BIN)/mypy
	$(BIN)/lint-imports

test: test-unit test-stack test-documents  ## everything that needs no browser, no container engine and no Kubernetes

test-unit: install  ## units, contracts and simulations: no stack is started
	$(YIELDING) $(BIN)/python -m pytest --numprocesses logical --dist loadfile tests/contract tests/simulation tests/unit

test-stack: install  ## stacks of real servers, whole and in parts, two at a time
	$(BIN)/python -m pytest --numprocesses logical --maxprocesses 2 --dist loadfile --no-loadscope-reorder \
	  tests/integration/federation tests/integration/shell tests/integration/stack

test-documents: install  ## the commands of README and docs, each beside a stack
	$(BIN)/python -m pytest --numprocesses logical --dist worksteal tests/integration/documents

test-security: install  ## attacks through the real broker and over HTTP, a file for each attacker
	$(BIN)/python -m pytest --numprocesses logical --dist loadfile tests/security

structure: install  ## figures of the code's structure; fail if one exceeds its limit or two classes are twins
	$(BIN)/python -m muster_tools.structure

plain-english: install  ## fail if a text uses a word that has a plainer one (tools/muster_tools/plain_english.toml)
	$(BIN)/python -m muster_tools.plain_english

check-images: install  ## fail if a public image is named without its digest
	$(BIN)/python compose/pin_images.py

pin-images: install  ## write the digests of public images (needs docker and its registries)
	$(BIN)/python compose/pin_images.py --write

hunt: install  ## property tests with new random examples: what fails becomes an @example of its test
	$(BIN)/python -m pytest --numprocesses logical -m hypothesis --hypothesis-profile hunt

test-web: $(DASHBOARD)/node_modules/.installed  ## the dashboard's own checks and unit tests
	$(NPM) run check

test-browser: install web  ## every page of the dashboard in Chromium against a running stack
	$(BIN)/python -m pytest tests/browser

test-compose: install  ## the compose stack for real, where a Docker engine can be started
	$(BIN)/python -m pytest tests/compose

test-k8s: install  ## against a real control plane: yours (MUSTER_TEST_KUBECONFIG), KUBEBUILDER_ASSETS, or one built from Go modules
	$(BIN)/python -m pytest tests/kubernetes

docs: install  ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

screenshots: install web  ## take the pictures in README anew
	PYTHONPATH=tests $(BIN)/python -m browser.screenshots

wheel: install web  ## the distribution, with the built dashboard in it
	$(BIN)/python -m build --wheel --no-isolation

golden: install  ## record the golden logs of tests/golden anew
	PYTHONPATH=tests $(BIN)/python -m golden.record

check: test-k8s lint test-web test-unit test-stack test-browser test test-security test-compose docs  ## what CI runs

# Two parts of a check run at a time. A part with a control plane, stacks or a browser mostly waits: for leases, pods,
# pages. What needs the cores (lint, units) runs beside the longest of these, and yields to it: stacks that get too little
# processor time lose their leases. `docs` comes last, because tests look for files that git does not know.
ifneq ($(filter check,$(MAKECMDGOALS)),)
MAKEFLAGS += --jobs=2 --output-sync=target --no-print-directory
YIELDING := nice -n 15
STACKS := test-stack test-browser test-documents test-security test-compose
test-unit: | test-web web
$(STACKS): | lint test-unit
docs: | test-k8s $(STACKS)
endif

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) $(DASHBOARD)/node_modules services/muster/gateway/static site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
