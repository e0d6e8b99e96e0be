# Two commands: `make autotune` and `make test`. Everything lives in .venv.
# Where the system Python already has torch (the vendors' containers), .venv is made on top of it and torch is left alone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BUDGET ?= 5m
HAS_TORCH := $(shell $(PYTHON) -c 'import importlib.util as u; print(int(u.find_spec("torch") is not None))' 2>/dev/null)

.PHONY: autotune test test-fast check format docs perf peers cluster cluster-buckets cluster-tuner clean

ifeq ($(HAS_TORCH),1)
VENV_FLAGS := --system-site-packages
EXTRAS_RUN := .
EXTRAS_TEST := .[jax,test,peers]
CONSTRAINTS :=
else
VENV_FLAGS :=
EXTRAS_RUN := .[torch]
EXTRAS_TEST := .[torch,jax,test,peers]
CONSTRAINTS := -c constraints.txt
endif

$(BIN)/python:
	$(PYTHON) -m venv $(VENV_FLAGS) $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet $(CONSTRAINTS) -e '$(EXTRAS_RUN)'
ifeq ($(HAS_TORCH),1)
	$(BIN)/python -c 'import tokenizers' 2>/dev/null || $(BIN)/python -m pip install --quiet tokenizers
endif
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet $(CONSTRAINTS) -e '$(EXTRAS_TEST)'
	touch $@

autotune: $(VENV)/.run
	$(BIN)/mi300bench autotune zaya1 --budget $(BUDGET)

# What asserts on times needs the machine to itself (marker `alone`); the rest shares the cores.
test: $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m "not alone" tests
	$(BIN)/python -m pytest -m alone tests

# Under a minute on two cores: what needs no process of its own for long, and no machine to itself.
test-fast: $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m "not alone and not slow" tests

check: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	tests/contracts/bare-wheel.sh $(PYTHON)

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.test
	$(BIN)/python -m tests.contracts.cli_reference > docs/reference/cli.md

perf: $(VENV)/.test
	$(BIN)/python -m pytest tests/perf --benchmark-enable

peers: $(VENV)/.test
	$(BIN)/python -m tests.peers.memory
	$(BIN)/python -m tests.peers.gemm
	$(BIN)/python -m tests.peers.gemm_search
	$(BIN)/python -m tests.peers.gemm_fit
	$(BIN)/python -m tests.peers.memory_model
	$(BIN)/python -m tests.peers.lora_speed

cluster: $(VENV)/.test
	$(BIN)/python -m tests.cluster.links
	$(BIN)/python -m tests.cluster.exchange
	$(BIN)/python -m tests.cluster.slurm

cluster-buckets: $(VENV)/.test
	$(BIN)/python -m tests.cluster.buckets

cluster-tuner: $(VENV)/.test
	$(BIN)/python -m tests.cluster.tuner

clean:
	rm -rf $(VENV) build dist
