# make test = set up and test; make demo = set up and train. PYTHON=/path/to/python uses that environment
# (build, format, sweep, bench) instead of making .venv.
SHELL := /bin/bash
VENV := .venv
SYSTEM_PYTHON ?= python3
PYTHON ?= $(VENV)/bin/python
N ?= 20000
FILES_CC = $(shell git ls-files '*.cc' '*.h')

.PHONY: test demo build ascend sweep tsan bench format clean prerequisites
.DELETE_ON_ERROR:

# Threads that wait do not spin: the tests run side by side on few processors.
TEST_ENV = OMP_WAIT_POLICY=passive PYTHONSAFEPATH=1
PYTEST_OPTIONS ?= -n 2 --dist loadscope --timeout 2400

test: prerequisites
	tools/make_venv.sh $(VENV) $(SYSTEM_PYTHON)
	$(TEST_ENV) $(VENV)/bin/pytest -q $(PYTEST_OPTIONS)

demo: prerequisites
	tools/make_venv.sh $(VENV) $(SYSTEM_PYTHON)
	rm -rf runs/make_demo
	$(VENV)/bin/python -m model_zoo_demo.train --out runs/make_demo

prerequisites:
	@tools/check_prerequisites.sh $(SYSTEM_PYTHON)

$(VENV)/bin/python: | prerequisites
	tools/make_venv.sh $(VENV) $(SYSTEM_PYTHON)

build: $(PYTHON)
	@mkdir -p build
	NSA_BUILD_DIR=build/dev flock build/.lock $(PYTHON) setup.py -q build_ext --inplace

# The operators' package for CANN (ASCEND_HOME_PATH); INSTALL_PATH=folder installs it too.
ascend: $(PYTHON)
	@$(PYTHON) tools/ascend_package.py --install-path "$(INSTALL_PATH)"

sweep: build
	$(PYTHON) -m tests.kernels.sweep $(N)

tsan: build
	$(PYTHON) -m tests.native.tsan

bench: build
	$(PYTHON) -m benchmarks

format: $(PYTHON)
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .
	$(dir $(PYTHON))clang-format -i $(FILES_CC)

clean:
	rm -rf build dist .venv .venv-ms271 *.egg-info mindspore_nsa/_native*.so \
	  mindspore_nsa/twin/*.so mindspore_nsa/twin/include
