# `make demo` and `make test` are enough: each makes .venv and installs what it needs, once.

PYTHON ?= python3
export KERAS_BACKEND ?= jax
export TF_CPP_MIN_LOG_LEVEL ?= 3
unexport PYTHONDONTWRITEBYTECODE # the tests start many Pythons, and each would compile the package again

BIN := .venv/bin
# pip would compile every file to bytecode; Python compiles the few that are imported.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
# Most of the time of the tests is XLA compiling small programs, which need not be fast themselves; and workers with
# several threads each would wait for each other.
PYTEST := XLA_FLAGS="--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true \
	--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1" \
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal

.PHONY: help demo test lint test-torch test-tensorflow test-all docs bench bench-peers clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' Makefile
	@echo "PYTHON=python3.12 make ... chooses the Python that makes .venv"

demo: .venv/demo ## train small models, leave runs/demo/report.html
	@PYTHONPATH=examples $(BIN)/python -m demo

test: .venv/dev ## lint, then tests and doctests on JAX
	@$(BIN)/pytest --collect-only --quiet > /dev/null 2>&1 & # on the other core: bytecode for the workers to read
	@$(MAKE) lint
	$(PYTEST)

lint: .venv/dev ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-torch: .venv/torch ## the tests marked backend, on PyTorch
	KERAS_BACKEND=torch $(PYTEST) -m backend

test-tensorflow: .venv/tensorflow ## the tests marked backend, on TensorFlow
	KERAS_BACKEND=tensorflow $(PYTEST) -m backend

test-all: test test-torch test-tensorflow ## all of these, and the exhaustive tests: every posterior × layer and problem × method
	KERAS_BACKEND=jax $(PYTEST) -m exhaustive
	for backend in torch tensorflow; do KERAS_BACKEND=$$backend $(PYTEST) -m "exhaustive and backend" || exit 1; done

docs: .venv/dev ## the documentation as a site in site/, without the network; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html"

bench: .venv/dev ## every row of the benchmarks on JAX; with AGAINST=COMMIT fails where the tree is slower than the commit
	$(BIN)/python benchmarks/gate.py $(if $(AGAINST),--against $(AGAINST))

bench-peers: .venv/dev ## training and prediction against other libraries, each in an environment of its own
	$(BIN)/python benchmarks/other_libraries.py

clean: ## remove environments, caches and builds; runs/ stays
	rm -rf .venv .venvs dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

FOUND = $(shell ($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])') 2>/dev/null)

# Each file stands for a finished installation.
.venv/python:
	$(if $(filter-out 2.% 3.0 3.1 3.2 3.3 3.4 3.5 3.6 3.7 3.8 3.9 3.10,$(FOUND)),,$(error \
		Python 3.11 or newer is needed; found $(or $(FOUND),none) as PYTHON=$(PYTHON)))
	@$(PYTHON) -m venv .venv && touch $@

.venv/demo .venv/dev: .venv/python pyproject.toml experiments/pyproject.toml constraints.txt
	@echo "Installing into .venv; the first time takes some minutes"
	@$(INSTALL) $(if $(filter %/dev,$@),-e ".[dev]" -e ./experiments,-e ".[plots]" jinja2) && touch $@

.venv/torch: .venv/dev # KerasHub requires TensorFlow Text, which only its preprocessing uses: hence --no-deps
	@$(INSTALL) torch onnxruntime onnxscript && $(INSTALL) --no-deps keras-hub regex tokenizers safetensors sentencepiece \
		&& touch $@

.venv/tensorflow: .venv/dev
	@$(INSTALL) tensorflow-cpu onnxruntime tf2onnx && touch $@
