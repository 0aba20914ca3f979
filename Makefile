# Every target is a line or two; `make` alone lists them. The logic is in book/linattn_book/builders.
PYTHON ?= python3
OUT ?= build
MINUTES ?= 60
BENCH ?= kernels
STUDY ?= reduced
BIN := .venv/bin
ROOMS := PYTHONPATH=.:kernels:study:benchmarks:book:$(PYTHONPATH)
SOURCES := linattn_ref kernels study benchmarks exercises book/linattn_book tests chapters setup.py
PAGES := _config.yml $(wildcard book/* book/linattn_book/builders/*.py book/_static/* chapters/*.ipynb exercises/*/*_exercises.ipynb)
PYTEST := $(BIN)/python -m pytest tests
define PAGES_TEST
$(BIN)/python -m linattn_book.builders.verify
$(MAKE) _build/.ok
$(BIN)/python -m pytest tests/book/test_pages.py -m browser -n 2
endef
BUILD := $(BIN)/jupyter-book build . --toc book/_toc.yml -W -n --keep-going

.DEFAULT_GOAL := help
.PHONY: help venv check format lint test execute exercises book test-all bench test-compile test-gpu study clean repository

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: .venv/.ok  ## build .venv with the pinned set; TORCH_INDEX=https://... chooses a CPU-only torch
.venv/.ok: pyproject.toml setup.py constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed, this is %s; choose one with make PYTHON=..." % sys.version.split()[0])'
	rm -rf *.egg-info && $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -e ".[book,test]" -c constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))
	@touch $@

check: lint  ## under two minutes, before each commit: lint, a sample of the tests, one notebook
	$(BIN)/python -m pytest -m check
	$(BIN)/python -m linattn_book.builders.verify --sample

format: .venv/.ok  ## bring code and notebooks into the shape that lint expects
	$(BIN)/ruff check -q --fix $(SOURCES); $(BIN)/ruff format $(SOURCES)

lint: .venv/.ok  ## style, types, layering, and what is stamped or generated
	$(BIN)/ruff check $(SOURCES) && $(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy && $(BIN)/lint-imports
	$(BIN)/python -m linattn_book.builders.repository --check && $(BIN)/python -m linattn_book.builders.status --check
	$(BIN)/python -m linattn_book.builders.models --check && $(BIN)/python -m linattn_book.builders.index --check && $(BIN)/python -m linattn_book.builders.social --check && $(BIN)/python -m linattn_book.builders.disagreements --check && $(BIN)/python -m linattn_book.builders.kernels --check
	$(BIN)/python -m linattn_book.builders.exercises --check

test: .venv/.ok  ## the first tier: tests, every notebook from the wheel in an empty folder, pages in a browser
	@$(BIN)/python -m linattn_book.builders.browser
	$(PYTEST) -m "not browser and not slow and not alone and not other_gpus and not gpu" -n 2 --dist loadgroup
	$(PAGES_TEST)

test-all: .venv/.ok  ## both tiers, as continuous integration runs them
	@$(BIN)/python -m linattn_book.builders.browser
	$(PYTEST) -m "not browser and not alone and not other_gpus and not gpu" -n 2 --dist loadgroup
	$(PYTEST) -m "alone"
	$(PYTEST) -m "other_gpus" -n 2
	$(PAGES_TEST)

execute: .venv/.ok  ## run the notebooks and store their outputs; NOTEBOOKS="chapters/01_....ipynb" chooses some
	$(BIN)/python -m linattn_book.builders.execute $(NOTEBOOKS)
	$(BIN)/python -m linattn_book.builders.status

exercises: .venv/.ok  ## notebooks, checks and pages from the masters in exercises/
	$(BIN)/python -m linattn_book.builders.exercises

book:  ## build the pages anew and serve them on a free port; SERVE=0 builds only
	@rm -rf _build
	$(MAKE) _build/.ok
	$(if $(filter 0,$(SERVE)),,$(BIN)/python -u -m http.server 0 --bind 127.0.0.1 --directory _build/html)

_build/.ok: .venv/.ok $(PAGES)
	rm -rf _build && $(BUILD) && touch $@

bench:  ## measure BENCH=kernels (or other tables) on a GPU, with its own PYTHON and torch; OUT=DIR MINUTES=9
	$(ROOMS) $(PYTHON) -m linattn_benchmarks $(BENCH) --out $(OUT)/bench --minutes $(MINUTES)

test-compile: .venv/.ok  ## compile the kernels for the GPUs that are not Hopper's; needs none
	$(BIN)/python -m pytest tests/kernels -m other_gpus -n 2

test-gpu:  ## on a GPU, with its own PYTHON and torch: the ladder for the kernels, and what exercises take a GPU for; OUT=DIR takes the report
	$(ROOMS) LINATTN_CHECK_SHAPES=0 OMP_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=1 $(PYTHON) -m pytest tests/kernels/test_gpu_ladder.py -m gpu -W default -p tests.kernels.ladder_report --ladder-out $(OUT)/ladder -n auto --maxprocesses 14 --dist loadgroup --durations 5
	mkdir -p $(OUT)/rooms && ln -sfn $(CURDIR)/exercises $(OUT)/rooms/linattn_exercises
	$(ROOMS):$(OUT)/rooms LINATTN_CHECK_SHAPES=0 $(PYTHON) -m pytest tests/exercises/test_gpu_operations.py -m gpu -W default -p no:cacheprovider

study:  ## train the models of a study on all GPUs, with its own PYTHON and torch; STUDY=reduced OUT=DIR MINUTES=60
	$(ROOMS) $(PYTHON) -m linattn_study $(STUDY) --out $(OUT)/$(STUDY) --minutes $(MINUTES)

clean:  ## remove everything built, except .venv
	rm -rf _build build dist .venv-wheel .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

repository: .venv/.ok  ## stamp the address into chapters and pages; URL=https://github.com/owner/name sets a new one
	$(BIN)/python -m linattn_book.builders.repository --set $(URL) && $(BIN)/python -m linattn_book.builders.exercises
