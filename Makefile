# make demo and make test set everything up by themselves; they need Python 3.11+, git and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow test-all test-browser test-cluster check wheel docs pins bench clean

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) tools/setup_environment.py $(VENV)
	@touch $@

demo: $(VENV)/.installed
	@$(BIN)/agentos demo

# What .pre-commit-config.yaml runs before every commit.
check: $(VENV)/.installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/unit/test_import_directions.py

# Five processes would each do it for themselves: rewrite the tests' assertions as pytest does.
$(VENV)/.rewritten: $(VENV)/.installed $(shell find tests -name '*.py')
	@unset PYTHONDONTWRITEBYTECODE; \
	$(BIN)/pytest -q --collect-only tests/unit > /dev/null & \
	$(BIN)/pytest -q --collect-only --ignore tests/unit tests > /dev/null; wait
	@touch $@

# Process tests start the command hundreds of times: compile what it loads once, before.
test: $(VENV)/.rewritten
	$(BIN)/python -m compileall -q agentos
	$(BIN)/pytest -q -n 5 --dist loadfile --no-loadscope-reorder tests

# The long kill loops and everything else that takes minutes.
test-slow: $(VENV)/.installed
	$(BIN)/pytest -q -n 3 --dist loadfile -m "slow and not live" tests

test-all: test test-slow

# The page in a real Chromium. Where there is none, it says so and how to get it.
test-browser: $(VENV)/.installed
	@.ci/with-browser

# With a real PostgreSQL, which a wheel brings, and a real Ray cluster of several machines in namespaces.
test-cluster: $(VENV)/.installed
	.ci/with-cluster

# dist/*.whl, and proof that it works where nothing else is installed.
wheel: $(VENV)/.installed
	rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) tools/try_wheel.py dist

# Pages that are written from the code: the reference of commands and the file inventory.
docs: $(VENV)/.installed
	$(BIN)/python -m agentos.cli.reference > docs/reference/commands.md.new
	mv docs/reference/commands.md.new docs/reference/commands.md
	$(BIN)/python -m tools.reply_table
	$(BIN)/python -m tools.file_inventory

# The newest releases that pyproject.toml allows: run make test with them before they are committed.
pins:
	rm -rf build/pins && $(PYTHON) -m venv build/pins
	build/pins/bin/python -m pip install --quiet '.[all,dev]'
	grep '^#' constraints.txt > build/constraints.txt
	build/pins/bin/python -m pip freeze --exclude agentos-workflows >> build/constraints.txt
	mv build/constraints.txt constraints.txt

bench: $(VENV)/.installed
	$(BIN)/python -m compileall -q agentos
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .demo .bench-venv build dist
