# The tasks of the project; `make` alone lists them. Everything runs in .venv, which `make setup` creates.

PYTHON ?= python3
WORKERS ?= 2
# Some images forbid bytecode; every process of the tests would then compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

BIN := .venv/bin
MEMBERS := $(sort $(dir $(wildcard libs/*/pyproject.toml services/*/pyproject.toml)))
SETUP_DONE := .venv/.setup-done
COMPILER := .venv-proto/bin/python
COMPILER_DONE := .venv-proto/.setup-done
UV := $(shell command -v uv 2>/dev/null)

# uv is faster; pip alone is enough.
ifdef UV
installer = $(UV) pip install --quiet --python $(1)/bin/python
else
installer = $(1)/bin/python -m pip install --quiet --disable-pip-version-check
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo test nightly hostile test-real testbed lint type docs proto proto-check proto-baseline stubs stubs-remote up down status bench sim images compose-up compose-down logs requirements check

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP_DONE) ## create .venv with every pinned dependency and our own packages

$(SETUP_DONE): requirements-dev.txt $(addsuffix pyproject.toml,$(MEMBERS))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(PYTHON) is older than 3.11; name another one: make setup PYTHON=python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(call installer,.venv) --require-hashes -r requirements-dev.txt
	$(call installer,.venv) --no-deps --no-build-isolation $(addprefix -e ./,$(patsubst %/,%,$(MEMBERS)))
	@touch $@

$(COMPILER_DONE): requirements-proto.txt
	$(PYTHON) -m venv .venv-proto
	$(call installer,.venv-proto) --require-hashes -r requirements-proto.txt
	@touch $@

demo: setup ## run more work than there is room for through the whole mesh, with a report at the end
	$(BIN)/argosy demo

test: setup ## run all tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

nightly: setup ## run a thousand seeds of simulated worlds with faults, or go on with them (SEEDS=1000 FIRST=0)
	@mkdir -p build
	$(BIN)/python tests/benchmarks/simulated_worlds.py --first $(or $(FIRST),0) --count $(or $(SEEDS),1000) \
		--journal build/nightly-$$(git rev-parse --short HEAD).txt

hostile: setup ## send ten thousand hostile requests to a server, and three floods, legal ones beside them (COUNT=10000 SEED=1)
	$(BIN)/python tests/benchmarks/hostile_calls.py --seed $(or $(SEED),1) --count $(or $(COUNT),10000)

testbed: setup ## fetch and build the real parts of `make test-real`
	PYTHONPATH=tests/testbed $(BIN)/python -m testbed build

test-real: testbed $(COMPILER_DONE) ## run the tests against real parts: Kubernetes API server, Pulsar, Postgres, trace collector
	$(BIN)/python -m pytest tests/real -n 2

lint: setup $(COMPILER_DONE) ## check style, formatting, imports, size limits and the .proto files
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/size_limits.py
	$(BIN)/python tools/import_rules.py
	$(BIN)/python tools/protos.py lint --compiler $(COMPILER)

type: setup ## check types
	$(BIN)/mypy

docs: setup ## write docs/settings.md anew from the configuration classes
	$(BIN)/python tools/settings_page.py

proto: setup $(COMPILER_DONE) ## regenerate libs/proto from proto/
	$(BIN)/python tools/protos.py generate --compiler $(COMPILER)

proto-check: setup $(COMPILER_DONE) ## fail if generated code is stale or a .proto change breaks the baseline
	$(BIN)/python tools/protos.py check --compiler $(COMPILER)
	$(BIN)/python tools/protos.py breaking --compiler $(COMPILER)

proto-baseline: setup $(COMPILER_DONE) ## make the present .proto files the baseline (at a release)
	$(BIN)/python tools/protos.py baseline --compiler $(COMPILER)

stubs: setup $(COMPILER_DONE) ## generate clients' stubs for other languages; stubs-go, stubs-java and so on for one
	$(BIN)/python tools/stubs.py --compiler $(COMPILER)

stubs-remote: setup $(COMPILER_DONE) ## the same by plugins at the Buf registry, with nothing to install
	$(BIN)/python tools/stubs.py --compiler $(COMPILER) --remote

stubs-%: setup $(COMPILER_DONE)
	$(BIN)/python tools/stubs.py --compiler $(COMPILER) $*

up: setup ## start a mesh with simulated clusters on this machine
	$(BIN)/argosy up

down: setup ## stop it
	$(BIN)/argosy down

status: setup ## show its processes
	$(BIN)/argosy status

bench: setup ## measure the scheduling core and the whole mesh
	$(BIN)/argosy bench core
	$(BIN)/argosy bench mesh

sim: setup ## run the demo's workload in virtual time
	$(BIN)/argosy simulate

COMPOSE ?= docker compose

images: ## build the container images that docker-compose.yml names
	$(COMPOSE) build

compose-up: ## start the stack of docker-compose.yml
	$(COMPOSE) up -d --build

compose-down: ## stop it, profiles included, and forget everything
	$(COMPOSE) --profile observability --profile autoscale --profile kubernetes --profile events down -v --remove-orphans

logs: ## follow its logs; SERVICE=leader for one service
	$(COMPOSE) logs -f --tail 100 $(SERVICE)

requirements: ## pin every dependency again (needs uv)
	tools/pin-requirements

check: lint type proto-check test test-real ## everything that .ci/run checks
