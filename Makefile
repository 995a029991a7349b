# The commands for users and developers. `make help` lists them.

VENV := .venv
BIN := $(VENV)/bin
# the first that starts, is supported and can make an environment: pyenv has shims on the path that start nothing
IS_SUPPORTED := import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for one in $(BIN)/python python3.11 python3.12 python3.13 python3; do \
	$$one -c '$(IS_SUPPORTED)' 2>/dev/null && echo $$one && break; done)
# with its progress on a terminal; elsewhere, the lines of the recipes say what is done
UV := $(BIN)/uv $(shell [ -t 2 ] || echo --quiet)
export AIRFLOW_HOME ?= $(CURDIR)/.airflow
export PATH := $(CURDIR)/$(BIN):$(PATH)
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
# uv trusts whom the system trusts, as pip does: a company's registry has a company's certificate
export UV_SYSTEM_CERTS ?= 1

# compiled when it is installed, not by the first process, which would start a minute later
export UV_COMPILE_BYTECODE ?= 1
# processes start by the hundred, and without bytecode each would compile this package again, for a second or two
unexport PYTHONDONTWRITEBYTECODE
# what a target is asked for is nothing that its tests and workloads see
unexport NAME SHORT

# of each environment, in requirements/
LOCKS := requirements/requirements

# the frameworks of training programs, apart from Airflow
INTEGRATIONS := .venv-integrations

# the detectors of other projects, without what they require
PEERS := .venv-peers

# the modules of tests that are programs
AS_PROGRAM := PYTHONPATH=.:tests:packages/local-kube/tests:packages/local-kube/src python -m

# two of the processes of a test run wait for pods and servers; the others compute, and wait for the servers of their own
PROCESSES ?= 6
WAITING ?= 2

.DEFAULT_GOAL := help
.PHONY: help install install-dev home demo up test tests check changed-tests lint coverage campaign mutants matrix new-machine \
	kubernetes docs dist site release-tools bench lock clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

install: home ## the environment in .venv, with the command ml-metrics in it

install-dev: $(VENV)/.installed-dev home ## the same, and what the tests need

# no file of make: the path may have blanks, which a target cannot have
home: $(VENV)/.installed
	@python deploy/make_home.py

demo: install ## one test on this machine fails and recovers, in about two minutes
	@umask 077; ml-metrics demo

up: install ## Airflow with the dashboard on http://localhost:8080, or on the next port that is free
	@umask 077; python deploy/standalone.py

test: install-dev ## lint and all tests but campaigns, 8 minutes on two cores
	@$(MAKE) --no-print-directory -j2 lint tests

tests: install-dev
	@FILES_IN_MEMORY=1 python -m pytest -n $(PROCESSES) --waiting $(WAITING) --no-loadscope-reorder # the long DAG runs first, not last

check: install-dev ## lint, and the unit tests of what has changed since main; all of them if nothing has
	@$(MAKE) --no-print-directory -j2 lint changed-tests

changed-tests: install-dev
	@python -m pytest -q -n 2 --dist loadfile $$(python tests/changed.py)

lint: install-dev ## ruff, mypy and the floors
	@ruff format --check .
	@ruff check .
	@mypy
	@lint-imports --no-cache >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }

