# The commands of the project. Each runs `make setup` first if needed.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
PYTHON := $(VENV)/bin/python
UV := $(VENV)/bin/uv
UV_VERSION := 0.13.9
PROTOS := $(wildcard proto/rowlock_proto/v1/*.proto)

.PHONY: help setup demo test check mutants crash spark-crash memory soak bench spark-bench proto errors faces api lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(VENV)/.ready ## create .venv with all dependencies

$(VENV)/.ready: pyproject.toml requirements.lock requirements-java.lock .ci/setup.py
	@python3 .ci/setup.py $(VENV) $(UV_VERSION)
	@touch $@

demo: setup ## run the main job on real data: load flights, race writers, count, kill the server, join in Spark
	@$(PYTHON) -m bench.demo $(ARGS)

test: setup ## run the tests in ten minutes; make check runs tests/tidy, make crash all cases of long tests
	@$(PYTHON) -m tests.pieces -q

check: setup ## check format, lint, strict types and tidiness
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m mypy
	@$(PYTHON) -m pytest -q tests/tidy

mutants: setup ## try every broken build; make test tries some that its seed draws
	@$(PYTHON) -m pytest -q tests/mutants

crash: setup ## run the long campaigns: kills, crashes at each file-system call, bit flips
	@failed=0; \
	$(PYTHON) -m tests.crash.campaign || failed=1; \
	$(PYTHON) -m tests.consistency.campaign || failed=1; \
	ROWLOCK_ALL_CASES=1 $(PYTHON) -m pytest -q $$(grep -rl --include='test_*.py' --exclude-dir=spark --exclude-dir=spark_programs tests.drawn_cases tests) || failed=1; \
	exit $$failed

spark-crash: setup ## run the long campaigns with Spark: failing tasks, speculation, killed drivers and servers
	@ROWLOCK_ALL_CASES=1 $(PYTHON) -m pytest -q $$(grep -rl --include='test_*.py' tests.drawn_cases tests/spark tests/spark_programs)
	@$(PYTHON) -m tests.spark.campaigns.campaign $(ARGS)

memory: setup ## run the long campaigns in control groups of 1 GiB and 512 MiB; needs root
	@$(PYTHON) -m tests.memory.campaign $(ARGS)

soak: setup ## write, flush, compact, split and merge a table for 20 minutes beside a model
	@$(PYTHON) -m tests.soak $(ARGS)

bench: setup ## measure the figures of docs/figures.md, without Spark's
	@$(PYTHON) -m bench $(ARGS)

spark-bench: setup ## measure rowlock from Spark, against Parquet and HBase
	@$(PYTHON) -m bench.spark $(ARGS)

proto: setup errors ## generate the protocol's code and the exceptions
	@$(PYTHON) -m grpc_tools.protoc -Iproto --python_out=proto --pyi_out=proto --grpc_python_out=proto $(PROTOS)

errors: setup ## generate the exceptions of client and server from their table in proto
	@$(PYTHON) -m tools.errors

faces: setup ## generate the sync face of the client from the asyncio face
	@$(PYTHON) -m tools.async_to_sync

api: setup ## generate docs/api.md, docs/settings.md and docs/commands.md from the code
	@$(PYTHON) -m tools.api
	@$(PYTHON) -m tools.settings
	@$(PYTHON) -m tools.commands

lock: setup ## pin the newest compatible dependencies
	@$(UV) pip compile -q --universal --extra server --extra pandas --extra spark --group pyproject.toml:dev pyproject.toml \
	  --generate-hashes --no-header --upgrade -o requirements.lock
	@sed -n 's/^java = \["\(.*\)"\]$$/\1/p' pyproject.toml | $(UV) pip compile -q --universal - \
	  --generate-hashes --no-header --upgrade -o requirements-java.lock
	@$(UV) pip compile -q --universal --group pyproject.toml:bench \
	  --generate-hashes --no-header --upgrade -o requirements-bench.lock

clean: ## remove .venv, caches and build output
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
