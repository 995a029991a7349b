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

# of each environment, in requirements/
LOCKS := requirements/requirements

# the frameworks of training programs, apart from Airflow
INTEGRATIONS := .venv-integrations

# the modules of tests that are programs
AS_PROGRAM := PYTHONPATH=tests:packages/local-kube/tests:packages/local-kube/src python -m

# three of the processes of a test run wait for pods and servers, and two compute
PROCESSES ?= 5
WAITING ?= 3

.DEFAULT_GOAL := help
.PHONY: help install install-dev home demo up test tests check changed-tests mutants test-integrations \
	test-kubernetes ci-kubernetes new-machine matrix matrix-ci lint docs bench lock vega clean \
	campaigns-short campaign-alerts campaign-ends campaign-events campaign-experiments campaign-goodput campaign-hostile \
	campaign-kills campaign-kubernetes-executor campaign-kubernetes-executor-short campaign-machines campaign-messages \
	campaign-pods campaign-releases campaign-warehouse \
	fleet fleet-full fleet-short

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

test: install-dev ## every check and every test, 20 to 30 minutes on two cores
	@$(MAKE) --no-print-directory -j2 lint tests

tests: install-dev
	@python -m pytest -n $(PROCESSES) --waiting $(WAITING) --no-loadscope-reorder # the long DAG runs first, not last

check: install-dev ## lint, and the unit tests of what has changed since main; all of them if nothing has
	@$(MAKE) --no-print-directory -j2 lint changed-tests

changed-tests: install-dev
	@python -m pytest -q -n 2 --dist loadfile $$(python tests/changed.py)

mutants: install-dev ## break 200 places of the product, one at a time, and name those that no test notices; an hour or two
	@$(AS_PROGRAM) campaigns.mutants $(MUTANTS)

test-kubernetes: install-dev ## the Kubernetes suite, against the cluster that KUBECONFIG names
	@ML_METRICS_TEST_KUBERNETES=1 python -m pytest -q tests/campaigns/kubernetes

ci-kubernetes: ## the same on a cluster of CI's own, from etcd to kubelet
	@.ci/kubernetes

matrix: $(VENV)/.uv ## a whole test on each version of Airflow and Python that is supported, 10 minutes
	@$(AS_PROGRAM) matrix.run $(CORNERS)

new-machine: $(VENV)/.uv ## the README's flow as a new user: another Python, a path with blanks, not root, port 8080 taken; 5 minutes
	@$(AS_PROGRAM) new_machine

matrix-ci: $(VENV)/.uv ## the same on the oldest and the newest versions only, 3 minutes
	@$(AS_PROGRAM) matrix.run --ci

test-integrations: install-dev $(INTEGRATIONS)/.installed ## telemetry in JAX, Keras, Lightning, ... on CPU; a minute, after an installation of 2 GB
	@ML_METRICS_INTEGRATIONS_PYTHON="$$PWD/$(INTEGRATIONS)/bin/python" python -m pytest -q tests/integrations

lint: install-dev ## ruff, mypy and the floors
	@ruff format --check .
	@ruff check .
	@mypy
	@lint-imports --no-cache >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }

docs: install-dev ## make the pages and tables that describe commands, formats, rooms and licences, and deploy/grafana
	@python docs/make_cli.py
	@python docs/make_formats.py
	@python docs/make_rooms.py
	@python deploy/grafana/make.py
	@python -m release.licences

.PHONY: dist site release-tools
dist: install-dev release-tools ## wheels, source archives and bills of materials in dist/; DEV=1 builds what is not released
	@python -m release.dist $(if $(DEV),--dev)

site: install-dev release-tools ## the pages of docs/ as a site with search, in build/site
	@python -m release.site

release-tools: $(VENV)-release/.installed

