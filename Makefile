# make setup   .venv with everlearn and everything its checks need
# make demo    the paper's strategies on real digits and on the synthetic mini50: a table and a page
# make test    every check: lint, types, imports, tests, doctests, coverage
# make soak    checks that take long: the demo as a newcomer sees it, sixty kills
# make bench   time and memory beside a plain loop and beside Avalanche, on an idle machine: docs/performance.md.
#              SIZES=tiny ROUNDS=5 BENCH='--without avalanche' OUT=.cache/bench for a trial

PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

STRATEGIES := naive,lwf,ewc,si,cwr,cwr+,ar1,cumulative
SIZES ?= cifarnet caffenet-128
ROUNDS ?= 5
THREADS ?= 2
BENCH ?=
OUT ?= docs/performance
DEMO := --strategies $(STRATEGIES) --runs 3 --jobs 2

.PHONY: setup demo test soak bench lint clean browser

setup: .venv/installed

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

.venv/prepared: .venv/installed src/everlearn/data/render.py src/everlearn/pretraining.py
	$(BIN)/everlearn data get mini50
	touch $@

demo: .venv/prepared
	$(BIN)/everlearn compare --benchmark digits $(DEMO) --out runs/demo/digits
	$(BIN)/everlearn compare --benchmark mini50 $(DEMO) --out runs/demo/mini50
	$(BIN)/everlearn report runs/demo

browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
		|| echo "No chromium: the tests of the page in a real browser will be skipped. Install it with: apt-get install chromium"

lint: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy --no-error-summary
	$(BIN)/lint-imports --no-logo

test: lint browser
	$(BIN)/pytest --numprocesses 2 --cov --cov-report term:skip-covered

soak: setup
	$(BIN)/pytest -m soak

.venv-avalanche/installed: benchmarks/avalanche.txt
	$(PYTHON) -m venv .venv-avalanche
	.venv-avalanche/bin/pip install --quiet --no-deps --requirement benchmarks/avalanche.txt
	touch $@

bench: setup $(if $(findstring --without avalanche,$(BENCH)),,.venv-avalanche/installed)
	for size in $(SIZES); do $(BIN)/python -m benchmarks.measure $$size --rounds $(ROUNDS) --threads $(THREADS) --out $(OUT) $(BENCH) || exit 1; done
	$(BIN)/python -m benchmarks.memory_kept --threads $(THREADS) --out $(OUT)
	$(BIN)/python -m benchmarks.folder --workers $(THREADS) --out $(OUT)
	$(BIN)/python -m benchmarks.long_stream --out $(OUT)
	$(BIN)/python -m benchmarks.start --out $(OUT)
	$(BIN)/python -m benchmarks.table docs/performance.md docs/performance

clean:
	rm -rf .venv .venv-avalanche .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
