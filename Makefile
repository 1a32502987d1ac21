PYTHON ?= python3
# Test processes side by side: more than the cores that CI has, for tests also wait for leases and processes.
WORKERS ?= 4
VENV := .venv
BIN := $(VENV)/bin
# The full fault tests: how many side by side, which (words of their names), and where their figures are kept.
TORTURE_WORKERS ?= 2
ONLY ?=
BEFORE ?=
RESUME ?=
TORTURE := tests/faults tests/ingest/test_ingest_crashes.py tests/ingest/test_failing_bucket.py \
	tests/ingest/test_deliveries.py tests/http/test_waiting.py tests/security/test_fuzzing.py
TORTURE_FIGURES := docs/explanation/torture.json
# The independent validator of OCFL; its libraries do not go together with ours.
OCFL_VENV := .venv-ocfl
# Looks packages up in lists of vulnerabilities, and knows CycloneDX's schema.
AUDIT_VENV := .venv-audit

# The stamps carry the content that they were made from, so an install runs again only when that changed.
content = $(shell cat $(1) 2>/dev/null | cksum | tr ' ' '-')
DEV_STAMP := $(VENV)/installed-dev-$(call content,requirements.lock pyproject.toml)
OCFL_STAMP := $(OCFL_VENV)/installed-$(call content,requirements-ocfl.lock)
AUDIT_STAMP := $(AUDIT_VENV)/installed-$(call content,requirements-audit.lock)
RUNTIME_STAMP := $(VENV)/installed-runtime-$(call content,requirements-runtime.lock pyproject.toml)

PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# A lock file names every package, so pip resolves nothing. Otherwise it fails as soon as a package that is needed
# with an extra (psycopg[pool]) has a newer release than the pinned one.
INSTALL_LOCKED := $(PIP_INSTALL) --require-hashes --no-deps --requirement
INSTALL_PROJECT := $(BIN)/python $(PIP_INSTALL) --no-compile --no-deps --no-build-isolation --editable .
COMPILE := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-header --quiet

# Tests start a thousand processes, each of which would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run venv servers test check format docs links pages screenshots transitions bench bench-locks bench-reaping bench-wakeups bench-ledger bench-loop bench-queue bench-ingest bench-http bench-latency bench-history torture lock wheel audit clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(RUNTIME_STAMP) ## Run Headgate with an example, until Ctrl-C; ARGS=--once ends when it is done
	@exec $(BIN)/headgate up --example $(ARGS)

venv: $(DEV_STAMP) ## Make .venv with everything that development needs

# Beside the checks, which keep one core busy: what all test processes import is compiled once, and not by each.
test: venv servers $(OCFL_STAMP) ## Run every check, then every test, on real servers
	@$(BIN)/pytest --collect-only --quiet -n 0 >/dev/null 2>&1 & compiling=$$!; \
	$(MAKE) --no-print-directory check; checked=$$?; wait $$compiling; exit $$checked
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

check: venv ## Check format, lint, types, imports, the words of texts, and that the generated docs are current
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_docs.py --check
	$(BIN)/python tools/english.py
	@! git grep -nE '^(<{7}|\|{7}|>{7})( |$$)' || { echo 'left over from a merge'; exit 1; }

format: venv ## Format the code and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: venv ## Write the generated pages of the docs, and build the site in docs/_build/html
	$(BIN)/python tools/generate_docs.py
	$(BIN)/sphinx-build -W --keep-going -n -q -b html docs docs/_build/html

links: venv ## Ask every address beyond the site that the docs name
	$(BIN)/sphinx-build -W --keep-going -q -b linkcheck docs docs/_build/links

pages: venv servers ## Run the commands of the pages, and write down what they print now (as root)
	HEADGATE_RENEW_PAGES=1 $(BIN)/pytest tests/docs/test_pages.py tests/docs/test_api_examples.py -n $(WORKERS)
	$(BIN)/python tools/generate_docs.py

transitions: venv servers ## Take every row of the state tables on every store, and note it for the docs
	HEADGATE_TRANSITIONS=1 $(BIN)/pytest tests/contract/test_locks_table.py tests/contract/test_ledger_rows.py \
		tests/contract/test_queue_table.py tests/contract/test_queue_crashes.py -k "every_row or a_row_has or rows_for_new_items or is_held" -n $(WORKERS)
	$(BIN)/python tools/generate_docs.py

screenshots: venv ## Photograph every page of the dashboard on a crowded store, and renew the picture of the README
	$(BIN)/python tools/screenshots.py docs/_build/screenshots --store docs/_build/crowd
	$(BIN)/python tools/screenshots.py docs/images --readme

servers: ## Install the database servers that the tests need (as root, on Debian)
	$(PYTHON) tools/install_servers.py

