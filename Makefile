# make demo and make test set everything up by themselves; they need Python 3.11+, git and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all check bench clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all,dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/agentos demo

check: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/unit/test_import_directions.py

# Process tests start the command hundreds of times: compile what it loads once, before.
test: $(VENV)/.installed
	$(BIN)/python -m compileall -q agentos
	$(BIN)/pytest -q -n 5 --dist loadfile tests

# The long kill loops and everything else that takes minutes as well.
test-all: $(VENV)/.installed
	$(BIN)/pytest -q -n 2 --dist loadfile -m "slow or not slow" tests

bench: $(VENV)/.installed
	$(BIN)/python -m compileall -q agentos
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .demo .bench-venv
