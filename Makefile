# Everything sets itself up: the first target that needs it makes .venv from the pins in requirements/constraints.txt.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo test e2e faults mutants soak check format schemas golden docs bench pins clean

help: ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml requirements/constraints.txt
	@echo "setting up $(VENV) (about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=…")'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/constraints.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY) ## three regions on this machine, jobs pushed to a Git repository; CUT=eu-west cuts one off; KEEP=1 stays up
	@$(BIN)/reconciler demo $(if $(CUT),--cut $(CUT)) $(if $(KEEP),--keep)

test: check ## everything: checks, and all tests
	TESTS=thorough tests/in_memory.sh $(PYTEST) -n 2 --dist=worksteal -m "slow or hypothesis"

e2e: $(READY) ## on real control planes, Flux, Argo CD, Gitea, S3: built from their sources the first time; SUITE=fleet|faults|data|parts for one
	@tests/e2e/packages.sh
	@tests/e2e/build.sh $(if $(filter fleet faults,$(SUITE)),kubestack flux argocd gitea s3)$(if $(filter data,$(SUITE)),s3) >/dev/null
	$(if $(filter fleet all,$(or $(SUITE),all)),E2E=1 $(PYTEST) tests/e2e/fleet -n 0 -p no:randomly --timeout=600)
	$(if $(filter faults all,$(or $(SUITE),all)),E2E=1 $(PYTEST) tests/e2e/faults -n 2 --dist=worksteal -p no:randomly --timeout=$(if $(filter real,$(FAULTS_TIMES)),3600,600))
	$(if $(filter data all,$(or $(SUITE),all)),E2E=1 $(PYTEST) tests/e2e/data -n 0 -p no:randomly --timeout=1200)
	$(if $(filter parts all,$(or $(SUITE),all)),E2E=1 $(PYTEST) tests/e2e --ignore=tests/e2e/fleet --ignore=tests/e2e/faults --ignore=tests/e2e/data -n 2 --dist=loadfile -p no:randomly --timeout=600)

faults: $(READY) ## SEEDS=1000 histories in a simulated world, with faults of every kind; each that breaks a rule is told as a short story
	$(BIN)/python -m reconciler.sim faults --seeds $(or $(FIRST),0)-$$(( $(or $(FIRST),0) + $(or $(SEEDS),1000) - 1 ))

mutants: $(READY) ## hubs and agents with one thing made wrong: the simulated world must catch each of them
	$(BIN)/python -m tests.mutants

soak: $(READY) ## a simulated day: 5 % of store requests fail, the hub starts anew and is cut off, regions die
	$(BIN)/python -m reconciler.sim soak

check: $(READY) ## format, lint, layers, types, fast tests: before every commit
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports
	$(BIN)/deptry reconciler 2>/dev/null || $(BIN)/deptry reconciler
	$(BIN)/mypy
	tests/in_memory.sh $(PYTEST) -n 2 --dist=worksteal -m "not slow" -q

format: $(READY) ## put the code into its one form
	$(BIN)/ruff check --quiet --fix .
	$(BIN)/ruff format --quiet .

schemas: $(READY) ## write schemas/ from the model
	$(BIN)/python -m reconciler.adapters.schemas

golden: $(READY) ## write the golden trees; read the diff
	$(BIN)/python -m tests.golden

docs: $(READY) ## write docs/states.md and docs/reasons.md from the code
	$(BIN)/python -m tests.docs

bench: $(READY) ## figures against design goals, with the machine's load beside them; SUITE=data: a simulated week of jobs and their data
	$(BIN)/python -m tests.bench$(if $(filter data,$(SUITE)),.data)

pins: ## solve the pins anew (needs uv)
	uv pip compile --quiet --upgrade --no-header --no-annotate --python-version 3.11 pyproject.toml --all-extras --group dev -o requirements/constraints.txt

clean: ## forget what was set up
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist build
