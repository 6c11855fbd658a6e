# Everything a person does here. `make` alone says what there is.
PYTHON ?= python3
BIN := .venv/bin
PACKAGES := beehive protos metamanager edgehub edged modules edgecore_mapper tests
ARGS ?=
PIP_INSTALL := $(BIN)/pip install --quiet --progress-bar on --disable-pip-version-check
UV := uv==0.13.9
NEEDS_PYTHON := 'import sys; sys.version_info >= (3, 11) or sys.exit("edgecore needs Python 3.11 or later, and $(PYTHON) is %s.%s: make PYTHON=python3.11 …" % sys.version_info[:2])'
NEEDS_VENV := no virtual environment could be made: on Debian and Ubuntu, apt install python3-venv

.PHONY: test-all extended slow flaky chaos upgrades life lives walks docs pictures fuzz mutants planted simulate help install run test check format bench constraints release bundle deb chart quick
.DEFAULT_GOAL := help

help:
	@echo "make run        cloudcore, edgecore and a few pods on this machine, with a live table (ARGS=--once: until all are up)"
	@echo "make test       each package's own tests, and a walk of each use; what this machine lacks is skipped with the reason"
	@echo "make test-all   make test, and then make extended: all other tests but those of make slow"
	@echo "make quick      within a minute, ruff and the unit tests of what the working tree (or else the last commit) has changed"
	@echo "make slow       tests that take long: all end-to-end tests on all runtimes, and more"
	@echo "make flaky      new and changed tests 20 times each, at rest, under load, with coarse clocks … (ARGS='--all --times 5')"
	@echo "make check      ruff, mypy, import layers, generated files, names of listed mutants"
	@echo "make docs       the documentation as a site, in site/"
	@echo "make bench      figures with the floor beside them"
	@echo "make mutants    small changes of the code that decides: which does no test notice (ARGS='--sample 200 --only edged/pods')"
	@echo "make planted    bugs that are put into the product: which seed of the simulation finds each (ARGS='--seeds 300 --keep')"
	@echo "make simulate   many seeds of whole nodes with faults, on all cores (ARGS='--seed 1000 --seeds 5000 --faults link')"
	@echo "make chaos      real processes and links under load, hurt 500 times and killed 1,920 times, and its memory; hours"
	@echo "make upgrades   1,000 upgrades of an installed node with pods, killed at random steps, and 100 power cuts (COUNT=20 SEED=7)"
	@echo "make lives      random lives of real nodes, recorded and replayed (ARGS='--lives 50 --runtime oci')"
	@echo "make life       two hours of a cloud and a node under churn, and what they need at rest (ARGS='--minutes 60 --runtime containerd')"
	@echo "make walks      what users do, on each pair of user, runtime, TLS, link …; what screens say is compared (ARGS='--only oci --count 10')"
	@echo "make fuzz       nearly right input for everything that reads what strangers send (ARGS='--cases 1000000')"
	@echo "make install    the virtual environment in .venv; the others call it"
	@echo "make pictures   the pictures in docs/pictures, from a node with the pods of the demo and a browser without a window"
	@echo "make release    wheels, sdist, constraints with hashes and SHA256SUMS of the commit that is checked out, in dist/"
	@echo "make bundle     what make release made, and all that it needs, signed for edgecore upgrade (KEY=FILE: Ed25519, PEM)"
	@echo "make deb        what make release made as a Debian package for this machine's Python, in dist/"
	@echo "make chart      a Helm chart of cloudcore, made of deploy/, in dist/"
	@echo "make constraints  constraints*.txt anew from setup.cfg (ARGS=--upgrade: the newest versions that it allows)"
	@echo "make format     ruff's formatter and its safe fixes"

install: .venv/installed

# What runs edgecore, without the developers' tools
.venv/product: setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c $(NEEDS_PYTHON)
	@echo "installing edgecore and what it needs in .venv (once) …"
	@$(PYTHON) -m venv .venv || { echo "$(NEEDS_VENV)" >&2; exit 1; }
	@$(PIP_INSTALL) --require-hashes --requirement constraints.txt
	@$(PIP_INSTALL) --no-deps --editable .
	@touch $@

