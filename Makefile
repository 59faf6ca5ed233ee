# Two commands: `make run` and `make test`. Both do all set-up first, on any machine with Python >= 3.11 and git.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test check bench lock dictionary clean

run: $(READY)
	$(BIN)/almanac run

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist loadfile

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m warehouse.dictionary --check docs/dictionary.md

bench: $(READY)
	$(BIN)/python -m benchmarks

dictionary: $(READY)
	$(BIN)/python -m warehouse.dictionary --write docs/dictionary.md

# Needs uv; the lock names no index, and holds hashes for every platform.
lock:
	uv pip compile pyproject.toml --all-extras --universal --no-strip-extras --generate-hashes \
	  --no-emit-index-url --python-version 3.11 -q -o requirements.lock --custom-compile-command "make lock"

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; set PYTHON=…"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	# Start-up is several times slower without byte-code, which an environment may switch off.
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q assets pipelines sources warehouse
	touch $@

clean:
	rm -rf $(VENV) almanac-home build *.egg-info
