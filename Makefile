# Everything happens in .venv, built from requirements.txt with the known-good versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
# One worker a core, each with one thread of torch: two threads on two cores in two workers only fight.
WORKERS ?= auto

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format bench readme pictures clean

help: ## say what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /make \1\t/' | expand -t 14

setup: .venv/ready ## build .venv and let `mlflow run` find it
	@$(BIN)/python tools/link_environment.py

.venv/ready: requirements.txt requirements-dev.txt requirements-studies.txt requirements-robust.txt constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "ActionFlow needs Python 3.11 or newer, found $$($(PYTHON) --version): type make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	# compat: a plain path, so that a script beside a clone called actionflow finds the package and not the folder.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		--config-settings editable_mode=compat -e '.[dev]'
	@touch $@

demo: setup ## train twice on real digits, then show the hardest of them (3 minutes)
	@. $(BIN)/activate && python -m projects.demo

test: setup check ## check the code, then run every test, offline
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

check: setup ## ruff, mypy, and the direction of imports
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

format: setup ## let ruff mend what it can
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

bench: setup ## measure what recording costs (half an hour)
	$(BIN)/python -m benchmarks

readme: setup ## paste what the README's commands print into it (30 minutes)
	$(BIN)/python tools/readme_output.py

pictures: setup ## walk the pages from `make demo` to a retraining, and take the README's pictures (2 minutes, needs Chromium)
	$(BIN)/python tools/readme_pictures.py

clean: ## remove .venv and caches; runs stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
