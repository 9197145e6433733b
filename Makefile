# Everything a developer does. The first target that needs the environment makes it (.venv); see scripts/.
PYTHON := .venv/bin/python
# Where set-up puts an etcd when there is none on PATH.
WITH_ETCD := PATH="$(CURDIR)/.venv/etcd:$$PATH"
ROUNDS ?= 10000
ARGS ?=

.PHONY: help environment etcd demo rollout-demo test check format protos races bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

environment: ## make or refresh .venv
	@python="$$(scripts/find_python.sh)" && "$$python" scripts/setup_environment.py

etcd: environment ## find an etcd, or fetch one
	@$(PYTHON) scripts/setup_etcd.py etcd

demo: etcd ## simulated workers, held and released, on an etcd of its own (ARGS=--keep leaves it running)
	@$(WITH_ETCD) .venv/bin/greenroom demo $(ARGS)

rollout-demo: etcd ## a whole rollout with real Dynamo, which is fetched: gates, a withdrawal, a rollout hold, and clients
	@dynamo="$$($(PYTHON) scripts/setup_dynamo.py)" && $(WITH_ETCD) $(PYTHON) -m tests.e2e.rollout "$$dynamo"

test: environment ## all rings (ARGS="tests/unit -k keyspace" for some)
	@$(PYTHON) scripts/run_tests.py $(ARGS)

check: environment ## lint, format, types, import directions, generated code, a test file for each source
	@$(PYTHON) scripts/check.py

format: environment ## put the code into its format
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .

protos: environment ## generate proxy/greenroom/pb from protos/
	@$(PYTHON) scripts/generate_protos.py

races: etcd ## two and then three proxies, releases and writes racing (ROUNDS=10000)
	@$(WITH_ETCD) ROUNDS=$(ROUNDS) $(PYTHON) -m tests.faults.races

bench: etcd ## side by side with direct etcd, grpc-proxy and haproxy (ARGS="--quick", "--copy")
	@$(WITH_ETCD) $(PYTHON) -m tests.bench $(ARGS)

clean: ## remove what the targets above made here (not the caches in the home folder)
	rm -rf .venv .venv.lock build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
