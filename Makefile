# Everything runs in .venv; nothing outside it is installed or upgraded.
PYTHON := $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL_INPUTS := pyproject.toml constraints.txt

.PHONY: demo test docs gallery coverage bench clean

demo: $(VENV)/.installed
	$(BIN)/gradine demo

# One thread for linear algebra, ours and PyTorch's: the products in tests are small, and threads
# that wait for each other on a busy machine cost more than they bring. Three tests run at a time:
# many wait for a process or a browser.
# Compiled modules are kept whatever the surroundings say: tests start many processes.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.installed-test
	sh scripts/ensure-browser.sh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BUILD_DOCS)
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist worksteal

# Lines and branches that tests reach, file by file; `make coverage TESTS=tests/sculpt` for a part.
coverage: $(VENV)/.installed-test
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal \
		--cov --cov-report=term $(TESTS)

# The site, in site/. Warnings are errors, and so is a link that leads nowhere.
BUILD_DOCS = OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
	$(BIN)/python -m sphinx -q -W --keep-going -n -c docs -b html . site

docs: $(VENV)/.installed-docs
	$(BUILD_DOCS)
	@echo "site/index.html"

# The same with every example run, those that take half a minute and the weights of a model too.
gallery: $(VENV)/.installed-test
	GRADINE_WHOLE_GALLERY=1 $(BUILD_DOCS)

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.theorem
	$(BIN)/python -m benchmarks.exact

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .coverage .coverage.* site docs/gallery docs/reference

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The demo runs what a user would install. Where `make test` or `make bench` has put an editable
# install, that one serves: replacing it would leave the tests with a stale copy.
EDITABLE := $(wildcard $(VENV)/.installed-test $(VENV)/.installed-docs $(VENV)/.installed-bench)
$(VENV)/.installed: $(INSTALL_INPUTS) $(EDITABLE) $(shell find src -name '*.py' -o -name '*.js') | $(BIN)/python
	$(if $(EDITABLE),,$(PIP) install --quiet -c constraints.txt .)
	touch $@

# Editable: sources are used in place, so only new requirements call for another install. pip
# compiles on one core, which takes as long as all the rest of the installation: here on all.
# A file that does not compile is no concern of ours before it is imported.
$(VENV)/.installed-test: $(INSTALL_INPUTS) | $(BIN)/python
	$(PIP) install --quiet --no-compile -c constraints.txt -e ".[test,docs]"
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	touch $@

$(VENV)/.installed-docs: $(INSTALL_INPUTS) | $(BIN)/python
	$(if $(wildcard $(VENV)/.installed-test),,$(PIP) install --quiet -c constraints.txt -e ".[docs]")
	touch $@

$(VENV)/.installed-bench: $(INSTALL_INPUTS) | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e ".[bench]"
	touch $@
