# Two commands do all the set-up and then their job:
#   make report   every notebook on the papers' printed numbers -> outputs/published/index.html
#   make test     the test suite
PYTHON ?= python3
VENV ?= .venv
# Optional dependencies to install: dev (tests, lint), models (torch, diffusers, open_clip, ...).
EXTRAS ?= dev
PARAMS ?= params/published.yaml
BIN := $(VENV)/bin
comma := ,
STAMP := $(VENV)/.biaslab-$(subst $(comma),-,$(EXTRAS))

.DEFAULT_GOAL := help
.PHONY: help setup report test lab lint format benchmark clean

help:  ## Show what can be done
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(STAMP)  ## Make .venv with everything needed (the other commands do it too)

# Made again when pyproject.toml changes, or when the interpreter behind .venv has gone.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("biaslab needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name one with: make PYTHON=python3.12 ...")'
	@$(BIN)/python -c 'import sys' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS)]"
	@touch $@

report: $(STAMP)  ## Run every notebook on the papers' printed numbers and build the report
	$(BIN)/biaslab run $(PARAMS) --overwrite

test: $(STAMP)  ## Run the test suite
	$(BIN)/python -m pytest -n auto --dist loadfile

lab: $(STAMP)  ## Open JupyterLab on the notebooks
	$(BIN)/jupyter lab notebooks

lint: $(STAMP)  ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/nbstripout --verify notebooks/*/*.ipynb

format: $(STAMP)  ## Apply style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(STAMP)  ## Measure speed and memory against a peer, in one run
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:  ## Remove .venv and every run
	rm -rf $(VENV) outputs/*/