# What an extra names. --editable '.[dev]' would build edgecore again, and the tools' bytecode is made for what is imported
EXTRA = $(BIN)/python -c 'import configparser as c; p = c.ConfigParser(); p.read("setup.cfg"); print(p["options.extras_require"]["$(1)"])'
INSTALL_EXTRA = @$(call EXTRA,$(1)) | $(PIP_INSTALL) --no-compile --constraint constraints-dev.txt --requirement /dev/stdin

.venv/installed: .venv/product constraints-dev.txt
	@echo "installing the developers' tools in .venv (once) …"
	$(call INSTALL_EXTRA,dev)
	@touch $@

# Only make docs, and the tests that look at its site, need these
.venv/site: .venv/installed
	@echo "installing the site's tools in .venv (once) …"
	$(call INSTALL_EXTRA,docs)
	@touch $@

run: .venv/product
	@$(BIN)/python -m modules.processes.demo $(ARGS)

# Tests start hundreds of processes: without bytecode on the disk each compiles edgecore anew, half of the time of its start
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n logical

# The same examples, the same order and the same hashes in every run; make slow has others each time
test extended: export PYTHONHASHSEED := 0
test: install
	$(PYTEST) -m "not slow and not extended" --randomly-seed=1 $(ARGS)

# These mostly wait for processes: three for each processor keep it busy
extended: install
	PYTEST_XDIST_AUTO_NUM_WORKERS=$$((3 * $$(nproc))) $(PYTEST) -m "extended and not slow" --randomly-seed=1 $(ARGS)

test-all: test extended

quick: install
	@PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python -m tests.support.quick $(ARGS)

slow: install
	$(PYTEST) -m "slow or hypothesis" --hypothesis-profile=slow $(ARGS)

flaky: export PYTHONHASHSEED := 0
flaky: install
	$(BIN)/python -m tests.support.flaky $(ARGS)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PACKAGES)
	$(BIN)/lint-imports
	$(BIN)/python -m protos.generate --check
	$(BIN)/python -m modules.processes.edgecore.config.reference --check
	$(BIN)/python -m modules.cloud.apiserver.fields.generate --check
	$(BIN)/python -m tests.mutants.survivors

# The warning is about a version of MkDocs that this does not use
docs: .venv/site
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/mkdocs build --strict $(ARGS)
	@echo "open site/index.html"

release: install
	$(BIN)/python -m tests.packaging.release dist

bundle: install
	$(BIN)/python -m tests.packaging.bundle dist $(KEY)

deb: install
	$(BIN)/python -m tests.packaging.deb dist

chart: install
	$(BIN)/python -m tests.packaging.chart dist

# One version of each that suits every Python from 3.11 on. Without ARGS=--upgrade a version changes only if setup.cfg asks for it
EXTRAS := --extra postgresql --extra tui --extra docs --extra dev
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-annotate \
	--custom-compile-command 'make constraints' $(ARGS) setup.cfg
constraints: install
	@$(PIP_INSTALL) $(UV)
	$(COMPILE) --generate-hashes --output-file constraints.txt
	$(COMPILE) --generate-hashes --constraint constraints.txt --extra postgresql --output-file constraints-cloud.txt
	$(COMPILE) --constraint constraints-cloud.txt $(EXTRAS) --output-file constraints-dev.txt

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pictures: install
	$(BIN)/python -m tests.pictures docs/pictures

bench: install
	$(BIN)/python -m tests.bench $(ARGS)

simulate: install
	$(BIN)/edgecore simulate --seeds 1000 $(ARGS)

planted: install
	$(BIN)/python -m tests.simulation.search $(ARGS)

mutants: install
	$(BIN)/python -m tests.mutants $(ARGS)

chaos: install
	$(BIN)/python -m tests.chaos $(ARGS)

COUNT ?= 1000
SEED ?= 1
upgrades: install
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.chaos.upgrades --count $(COUNT) --seed $(SEED) $(ARGS)

life: install
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.life $(ARGS)

lives: install
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.lives --seed $$(date +%s) $(ARGS)

walks: install
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m tests.walks $(ARGS)

fuzz: install
	$(BIN)/python -m tests.fuzz $(ARGS)