bench: venv servers ## Run every benchmark
	$(BIN)/python -m benchmarks

bench-locks: venv servers ## Run the benchmark of the locks
	$(BIN)/python -m benchmarks.locks

bench-reaping: venv servers ## Run the benchmark of freeing expired locks and claims
	$(BIN)/python -m benchmarks.reaping

bench-wakeups: venv servers ## Measure grants, fairness and processor time of 8, 32 and 64 processes; BEFORE=DIR compares
	BEFORE="$(BEFORE)" ONLY="$(ONLY)" $(BIN)/python -m benchmarks.wakeups

bench-ingest: venv servers ## Run the benchmark of ingest; needs 20 GB for its large file
	$(BIN)/python -m benchmarks.ingest

bench-http: venv ## Run the benchmark of the service
	$(BIN)/python -m benchmarks.http

bench-latency: venv servers ## Measure how long single calls take, in milliseconds
	$(BIN)/python -m benchmarks.latency

bench-history: venv servers ## Measure how many bytes of history a lock and a claim leave
	$(BIN)/python -m benchmarks.history_bytes

bench-ledger: venv servers ## Run the benchmark of the ledger; needs 25 GB for its ten million chunks
	$(BIN)/python -m benchmarks.ledger

bench-loop: venv servers ## Measure what a chunk costs through a loop of commands, in CPU
	$(BIN)/python -m benchmarks.loop

bench-queue: venv servers ## Run the benchmark of the queue
	$(BIN)/python -m benchmarks.queue
	$(BIN)/python -m benchmarks.queue_zookeeper

torture: venv servers $(OCFL_STAMP) ## Run the fault tests with full numbers; ONLY=partitions chooses, RESUME=1 goes on after a break
	HEADGATE_TORTURE=full HEADGATE_FIGURES=$(TORTURE_FIGURES) HEADGATE_RESUME=$(RESUME) \
		$(BIN)/pytest $(TORTURE) -k "$(ONLY)" -n $(TORTURE_WORKERS) --dist worksteal; \
		ran=$$?; $(BIN)/python tools/generate_docs.py; exit $$ran

wheel: venv $(AUDIT_STAMP) ## Build the wheel and its bill of materials (CycloneDX) in dist
	$(BIN)/python -m hatchling build -t wheel
	$(BIN)/python tools/sbom.py dist
	$(AUDIT_VENV)/bin/python tools/sbom.py --check dist/headgate-*.cdx.json

audit: $(AUDIT_STAMP) ## Look up known vulnerabilities of every package in the lock files; needs the network
	$(AUDIT_VENV)/bin/python tools/audit.py requirements-runtime.lock requirements.lock requirements-audit.lock

lock: $(BIN)/python ## Write the lock files again from pyproject.toml
	$(BIN)/python $(PIP_INSTALL) uv
	$(COMPILE) --upgrade --all-extras --group dev --output-file requirements.lock
	echo ocfl-py | $(BIN)/uv pip compile - --universal --python-version 3.11 --generate-hashes --no-header --quiet \
		--upgrade --output-file requirements-ocfl.lock
	printf 'pip-audit\ncyclonedx-python-lib[json-validation]\n' | $(BIN)/uv pip compile - --universal \
		--python-version 3.11 --generate-hashes --no-header --quiet --upgrade --output-file requirements-audit.lock
	$(COMPILE) --upgrade --extra all --group build --constraint requirements.lock \
		--output-file requirements-runtime.lock

clean: ## Remove .venv and everything that was generated
	rm -rf $(VENV) $(OCFL_VENV) $(AUDIT_VENV) headgate-example build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(RUNTIME_STAMP): | $(BIN)/python
	$(BIN)/python $(INSTALL_LOCKED) requirements-runtime.lock --no-compile
	$(INSTALL_PROJECT)
	rm -f $(VENV)/installed-runtime-*
	touch $@

# This holds all of the runtime's packages in the same versions, so it counts as that install too.
$(DEV_STAMP): | $(BIN)/python
	$(BIN)/python $(INSTALL_LOCKED) requirements.lock --no-compile
	$(INSTALL_PROJECT)
	rm -f $(VENV)/installed-dev-* $(VENV)/installed-runtime-*
	touch $@ $(RUNTIME_STAMP)

$(OCFL_STAMP):
	$(PYTHON) -m venv $(OCFL_VENV)
	$(OCFL_VENV)/bin/python $(INSTALL_LOCKED) requirements-ocfl.lock
	rm -f $(OCFL_VENV)/installed-*
	touch $@

$(AUDIT_STAMP):
	$(PYTHON) -m venv $(AUDIT_VENV)
	$(AUDIT_VENV)/bin/python $(INSTALL_LOCKED) requirements-audit.lock
	rm -f $(AUDIT_VENV)/installed-*
	touch $@