bench: install-dev ## measure, side by side with peers
	@for bench in benchmarks/*.py; do echo "== $$bench"; python $$bench || exit 1; done

# the short form of each campaign; what only its long form can show is left out
SHORT := CAMPAIGN=1 CAMPAIGN_ROUNDS=20 EVENT_FUZZ_SECONDS=30 GOODPUT_TRACES=400 ML_METRICS_PODS=12 \
	ML_METRICS_KILLS=1 ML_METRICS_KILLS_SHORT=1 ML_METRICS_OUTAGE_SECONDS=10 ML_METRICS_ENDS=1 ML_METRICS_ENDS_SHORT=1 \
	ML_METRICS_MACHINES_SHORT=1 ML_METRICS_MACHINES_SPEED=16 ML_METRICS_HOSTILE_VARIANTS=8 \
	ML_METRICS_MESSAGES_RUNS=2 ML_METRICS_MESSAGES_FAULT=30 ML_METRICS_MESSAGES_ONLY='^(?!BigQuery)'
LONG := ends/test_hosts.py hostile/night hostile/test_api_server.py kubernetes releases
BOUNDED := hostile/test_files.py
campaigns-short: install-dev ## each campaign for seconds instead of an hour, three at a time, 20 minutes
	@$(SHORT) python -m pytest -q tests/campaigns/$(BOUNDED) # bounds of time hold where nothing else computes
	@$(SHORT) python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder \
		$(patsubst %,--ignore tests/campaigns/%,$(LONG) $(BOUNDED)) tests/campaigns

campaign-events: install-dev ## every example of odd event files, and ten minutes of damaged ones
	@CAMPAIGN=1 EVENT_FUZZ_SECONDS=$${EVENT_FUZZ_SECONDS:-600} python -m pytest -q -s tests/campaigns/test_events.py

campaign-kills: install-dev ## kill -9 of worker, triggerer and local cluster, 20 times each; the API server gone for a minute
	@ML_METRICS_KILLS=$${ML_METRICS_KILLS:-20} ML_METRICS_OUTAGE_SECONDS=60 python -m pytest -q -s \
		tests/campaigns/test_kills.py tests/campaigns/test_killed_tasks.py tests/campaigns/test_outages.py

campaign-ends: install-dev ## drains, deletions and outages through deferred runs of one and many hosts, 25 minutes
	@ML_METRICS_ENDS=$${ML_METRICS_ENDS:-2} ML_METRICS_HOSTS=$${ML_METRICS_HOSTS:-64} python -m pytest -q -s \
		tests/campaigns/ends tests/behaviour/test_job_sets.py tests/behaviour/test_truthful_ends.py

campaign-experiments: install-dev ## 200 commits, one of them 3 % slower, searched by an Airflow that is killed; two images of 3 %
	@ML_METRICS_COMMITS=$${ML_METRICS_COMMITS:-200} ML_METRICS_SLEEP_PERCENT=$${ML_METRICS_SLEEP_PERCENT:-3} \
		python -m pytest -q -s tests/campaigns/test_experiments.py tests/campaigns/test_small_change.py

campaign-kubernetes-executor: install-dev ## KubernetesExecutor on the cluster of KUBECONFIG, on this machine, 5 minutes
	@ML_METRICS_TEST_EXECUTOR=1 python -m pytest -q tests/campaigns/kubernetes/test_executor.py

campaign-kubernetes-executor-short: install-dev ## the same with a failing test and a killed worker, 2 minutes
	@ML_METRICS_TEST_EXECUTOR=1 ML_METRICS_EXECUTOR_SHORT=1 python -m pytest -q \
		tests/campaigns/kubernetes/test_executor.py -k "failing or worker-killed"

campaign-machines: install-dev ## a hundred faults through Airflow on many machines with Celery's workers, 90 minutes
	@ML_METRICS_MACHINES=$${ML_METRICS_MACHINES:-100} python -m pytest -q -s tests/campaigns/machines

campaign-pods: install-dev ## fifty tests at once through LocalExecutor, with PostgreSQL, and a scheduler that is late, 4 minutes
	@ML_METRICS_PODS=$${ML_METRICS_PODS:-50} python -m pytest -q -s tests/campaigns/test_pods.py \
		tests/campaigns/test_late_scheduler.py

campaign-releases: install-dev ## a DAG that releases what is green, whose gates, release tasks and scheduler are killed, 5 minutes
	@CAMPAIGN=1 python -m pytest -q -s tests/campaigns/releases

fleet: install-dev ## what 50 and 200 tests at once cost beside empty tasks, and how soon they are told, 30 minutes; writes the table of docs/scaling.md
	@$(AS_PROGRAM) campaigns.fleet --page

fleet-short: install-dev ## the same with ten tests at once, LocalExecutor only, 10 minutes; writes no page
	@$(AS_PROGRAM) campaigns.fleet --short

fleet-full: install-dev ## every figure under both executors, and 200 tests at once under `make up`: hours; writes the table
	@$(AS_PROGRAM) campaigns.fleet --full --page

campaign-warehouse: install-dev ## 500 rounds of lost answers and killed writers against BigQuery's stand-in, 12 minutes
	@CAMPAIGN=1 python -m pytest -q -s tests/campaigns/test_warehouse.py -k whole_campaign

campaign-goodput: install-dev ## 5,000 random goodput traces of each kind beside the older library
	@GOODPUT_TRACES=$${GOODPUT_TRACES:-5000} python -m pytest -q tests/campaigns/test_goodput.py

campaign-alerts: install-dev ## messages that no task can send, under a real scheduler, triggerer and DAG processor
	@CAMPAIGN=1 python -m pytest -q tests/campaigns/test_alerts.py

campaign-messages: install-dev ## hanging servers, full disks and kill -9: no message is lost, none is doubled, 26 minutes
	@ML_METRICS_MESSAGES_RUNS=$${ML_METRICS_MESSAGES_RUNS:-12} ML_METRICS_MESSAGES_WAVES=$${ML_METRICS_MESSAGES_WAVES:-4} \
		ML_METRICS_MESSAGES_AIRFLOW_RUNS=$${ML_METRICS_MESSAGES_AIRFLOW_RUNS:-30} \
		python -m pytest -q -s tests/campaigns/messages

campaign-hostile: install-dev ## hostile workloads, test files, users and services in thousands of variants, about an hour
	@ML_METRICS_HOSTILE_VARIANTS=$${ML_METRICS_HOSTILE_VARIANTS:-1000} python -m pytest -q tests/campaigns/hostile

COMPILE := uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url --generate-hashes
lock: $(VENV)/.uv ## pin everything that requirements.txt and requirements/*.txt ask for, with hashes
	$(COMPILE) requirements.txt -o $(LOCKS).lock
	cd requirements && $(COMPILE) requirements-uv.txt -o requirements-uv.lock
	cd requirements && $(COMPILE) -c requirements.lock requirements-dev.txt -o requirements-dev.lock
	cd requirements && $(COMPILE) -c requirements.lock requirements-celery.txt -o requirements-celery.lock
	cd requirements && $(COMPILE) requirements-release.txt -o requirements-release.lock
	cd requirements && $(COMPILE) --no-emit-package torch requirements-integrations.txt -o requirements-integrations.lock

vega: ## rebuild the dashboard's chart library from its package-lock.json; needs npm
	cd plugins/ml_metrics/ui/dashboard/bundle && npm ci --no-audit --no-fund && npm run build && rm -rf node_modules

clean: ## remove the environment and everything that runs left behind
	-@[ -x $(BIN)/ml-metrics ] && ml-metrics cluster stop
	rm -rf $(VENV) $(INTEGRATIONS) $(VENV)-release build dist .airflow .mypy_cache .ruff_cache .pytest_cache .hypothesis

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
	@UV_COMPILE_BYTECODE=0 $(UV) pip install --no-deps --no-build-isolation -e . -e packages/local-kube -e packages/telemetry # setuptools is in the lock
	@echo "Compiling them ..."
	@$(UV) pip install --require-hashes -r $(LOCKS).lock
	@touch $@

$(INTEGRATIONS)/.installed: $(LOCKS)-integrations.lock $(LOCKS)-integrations-torch.lock
	@$(NEW_VENV) --clear $(INTEGRATIONS)
	@$(INTEGRATIONS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes $(^:%=-r %)
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
