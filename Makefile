# Needs make and Python 3.11 to 3.14; everything else is installed into .venv with the versions of constraints.txt.

PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifeq ($(VERSION),)
$(error PYTHON=$(PYTHON) does not run; name another, as in `make test PYTHON=/usr/bin/python3.13`)
endif
ifeq ($(filter $(VERSION),3.11 3.12 3.13 3.14),)
$(error a3c-zoo needs Python 3.11 to 3.14, and $(PYTHON) is $(VERSION); name another, as in `make test PYTHON=python3.13`)
endif
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Type checkers read paths, and do not see the finder with which setuptools installs in editable mode.
SHOW_SOURCES = printf '%s\n' "$(CURDIR)" "$(CURDIR)/envs" "$(CURDIR)/hyperparams" > .venv/lib/python$(VERSION)/site-packages/a3c_zoo_sources.pth
SOURCES := a3c_zoo benchmarks envs hyperparams plugins tests

.DEFAULT_GOAL := help
.PHONY: help train demo test test-slow test-ray test-ray-slow bench-ray plugin-requirements bench-cartpole bench-atari bench-sb3 bench-agents bench-workers chaos docs docs-serve fuzz gallery lint lint-systems mutants packages trained format hooks dist dist-test versions clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 21

train: .venv/.installed ## train CartPole-v1 until it is solved
	@$(BIN)/a3c-zoo train cartpole

# The command is a job of its own (set -m): otherwise Ctrl-C would end make, too, with an error. Ctrl-Z does nothing then.
demo: .venv/.installed-trained ## a trained agent plays Pong in this terminal; Ctrl-C ends it
	@trap '' TSTP; set -m 2>/dev/null; $(BIN)/a3c-zoo play pong --terminal || [ $$? -eq 130 ]

# pytest comes last, so that its closing line is the last line.
test: lint ## lint, types, layers and the fast tests
	@$(BIN)/python -m pytest -q -n 4 --dist worksteal

test-slow: .venv/.installed-dev ## the slow tests
	@$(BIN)/python -m pytest -q -m slow

test-ray: .venv-ray/.installed ## plugins/a3c-zoo-ray on clusters of several Ray nodes, in an environment of its own: 2 minutes
	@.venv-ray/bin/python -m pytest -q plugins/a3c-zoo-ray/tests

test-ray-slow: .venv-ray/.installed ## the slow tests of plugins/a3c-zoo-ray: 6 minutes
	@.venv-ray/bin/python -m pytest -q -m slow plugins/a3c-zoo-ray/tests

bench-ray: .venv-ray/.installed ## plugins/a3c-zoo-ray with nodes and commands that are killed at random moments: an hour
	@PYTHONPATH=$(CURDIR)/plugins/a3c-zoo-ray/src .venv-ray/bin/python plugins/a3c-zoo-ray/faults.py --solve 10 --compare 6 --leftovers 50

plugin-requirements: .venv/.installed-dev ## install wandb, Trackio and MLflow, without which tests of plugins/a3c-zoo-wandb are skipped
	$(PIP) install --constraint constraints.txt 'wandb>=0.31,<1' 'trackio>=0.40,<1' 'mlflow-skinny>=3,<4'

lint: .venv/.installed-dev ## lint, types and layers only
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports

lint-systems: .venv/.installed-dev ## types on macOS and Windows: names of the standard library that these lack
	@$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin a3c_zoo
	@$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 a3c_zoo

bench-cartpole: .venv/.installed-dev ## a3c against SB3's A2C on CartPole, 10 seeds each: 8 minutes on an idle machine
	@$(BIN)/python benchmarks/cartpole.py

bench-atari: .venv/.installed-dev ## steps/s on Pong: each network and precision, SB3's A2C, the environments alone: 14 minutes
	@$(BIN)/python benchmarks/atari.py

bench-sb3: .venv/.installed-dev ## steps/s of SB3's A2C in each vector environment, and of a3c: 12 minutes
	@$(BIN)/python benchmarks/sb3_speed.py

bench-agents: .venv/.installed-dev ## all agents on CartPole; a3c, locked, a3c-data and a3c-grad on Pong: 25 minutes
	@$(BIN)/python benchmarks/agents.py

chaos: .venv/.installed-dev ## deliberate faults in real trainings, and checks of every file afterwards: 20 minutes
	@$(BIN)/python -m benchmarks.chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),20)