coverage: install-dev ## the share of each room's lines and branches that all tests but campaigns reach; for a night
	@rm -rf build/coverage && mkdir -p build/coverage
	@python -m coverage run -m pytest -q -n $(PROCESSES) --waiting $(WAITING) --no-loadscope-reorder
	@python -m coverage combine --quiet && python -m coverage html --quiet
	@for room in plugins/ml_metrics/*/__init__.py plugins/ml_metrics_telemetry/__init__.py; do \
		printf '%4s %%  %s\n' "$$(python -m coverage report --format=total --include="$${room%__init__.py}*")" "$${room%/*}"; done
	@echo "What no test reaches: build/coverage/pages/index.html"

mutants: install-dev ## break 200 places of the product, one at a time, and name those that no test notices; an hour or two
	@$(AS_PROGRAM) campaigns.mutants $(MUTANTS)

matrix: $(VENV)/.uv ## a whole test on each version of Airflow and Python that is supported, 10 minutes; SHORT=1 on two of them, 3
	@$(AS_PROGRAM) matrix.run $(if $(SHORT),--ci) $(CORNERS)

# played together, the matrix waits: what it downloads into the cache of uv would change what the new machine has
ifneq ($(and $(filter matrix,$(MAKECMDGOALS)),$(filter new-machine,$(MAKECMDGOALS))),)
matrix: | new-machine
endif

# the README's flow as a new user: another Python, a path with blanks, not root, port 8080 taken
new-machine: $(VENV)/.uv
	@$(AS_PROGRAM) new_machine

# NAME=kubernetes on a cluster of CI's own, from etcd to kubelet
kubernetes:
	@.ci/kubernetes

docs: install-dev ## make the pages and tables that describe commands, rooms and licences, and deploy/grafana
	@python docs/make_cli.py
	@python docs/make_rooms.py
	@python deploy/grafana/make.py
	@python -m release.licences

dist: install-dev release-tools ## wheels, source archives and bills of materials in dist/; DEV=1 builds what is not released
	@python -m release.dist $(if $(DEV),--dev)

site: install-dev release-tools ## the pages of docs/ as a site with search, in build/site
	@python -m release.site

release-tools: $(VENV)-release/.installed

bench: install-dev $(PEERS)/.installed ## measure, side by side with peers; NAME=detectors: the rules of docs/detectors.md alone
	@for bench in $(if $(NAME),,benchmarks/*.py); do echo "== $$bench"; python $$bench || exit 1; done
	@PYTHONPATH="$(PEERS)" python -m benchmarks.$(or $(NAME),detectors)

# what `make campaign NAME=...` plays; docs/contributing.md tells what each does, and how long it takes
C := campaigns
PLAY := python -m pytest -q
play-alerts := CAMPAIGN=1 $(PLAY) $C/test_alerts.py
play-ends := ML_METRICS_ENDS=$${ML_METRICS_ENDS:-2} ML_METRICS_HOSTS=$${ML_METRICS_HOSTS:-64} $(PLAY) -s \
	$C/ends $C/whole_runs/test_job_sets.py $C/whole_runs/test_truthful_ends.py
play-events := CAMPAIGN=1 EVENT_FUZZ_SECONDS=$${EVENT_FUZZ_SECONDS:-600} $(PLAY) -s $C/test_events.py
play-experiments := ML_METRICS_COMMITS=$${ML_METRICS_COMMITS:-200} ML_METRICS_SLEEP_PERCENT=$${ML_METRICS_SLEEP_PERCENT:-3} \
	$(PLAY) -s $C/test_experiments.py $C/test_small_change.py
play-faults := ML_METRICS_FAULTS=$${ML_METRICS_FAULTS:-100} $(PLAY) -s $C/test_faults.py
play-faults-on-kubernetes := ML_METRICS_TEST_KUBERNETES=1 ML_METRICS_FAULTS_ON_KUBERNETES=$${ML_METRICS_FAULTS_ON_KUBERNETES:-12} \
	$(PLAY) -s $C/kubernetes/test_planned_faults.py
play-fleet := $(AS_PROGRAM) campaigns.fleet --page
play-fleet-full := $(AS_PROGRAM) campaigns.fleet --full --page
play-goodput := GOODPUT_TRACES=$${GOODPUT_TRACES:-5000} $(PLAY) $C/test_goodput.py
play-hostile := ML_METRICS_HOSTILE_VARIANTS=$${ML_METRICS_HOSTILE_VARIANTS:-1000} $(PLAY) $C/hostile
play-integrations := ML_METRICS_INTEGRATIONS_PYTHON="$$PWD/$(INTEGRATIONS)/bin/python" $(PLAY) tests/integrations
play-kills := ML_METRICS_KILLS=$${ML_METRICS_KILLS:-20} ML_METRICS_OUTAGE_SECONDS=60 $(PLAY) -s \
	$C/test_kills.py $C/one_airflow/test_killed_tasks.py $C/test_outages.py
play-kubernetes := ML_METRICS_TEST_KUBERNETES=1 $(PLAY) $C/kubernetes
play-kubernetes-executor := ML_METRICS_TEST_EXECUTOR=1 $(PLAY) $C/kubernetes/test_executor.py
play-local-cluster := $(PLAY) packages/local-kube/tests
play-machines := ML_METRICS_MACHINES=$${ML_METRICS_MACHINES:-100} $(PLAY) -s $C/machines
play-messages := ML_METRICS_MESSAGES_RUNS=$${ML_METRICS_MESSAGES_RUNS:-12} ML_METRICS_MESSAGES_WAVES=$${ML_METRICS_MESSAGES_WAVES:-4} \
	ML_METRICS_MESSAGES_AIRFLOW_RUNS=$${ML_METRICS_MESSAGES_AIRFLOW_RUNS:-30} $(PLAY) -s $C/messages
play-pages := $(PLAY) $C/pages
play-pods := ML_METRICS_PODS=$${ML_METRICS_PODS:-50} $(PLAY) -s $C/test_pods.py $C/test_late_scheduler.py
play-releases := CAMPAIGN=1 $(PLAY) -s $C/releases
play-whole-runs := $(PLAY) $C/whole_runs
play-warehouse := CAMPAIGN=1 $(PLAY) -s $C/test_warehouse.py -k whole_campaign

# the same with SHORT=1, for minutes: its files with these values; what only the whole can show is left out
SHORT_FORM := CAMPAIGN=1 CAMPAIGN_ROUNDS=20 EVENT_FUZZ_SECONDS=30 GOODPUT_TRACES=400 ML_METRICS_PODS=12 \
	ML_METRICS_KILLS=1 ML_METRICS_KILLS_SHORT=1 ML_METRICS_OUTAGE_SECONDS=10 ML_METRICS_FAULTS=3 ML_METRICS_FAULTS_SHORT=1 ML_METRICS_ENDS=1 ML_METRICS_ENDS_SHORT=1 \
	ML_METRICS_MACHINES_SHORT=1 ML_METRICS_MACHINES_SPEED=16 ML_METRICS_HOSTILE_VARIANTS=8 \
	ML_METRICS_MESSAGES_RUNS=2 ML_METRICS_MESSAGES_FAULT=30 ML_METRICS_MESSAGES_ONLY='^(?!BigQuery)' $(PLAY)
LONG := ends/test_hosts.py hostile/night hostile/test_api_server.py kubernetes releases test_experiments.py test_small_change.py
WITHOUT := $(LONG:%=--ignore $C/%)
# bounds of time hold where nothing else computes
BOUNDED := $C/hostile/test_files.py
short-all := $(SHORT_FORM) $(BOUNDED) && \
	$(SHORT_FORM) -n 4 --dist loadfile --no-loadscope-reorder $(WITHOUT) --ignore $(BOUNDED) $C packages/local-kube/tests
short-fleet := $(AS_PROGRAM) campaigns.fleet --short
short-kubernetes := $(play-kubernetes)
short-kubernetes-executor := ML_METRICS_EXECUTOR_SHORT=1 $(play-kubernetes-executor) -k "failing or worker-killed"
files = $(filter-out $(LONG:%=$C/%),$(filter $C/%,$(play-$1)))
short = $(or $(short-$1),$(and $(files),$(SHORT_FORM) $(WITHOUT) $(files)))

NAMES := $(sort $(patsubst play-%,%,$(filter play-%,$(.VARIABLES))))
SHORT_NAMES := all $(strip $(foreach one,$(NAMES),$(if $(call short,$(one)),$(one))))
needs-integrations := $(INTEGRATIONS)/.installed
campaign-command := $(if $(SHORT),$(call short,$(NAME)),$(play-$(NAME)))
campaign: $(and $(campaign-command),install-dev $(needs-$(NAME))) ## a campaign of faults: NAME=messages, for example; SHORT=1: its short form; NAME=all SHORT=1: that of each, 30 minutes
	@$(or $(campaign-command),$(error NAME is one of $(NAMES); with SHORT=1, one of $(SHORT_NAMES)))

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url --generate-hashes
lock: $(VENV)/.uv ## pin everything that requirements.txt and requirements/*.txt ask for, with hashes
	$(COMPILE) requirements.txt -o $(LOCKS).lock
	cd requirements && $(COMPILE) requirements-uv.txt -o requirements-uv.lock
	cd requirements && $(COMPILE) -c requirements.lock requirements-dev.txt -o requirements-dev.lock
	cd requirements && $(COMPILE) -c requirements.lock requirements-celery.txt -o requirements-celery.lock
	cd requirements && $(COMPILE) -c requirements.lock requirements-compose.txt -o requirements-compose.lock
	cd requirements && $(COMPILE) --no-deps requirements-detectors.txt -o requirements-detectors.lock
	cd requirements && $(COMPILE) requirements-release.txt -o requirements-release.lock
	cd requirements && $(COMPILE) --no-emit-package torch requirements-integrations.txt -o requirements-integrations.lock

clean: ## remove the environment and everything that runs left behind
	-@[ -x $(BIN)/ml-metrics ] && ml-metrics cluster stop
	rm -rf $(VENV) $(INTEGRATIONS) $(PEERS) $(VENV)-release build dist .airflow .mypy_cache .ruff_cache .pytest_cache .hypothesis

TRIED := python3.11, python3.12, python3.13 and python3 on the path
NEW_VENV = python='$(PYTHON)'; [ -n "$$python" ] && "$$python" -c '$(IS_SUPPORTED)' 2>/dev/null \
	|| { echo "Python 3.11, 3.12 or 3.13 is needed, with its modules venv and ensurepip (tried: $${python:-$(TRIED)}):" \
		"install one, or name it: make install PYTHON=/path/to/python3.12" >&2; exit 1; }; "$$python" -m venv

# an environment keeps its Python, or begins anew: one of two versions would have the packages of neither
$(VENV)/.uv: $(LOCKS)-uv.lock
	@$(NEW_VENV) $$([ "$$python" = $(BIN)/python ] || echo --clear) $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(VENV)/.installed: $(VENV)/.uv $(LOCKS).lock pyproject.toml setup.py packages/local-kube/pyproject.toml packages/telemetry/pyproject.toml
	@echo "Installing the packages of $(LOCKS).lock into $(VENV): $$(grep -c '==' $(LOCKS).lock) packages, 1.6 GB, once ..."
	@UV_COMPILE_BYTECODE=0 $(UV) pip install --require-hashes -r $(LOCKS).lock
	@$(UV) pip uninstall --quiet ml-metrics 2>/dev/null || true # what this project was named
	@UV_COMPILE_BYTECODE=0 $(UV) pip install --no-deps --no-build-isolation -e . -e packages/local-kube -e packages/telemetry # setuptools is in the lock
	@echo "Compiling them ..."
	@$(UV) pip install --require-hashes -r $(LOCKS).lock
	@$(BIN)/python -m compileall -q plugins packages/local-kube/src
	@touch $@

$(INTEGRATIONS)/.installed: $(LOCKS)-integrations.lock $(LOCKS)-integrations-torch.lock
	@$(NEW_VENV) --clear $(INTEGRATIONS)
	@$(INTEGRATIONS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes $(^:%=-r %)
	@touch $@

$(PEERS)/.installed: $(VENV)/.uv $(LOCKS)-detectors.lock
	@$(UV) pip install --target $(PEERS) --no-deps --require-hashes -r $(LOCKS)-detectors.lock
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed $(LOCKS)-dev.lock
	@echo "Installing what the tests need ..."
	@$(UV) pip install --require-hashes -r $(LOCKS)-dev.lock
	@touch $@

$(VENV)-release/.installed: $(VENV)/.uv $(LOCKS)-release.lock
	@echo "Installing what releases need ..."
	@$(NEW_VENV) --clear $(VENV)-release
	@$(UV) pip install --python $(VENV)-release/bin/python --require-hashes -r $(LOCKS)-release.lock
	@touch $@
