# make run       starts a frontend and a worker with the example model, and shows a stream
# make test      runs the tests, the same examples each time: 12 minutes on two cores
# make test-more  runs the longer ones, those of a Debian 13 tree (tools/debian), and these three:
# make test-long  runs what repeats those with more engines, formats and sizes
# make test-next  runs those of Dynamo 1.7's development wheels, where these can be had
# make test-clients  runs those of OpenAI's, Anthropic's and others' clients
# make seams     checks what Backedge relies on in Dynamo and the engines
# make test-next-all  runs all end-to-end tests with 1.7
# make test-slips  prints what becomes of calls that a model wrote with slips, peers beside ours
# make test-all  runs all cases, and random examples longer
# make soak      runs a fleet under faults, for MINUTES (60)
# make test-stock-parsers  compares all of Dynamo's parsers, a worker's text at any pace with
#                single tokens; DYN_PARSER_VERSION=2 and PYTHON=.venv-1.7/bin/python for others
# make test-batch-rows  damages rows of batches for each back end, ROWS (20,000) each, some hours
# make test-batch-kills  kills batches, KILLS (10) times for each of BACKENDS (hf vllm sglang)
# make test-batch-beside  asks servers and generates as rows: all examples, with every option
# make test-random  runs the properties of parsers with EXAMPLES (300) random examples each, hours
# make test-hostile  runs all of tests/hostile: requests, output, rogue peers, faults of the pool
# make docs      builds the pages of docs/ as a site, in build/site
# make release-check  builds wheel and sdist, and installs them in environments of their own
# Each makes its own virtual environment first; a second call finds it done.
# `make run` and `make offline` need neither vLLM nor torch; ENGINE=vllm runs a real engine, and
# MODEL= wants one. `make run` takes ENGINE=transformers as well, `make offline` ENGINE=hf (transformers)
# and ENGINE=sglang.

PORT ?= 8000
MODEL ?=
ARGS ?=
ENGINE ?= $(if $(MODEL),vllm,replay)
PYTHON := .venv/bin/python
RUN_PYTHON := $(if $(filter replay,$(ENGINE)),.venv-light,.venv)/bin/python

MINUTES ?= 60
ROWS ?= 20000
KILLS ?= 10
BACKENDS ?= hf vllm sglang

.PHONY: run offline test test-more test-long test-all test-next test-next-all seams test-clients test-slips \
	soak test-batch-rows test-batch-kills test-batch-beside test-hostile test-stock-parsers lint docs release-check setup

run:
	@tools/setup $(ENGINE)
	@$(RUN_PYTHON) -m tools.run --engine "$(ENGINE)" --port "$(PORT)" --model "$(MODEL)" -- $(ARGS)

offline:
	@tools/setup $(ENGINE)
	@$(RUN_PYTHON) -m tools.offline --engine "$(ENGINE)" --model "$(MODEL)" -- $(ARGS)

test: setup
	@$(PYTHON) -m tools.run_tests test

test-more: setup
	@tools/setup 1.7
	@tools/setup clients
	@$(PYTHON) -m tools.run_tests more

test-long: setup
	@$(PYTHON) -m tools.run_tests long

test-next: setup
	@tools/setup 1.7
	@$(PYTHON) -m tools.run_tests next

test-next-all: setup
	@tools/setup 1.7
	@.venv-1.7/bin/python -m pytest tests/e2e -n 2 --dist loadgroup --no-loadscope-reorder

seams: setup
	@tools/setup 1.7
	@$(PYTHON) -m tools.run_tests seams

test-clients: setup
	@tools/setup clients
	@$(PYTHON) -m tools.run_tests clients

test-all:
	@env WHOLE_MATRICES=1 FUZZ_EXAMPLES=2000 $(MAKE) test test-more test-long

soak: setup
	@$(PYTHON) -m tests.soak --minutes $(MINUTES)

test-slips: setup
	@$(PYTHON) -m tests.slips

test-batch-rows: setup
	@env FUZZ_ROWS=$(ROWS) $(PYTHON) -m pytest -s tests/offline/test_row_fuzz.py

test-batch-kills: setup
	@set -e; for backend in $(BACKENDS); do \
		$(PYTHON) -m tests.offline.kills $$backend --kills $(KILLS); \
		$(PYTHON) -m tests.offline.kills $$backend --kills $(KILLS) --embeddings; done

test-batch-beside: setup
	@$(PYTHON) -m tests.offline.beside vllm hf vllm
	@$(PYTHON) -m tests.offline.beside sglang sglang

test-hostile: setup
	@env HOSTILE_TIMES=4 $(PYTHON) -m pytest tests/hostile -n 2 --dist load
	@$(PYTHON) -m tests.hostile

test-stock-parsers: setup
	@env BACKEDGE_ALL_PARSERS=1 $(PYTHON) -m pytest tests/e2e/test_stock_parsers.py

docs:
	@tools/setup docs
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict

release-check: setup
	@$(PYTHON) -m tools.release_check

lint: setup
	@tools/lint

setup:
	@tools/setup

# Without CI hypothesis draws other examples each time; a failure prints the seed to run it again.
.PHONY: test-random
EXAMPLES ?= 300
test-random: setup
	@env -u CI FUZZ_EXAMPLES=$(EXAMPLES) $(PYTHON) -m pytest -n 2 \
		$$(grep -rl --include='test_*.py' 'tests.parsers.fuzzing import' tests)
