# Every target makes what it needs from a bare Python 3.11 or newer: no step by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --durations 25
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test-autodiff test-browser test test-all test-cluster test-gpu test-gpu-cpu test-ledger test-matrix check-estimators lint package audit bench bench-accuracy prediction figures docs clean

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("dpconvex needs Python 3.11 or newer: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

$(VENV)/.ready: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/dpconvex demo

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint docs
	$(PYTEST) -m 'not heavy and not cluster'

# With the tests marked heavy: the full size of what `make test` runs a slice of.
test-all: lint docs
	$(PYTEST) -m 'not cluster'

# Clusters of real processes: Dask, and Spark where Java is there.
test-cluster: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable '.[dev,spark]'
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m cluster tests/cluster

# The ledger, PostgreSQL included: says what is missing, and how to get it.
test-ledger: $(VENV)/.ready
	$(BIN)/python benchmarks/servers.py
	$(PYTEST) tests/ledger tests/cli/test_ledger.py tests/theorems/test_filters.py src/dpconvex/ledger

# The estimators against every scikit-learn they promise to work with.
test-matrix: $(addprefix .matrix/,1.6 1.7 1.8 1.9)

.matrix/%: pyproject.toml
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --editable '.[matrix]' 'scikit-learn==$*.*'
	OMP_NUM_THREADS=1 $@/bin/python -m pytest tests/estimators src/dpconvex/estimators
	touch $@

# Losses from automatic differentiation, with PyTorch and JAX.
test-autodiff: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable '.[torch,jax]'
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/problem/test_torch.py tests/problem/test_jax.py

# Sums over tensors, with PyTorch on this computer's processors.
test-gpu-cpu: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable '.[gpu]'
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/gpu tests/sums/test_tensors.py

# The same and the kernels, on a CUDA device.
test-gpu: test-gpu-cpu
	$(BIN)/python -c 'import sys, torch; sys.exit(0 if torch.cuda.is_available() else "test-gpu needs a CUDA device")'
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/gpu/test_device.py

# The sdist, the wheel from it, and a private fit from the wheel in an environment that holds nothing else.
package: $(VENV)/.ready
	$(BIN)/python benchmarks/package.py

# The studio in headless Chromium (Debian: apt-get install chromium chromium-driver), with axe-core from npm.
test-browser: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --editable '.[dev,browser]'
	npm install --silent --no-save --no-fund --no-audit --prefix .browser axe-core lighthouse
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/studio tests/docs/test_site.py

# scikit-learn's own checks of every estimator over 50 seeds of the noise.
check-estimators: $(VENV)/.ready
	DPCONVEX_SEEDS=50 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 tests/estimators/test_check_estimator.py

audit: $(VENV)/.ready
	OMP_NUM_THREADS=1 $(BIN)/python -m dpconvex.audit --docs docs

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/speed.py --dtype float32
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/ledger.py --interleavings 100 --statements --speed
	$(BIN)/python benchmarks/overspend.py
	$(BIN)/python benchmarks/synthetic.py
	$(BIN)/python benchmarks/sco.py
	$(BIN)/python benchmarks/phased_erm.py
	$(BIN)/python benchmarks/private_ftrl.py
	$(BIN)/python benchmarks/private_ftrl.py --speed
	$(BIN)/python benchmarks/heavy_tails.py compare --runs 4
	$(BIN)/python benchmarks/heavy_tails.py rates --runs 4 --largest 16000
	$(BIN)/python benchmarks/clinic.py
	$(BIN)/python benchmarks/selection_price.py
	$(BIN)/python benchmarks/lazy.py --rounds 2000 --switches 100 --seeds 5
	$(BIN)/python benchmarks/geometry.py sparse
	$(BIN)/python benchmarks/geometry.py rates --most 100000

bench-accuracy: $(VENV)/.ready
	$(BIN)/python benchmarks/accuracy.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/family.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/fit_time.py $(if $(DATA),--data $(DATA))

# The constants and the picture behind `recommend`, from real data (DATA: the folder).
prediction: $(VENV)/.ready
	$(BIN)/python benchmarks/prediction.py --data $(DATA) --write

figures: $(VENV)/.ready
	$(BIN)/python benchmarks/figures.py

docs: $(VENV)/.ready
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/links.py docs/_build/html

clean:
	rm -rf $(VENV) .matrix .browser docs/_build demo .hypothesis
