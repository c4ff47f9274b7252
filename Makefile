# Two commands need nothing but git, python3 with venv, make and the package registries:
#   make demo   the main job on a simulated service, ends with a report to look at
#   make test   everything that is tested, what continuous integration runs
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
VERSITYGW := v1.8.0
BIN := $(VENV)/bin
# Thousands of commands are started: each reads compiled modules instead of compiling its own.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --progress-bar off

# In the order of their folders: what takes long begins first, and thousands of unit tests fill up the end.
SUITE = $(BIN)/pytest -q -n auto --dist loadfile --no-loadscope-reorder -m "not bench and not chaos and not collector and not spark"

.PHONY: help native demo live test check check-kernels buckets spark fuzz chaos soak format bench bench-collector bench-receiver evaluate evaluate-methods evaluate-watch score lock clean browser java collector kafka kafka-stop deploy-tools

help: ## Show what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

$(VENV)/runtime.stamp: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "flowdiff needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Installing flowdiff into $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# With what is there: without cargo, or where it fails, this says so and the portable reader is used.
WIRE := ingest/codecs/otlp/wire
$(VENV)/native.stamp: $(VENV)/runtime.stamp $(wildcard $(WIRE)/src/*.rs) $(WIRE)/Cargo.toml $(WIRE)/Cargo.lock
	@$(BIN)/python $(WIRE)/build.py
	@touch $@

native: $(VENV)/runtime.stamp ## Build the native reader of OTLP protobuf (needs cargo, nothing from a network)
	@$(BIN)/python $(WIRE)/build.py
	@touch $(VENV)/native.stamp

$(VENV)/dev.stamp: requirements-dev.lock $(VENV)/runtime.stamp
	@echo "Installing the development tools into $(VENV) ..."
	@$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

browser:
	@sh tests/ensure_chromium.sh

deploy-tools:
	@sh tests/ensure_deploy_tools.sh

java:
	@sh tests/ensure_java.sh

kafka: java ## Start an Apache Kafka for trials; it runs until `make kafka-stop`
	@deploy/kafka/kafka.sh start .cache/kafka .cache/kafka-trial
	@echo "Try:  flowdiff produce FILE --topic traces --bootstrap HOST:PORT    Stop it:  make kafka-stop"

kafka-stop: ## Stop the Kafka of `make kafka`; what was written is kept for the next start
	@deploy/kafka/kafka.sh stop .cache/kafka-trial

demo: $(VENV)/native.stamp ## Simulate a web shop before and after a deployment, compare, write a report
	@$(BIN)/flowdiff demo

live: $(VENV)/native.stamp java ## Live ingestion from a Kafka of its own, a fault that a watch finds by itself, a report (twelve minutes)
	@FLOWDIFF=$(BIN)/flowdiff bash deploy/live.sh

check: $(VENV)/dev.stamp $(VENV)/native.stamp ## The fast inner loop: format, lint, types, layers, unit and golden tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/unit tests/golden

check-kernels: $(VENV)/dev.stamp ## Numerical tests, goldens and scores under every kernel of OpenBLAS and numpy that the processor offers
	$(BIN)/python tests/check_kernels.py

test: $(VENV)/dev.stamp $(VENV)/native.stamp browser java deploy-tools ## Everything: check, then property, integration, evaluation and browser tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(SUITE)

$(VENV)/versitygw:
	@command -v go >/dev/null || { echo "make buckets needs Go to build versitygw" >&2; exit 1; }
	@echo "Building versitygw ..."
	@GOBIN=$(abspath $(VENV)) nice go install github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW)

$(VENV)/spark.stamp: requirements-spark.lock $(VENV)/dev.stamp
	@echo "Installing Spark into $(VENV) ..."
	@$(PIP) --no-build-isolation --require-hashes -r requirements-spark.lock
	@touch $@

spark: $(VENV)/spark.stamp java ## Import on a Spark cluster of this machine, compared with one process byte by byte
	$(BIN)/pytest -q -m spark tests/spark

$(VENV)/otelcol: tests/collector/main.go tests/collector/go.mod tests/collector/go.sum
	@command -v go >/dev/null || { echo "make collector needs Go to build an OpenTelemetry Collector" >&2; exit 1; }
	@echo "Building an OpenTelemetry Collector (3 CPU minutes) ..."
	@cd tests/collector && nice go build -mod=readonly -trimpath -ldflags='-s -w' -o "$(abspath $@)" .

collector: $(VENV)/dev.stamp java $(VENV)/otelcol ## SDK, a real Collector (built once) with the configuration of deploy/, Kafka, a lake
	FLOWDIFF_TEST_COLLECTOR=$(abspath $(VENV)/otelcol) $(BIN)/pytest -q -m collector tests/integration/test_collector.py

buckets: $(VENV)/dev.stamp $(VENV)/versitygw java ## Everything about buckets on a second server (versitygw, built once), crashes everywhere, live ingestion
	FLOWDIFF_TEST_VERSITYGW=$(abspath $(VENV)/versitygw) $(BIN)/pytest -q tests/integration/test_store_contract.py tests/integration/test_bucket_crash.py tests/integration/test_bucket_lake.py tests/integration/test_bucket_live.py

fuzz: $(VENV)/dev.stamp $(VENV)/native.stamp ## Property tests and codecs with fresh seeds, FUZZ_SECONDS=60; what fails is printed to be repeated
	$(BIN)/pytest -q --hypothesis-profile=fuzz -m "hypothesis and not bench and not chaos and not collector and not spark" tests
	$(BIN)/python tests/property/fuzz_codecs.py --seconds $(or $(FUZZ_SECONDS),60)
	$(BIN)/python $(WIRE)/fuzz.py --seconds $(or $(FUZZ_SECONDS),60)

chaos: $(VENV)/dev.stamp $(VENV)/native.stamp java ## Live ingestion against three brokers while all breaks, an unclean election, windows built of logs: MINUTES=60, SEED=1, LIVES=100, SEEDS=1000, KILLS=2000, BUCKET_KILLS=200
	$(BIN)/pytest -q -m chaos tests/integration/test_halted_lanes.py tests/integration/test_receiver.py tests/integration/test_up.py
	PYTHONPATH=tests $(BIN)/python tests/chaos/chaos.py --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1)
	FLOWDIFF_LIVES=$(or $(SEED),1):$(or $(LIVES),100) $(BIN)/pytest -q -n auto tests/integration/test_live_troubles.py
	FLOWDIFF_TEST_SEEDS=$(or $(SEEDS),1000) $(BIN)/pytest -q -n auto tests/property/test_build.py tests/integration/test_build_crash.py tests/integration/test_import_kept.py
	PYTHONPATH=tests $(BIN)/python tests/chaos/build_kills.py $(or $(KILLS),2000) $(or $(SEED),1) folder
	PYTHONPATH=tests $(BIN)/python tests/chaos/build_kills.py $(or $(BUCKET_KILLS),200) $(or $(SEED),1) bucket

soak: $(VENV)/dev.stamp $(VENV)/native.stamp java ## Live ingestion under a steady load, its memory watched: MINUTES=30; HOURS=3: simulated
	PYTHONPATH=tests $(BIN)/python $(if $(HOURS),tests/chaos/simulated_soak.py --hours $(HOURS),tests/chaos/soak.py --minutes $(or $(MINUTES),30))

format: $(VENV)/dev.stamp ## Format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/dev.stamp $(VENV)/native.stamp ## Benchmarks: figures and ratios against named baselines; BASE=DIR: another checkout; FLEET=1: a fleet compared from statistics
ifneq ($(FLEET),)
	PYTHONPATH=tests $(BIN)/python tests/bench/bench_fleet.py $(SITES)
else
	$(BIN)/python tests/bench/bench_codecs.py
	$(BIN)/python tests/bench/bench_decode.py $(BASE)
	$(BIN)/python tests/bench/bench_kernel.py
	$(BIN)/python tests/bench/bench_lake.py tests/data/online-boutique
	$(BIN)/python tests/bench/bench_import.py
	PYTHONPATH=tests $(BIN)/python tests/bench/bench_watch.py
	PYTHONPATH=tests $(BIN)/python tests/bench/bench_segments.py
	PYTHONPATH=tests $(BIN)/python tests/bench/bench_memory.py
	$(BIN)/pytest -q -s -m bench tests/bench/bench_refine.py tests/bench/bench_clusters.py tests/bench/bench_compare.py tests/bench/bench_distalyze.py tests/bench/bench_variance.py tests/bench/bench_sites.py tests/bench/bench_simulate.py tests/bench/bench_stats.py tests/integration/test_live_memory.py
endif

bench-collector: $(VENV)/dev.stamp $(VENV)/native.stamp java $(VENV)/otelcol ## Live ingestion beside the Collector's groupbytrace, built once, on the same topics: SPANS=1000000, BASE=DIR: beside another checkout too
	$(BIN)/python tests/bench/bench_beside_collector.py $(VENV)/otelcol $(or $(SPANS),1000000) $(BASE)

bench-receiver: $(VENV)/dev.stamp $(VENV)/native.stamp $(VENV)/otelcol ## The OTLP receiver beside the Collector's, both to disk: SPANS=200000
	$(BIN)/python tests/bench/bench_receiver.py $(VENV)/otelcol $(or $(SPANS),200000)

evaluate: $(VENV)/dev.stamp ## Score the analyzer on simulated faults; FULL=1, REAL=DIR, INSTANCES=1, HALVES=1, SYSTEMS=1, SEGMENTS=seeds, PEERS=1, RULES=1, WITHOUT=rule
ifneq ($(RULES)$(WITHOUT),)
	PYTHONPATH=tests $(BIN)/python tests/evaluation/rules.py $(if $(WITHOUT),--without $(WITHOUT)) $(if $(REAL),--real $(REAL)) $(if $(SYSTEMS),--systems $(or $(SEED),0)) $(if $(SIMULATED),--simulated $(or $(SEED),1))
else ifneq ($(INSTANCES),)
	PYTHONPATH=tests $(BIN)/python -m evaluation.recordings.instances $(REAL)
else ifneq ($(HALVES),)
	PYTHONPATH=tests $(BIN)/python -m evaluation.recordings.halves $(REAL)
else ifneq ($(PEERS),)
	PYTHONPATH=tests $(BIN)/python -m evaluation.peers.measure $(if $(SYSTEMS),--systems $(or $(SEED),0),$(REAL))
else ifneq ($(SEGMENTS),)
	PYTHONPATH=tests $(BIN)/python -m evaluation.segments.score $(SEGMENTS)
else ifneq ($(SYSTEMS),)
	PYTHONPATH=tests $(BIN)/python -m evaluation.recordings.score --systems $(or $(SEED),0)
else
	$(BIN)/python tests/evaluation/run.py $(if $(REAL),--real $(REAL) --page,$(if $(FULL),--full))
endif

evaluate-watch: $(VENV)/dev.stamp ## Score the watch: quiet weeks, known steps, days through a lake, deployments; REAL=DIR: recordings as streams
	PYTHONPATH=tests $(BIN)/python -m evaluation.watched quiet --weeks 24 --series 60
	PYTHONPATH=tests $(BIN)/python -m evaluation.watched steps --sd 4 --series 60
	PYTHONPATH=tests $(BIN)/python -m evaluation.watched steps --sd 2 --series 60
	PYTHONPATH=tests $(BIN)/python -m evaluation.watched quiet --weeks 2 --series 60 --slot 15
	PYTHONPATH=tests $(BIN)/python -m evaluation.watched steps --sd 4 --series 60 --slot 15
	PYTHONPATH=tests $(BIN)/python -m evaluation.watched weeks --learned 14 --days 4
	PYTHONPATH=tests $(BIN)/python -m evaluation.watched quiet-weeks --learned 7 --days 7
	PYTHONPATH=tests $(BIN)/python -m evaluation.watched days --learned 14 --days 3
	PYTHONPATH=tests $(BIN)/python -m evaluation.watched quiet-days --learned 14 --days 13
	PYTHONPATH=tests $(BIN)/python -m evaluation.watched deployments --many 100
	$(if $(REAL),PYTHONPATH=tests $(BIN)/python -m evaluation.watched recordings $(REAL) --slot 10 --setting "false_alarms=1 a day")
	$(if $(REAL),PYTHONPATH=tests $(BIN)/python -m evaluation.watched recordings $(REAL) --setting "false_alarms=1 a day")

score: $(VENV)/dev.stamp ## Score robust mode on all labelled faults and some quiet pairs of REAL=DIR, against what is kept
	PYTHONPATH=tests $(BIN)/python -m evaluation.recordings.score $(REAL)

evaluate-methods: $(VENV)/dev.stamp ## Score variance and distalyze on simulated faults and A/A splits; REAL=DIR: on recordings
	PYTHONPATH=tests $(BIN)/python -m evaluation.variance_truths
	PYTHONPATH=tests $(BIN)/python -m evaluation.diverging --seeds 10
	PYTHONPATH=tests $(BIN)/python -m evaluation.diverging --splits 100 $(if $(REAL),--recordings $(REAL))
	$(if $(REAL),PYTHONPATH=tests $(BIN)/python -m evaluation.diverging --recordings $(REAL))
	$(if $(REAL),PYTHONPATH=tests $(BIN)/python -m evaluation.more_variable $(REAL))

lock: ## Resolve the lock files anew (needs uv)
	uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --no-annotate --python-version 3.11 --extra all --extra build --extra dev -o requirements-dev.lock pyproject.toml
	uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --no-annotate --python-version 3.11 --extra all --extra build --constraint requirements-dev.lock -o requirements.lock pyproject.toml
	uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --no-annotate --python-version 3.11 --extra spark --extra build --constraint requirements-dev.lock -o requirements-spark.lock pyproject.toml

clean: ## Remove what was built here
	@test ! -d .cache/kafka-trial || deploy/kafka/kafka.sh kill .cache/kafka-trial
	rm -rf $(VENV) .cache build $(WIRE)/libwire.* *.egg-info demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
