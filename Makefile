# Two commands are enough: `make demo` and `make test`. Each makes .venv and installs what it needs, once.

PYTHON ?= python3
KERAS_BACKEND ?= jax
export KERAS_BACKEND
export TF_CPP_MIN_LOG_LEVEL ?= 3
# Workers and subprocesses of the tests start many Pythons, and each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
# Most of the time of the tests is XLA compiling small programs, which need not be fast themselves. The other backends
# start JAX too, to read their files.
QUICK_TO_COMPILE := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true \
	--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1
PYTEST := XLA_FLAGS="$(QUICK_TO_COMPILE)" $(BIN)/pytest -n auto --maxprocesses 4 --dist worksteal
DEV := .[dev]
DEMO := .[cli,plots]
EXPERIMENTS := ./experiments

.PHONY: help demo test lint test-torch test-tensorflow bench bench-peers clean
.DEFAULT_GOAL := help

help:
	@echo "make demo             train the toy and digit models, leave runs/demo/report.html"
	@echo "make test             lint, types, import rules, tests and doctests (JAX)"
	@echo "make lint             ruff, mypy and import-linter only"
	@echo "make test-torch       the backend tests on PyTorch"
	@echo "make test-tensorflow  the backend tests on TensorFlow"
	@echo "make bench            every benchmark in benchmarks/"
	@echo "make bench-peers      the same against other libraries, each in an environment of its own"
	@echo "make clean            remove .venv, .venvs, caches and build outputs (runs/ stays)"
	@echo "PYTHON=python3.12 make ... chooses the Python that makes .venv"

demo: $(STAMPS)/demo
	@$(BIN)/singularbayes demo

test: lint
	$(PYTEST)

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two workers with two threads each on two cores wait for each other.
test-torch: $(STAMPS)/torch
	KERAS_BACKEND=torch OMP_NUM_THREADS=1 $(PYTEST) -m backend

test-tensorflow: $(STAMPS)/tensorflow
	KERAS_BACKEND=tensorflow $(PYTEST) -m backend

bench: $(STAMPS)/dev
	@set -e; for script in benchmarks/bench_*.py; do echo "$$script"; $(BIN)/python "$$script"; done

bench-peers: $(STAMPS)/dev
	@set -e; for job in training_step prediction; do $(BIN)/python benchmarks/bench_$$job.py --peers; done

clean:
	rm -rf $(VENV) .venvs dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Set-up. A stamp is a finished installation. Failures end in $(error ...), so that make prints one line and no more;
# that is why the commands stand in $(shell ...), which `make -n` must skip.

dry := $(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS))))

# Both are empty when $(PYTHON) does not run.
found = $(shell $(PYTHON) -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)
new-enough = $(shell $(PYTHON) -c 'import sys; sys.version_info >= (3, 11) and print("yes")' 2>/dev/null)
check-python = $(if $(filter yes,$(new-enough)),,$(error Python 3.11 or newer is needed; found $(or $(found),none) as PYTHON=$(PYTHON)))

# $(call quietly,command,log) is "ok" when the command succeeds; its output goes to the log.
quietly = $(if $(dry),ok,$(shell mkdir -p $(STAMPS) && $1 >$2 2>&1 && echo ok))

# The package pip named as not to be had, else the one it was busy with.
blamed = $(shell awk '/distribution found for |[0-9] depends on |[Ff]ailed building wheel for / \
	{ gsub(/.*(found for|depends on|wheel for) |;.*/, ""); print $$1; named = 1; exit } \
	/^ *(Collecting|Obtaining|Processing) / { busy = $$2 } END { if (!named) print busy }' $1)

# $(call install,name,requirements). Python compiles what is imported, a small part of these packages; pip would compile all.
install = $(info Installing $1 into $(VENV); the first time takes some minutes)$(if $(call quietly, \
	$(BIN)/python -m pip install --no-compile --disable-pip-version-check $2 -c constraints.txt,$(STAMPS)/$1.log \
	),,$(error pip could not install $(call blamed,$(STAMPS)/$1.log); its log is $(STAMPS)/$1.log))

$(STAMPS)/venv:
	$(check-python)$(if $(call quietly,$(PYTHON) -m venv $(VENV),$(STAMPS)/venv.log),,$(error \
	Python's venv module is needed and failed (on Debian: apt install python3-venv); its log is $(STAMPS)/venv.log))
	@touch $@

$(STAMPS)/demo: $(STAMPS)/venv pyproject.toml constraints.txt
	$(call install,demo,-e "$(DEMO)")
	@touch $@

# dev includes what demo needs.
$(STAMPS)/dev: $(STAMPS)/venv pyproject.toml experiments/pyproject.toml constraints.txt
	$(call install,dev,-e "$(DEV)" -e "$(EXPERIMENTS)")
	@touch $(STAMPS)/demo $@

# KerasHub asks for TensorFlow Text, which only its preprocessing uses: alone it needs no more than these two.
$(STAMPS)/torch: $(STAMPS)/dev
	$(call install,torch,torch==2.13.0 onnxruntime onnxscript)
	$(call install,hub,--no-deps keras-hub regex tokenizers)
	@touch $@

$(STAMPS)/tensorflow: $(STAMPS)/dev
	$(call install,tensorflow,tensorflow-cpu onnxruntime tf2onnx)
	@touch $@