mutants: .venv/.installed-dev ## each safeguard of a run switched off in turn: chaos or a test must notice it: 20 minutes
	@$(BIN)/python -m benchmarks.chaos.mutants

docs: .venv/.installed-dev ## build the documentation site into site/; a broken link ends it
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: .venv/.installed-dev ## show the documentation site on http://127.0.0.1:8000
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --strict --dev-addr 127.0.0.1:8000

packages: .venv/.installed-dev ## install, check and train twenty packages of others, for the table of their page: an hour
	@$(BIN)/python benchmarks/package_table.py train; $(BIN)/python benchmarks/package_table.py write

gallery: .venv/.installed-dev ## film the trained agents for docs/gallery.md: 6 minutes
	@$(BIN)/python benchmarks/gallery.py
	@$(BIN)/python -m tests.reference_pages

trained: .venv/.installed-dev ## train the agents of plugins/a3c-zoo-trained anew that take a minute at most: 4 minutes
	@$(BIN)/python plugins/a3c-zoo-trained/train.py

fuzz: .venv/.installed-dev ## commands with arguments and files of all kinds, each of which must end in order: 5 minutes
	@$(BIN)/python -m tests.fuzz --seed $(or $(SEED),1) --cases $(or $(CASES),2500) --minutes $(or $(MINUTES),15)

bench-workers: .venv/.installed-dev ## 1 to 64 workers whose environment sleeps: scaling, CPU time, staleness: 9 minutes
	@$(BIN)/python benchmarks/workers.py

format: .venv/.installed-dev ## format the code and sort its imports
	@$(BIN)/ruff check --fix $(SOURCES)
	@$(BIN)/ruff format $(SOURCES)

hooks: .venv/.installed-dev ## run the tools of lint before each commit
	@$(BIN)/pre-commit install

# Plugins are built from copies: a build leaves files beside its source, and the tests would find these.
dist: .venv/.installed-dev ## build the wheels and sdists of a3c-zoo and of plugins/ into dist/, and check them
	rm -rf build dist
	$(BIN)/python -m build --no-isolation
	mkdir -p build && cp -r plugins build/plugins
	for plugin in build/plugins/*/; do $(BIN)/python -m build --no-isolation --outdir dist $$plugin || exit 1; done
	$(BIN)/twine check --strict dist/*

dist-test: .venv/.installed-dev ## install the wheels offline in a Debian without git and compilers, and type the first commands: 10 minutes
	@$(BIN)/python -m pytest -q -m slow tests/test_offline.py

versions: .venv/.installed-dev ## write the version of a3c_zoo/version.py into all distributions and CITATION.cff
	@$(BIN)/python -m tests.versions

clean: ## remove .venv, caches and builds; runs/ stays
	rm -rf .venv .venv-ray build dist site *.egg-info .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

# A virtual environment has a command with its version. If .venv has another version, it is made again.
$(BIN)/python$(VERSION):
	$(PYTHON) -m venv --clear .venv

.venv/.installed: pyproject.toml constraints.txt $(BIN)/python$(VERSION)
	$(PIP) install --constraint constraints.txt --editable .
	@$(SHOW_SOURCES)
	@touch $@

# With the extra, as users install it. The tests run the plugin's sources all the same: setup.cfg puts them first.
# `--editable .`: for what requires a3c-zoo without an extra, older versions of pip do not look at `.[ray]`.
.venv-ray/.installed: pyproject.toml constraints.txt plugins/a3c-zoo-ray/pyproject.toml
	$(PYTHON) -m venv --clear .venv-ray
	rm -rf build/ray && mkdir -p build && cp -r plugins/a3c-zoo-ray build/ray  # a build leaves files beside its source
	.venv-ray/bin/python -m pip --disable-pip-version-check install --constraint constraints.txt --editable . --editable '.[ray]' ./build/ray pytest pytest-timeout
	@touch $@

.venv/.installed-trained: .venv/.installed $(shell find plugins/a3c-zoo-trained -type f -not -path '*/build/*')
	rm -rf build/demo && mkdir -p build && cp -r plugins/a3c-zoo-trained build/demo  # a build leaves files beside its source
	$(PIP) install --constraint constraints.txt ./build/demo
	@touch $@

.venv/.installed-dev: pyproject.toml constraints.txt $(BIN)/python$(VERSION)
	$(PIP) install 'pip>=25.1'  # the first one that knows dependency groups
	$(PIP) install --constraint constraints.txt --editable '.[all]' --group dev
	@$(SHOW_SOURCES)
	@touch $@ .venv/.installed
