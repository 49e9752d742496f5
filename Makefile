# make run    starts a frontend and a worker with the example model, and shows a stream
# make test   runs all tests: first those without a stack, in two processes, then the others one by one
# Each makes its own virtual environment first; a second call finds it done.
# `make run` needs neither vLLM nor torch; ENGINE=vllm runs a real engine, and MODEL= wants one.

PORT ?= 8000
MODEL ?=
ARGS ?=
ENGINE ?= $(if $(MODEL),vllm,replay)
PYTHON := .venv/bin/python
RUN_PYTHON := $(if $(filter replay,$(ENGINE)),.venv-light,.venv)/bin/python

.PHONY: run test lint setup

run:
	@tools/setup $(ENGINE)
	@$(RUN_PYTHON) -m tools.run --engine "$(ENGINE)" --port "$(PORT)" --model "$(MODEL)" -- $(ARGS)

test: setup
	@$(PYTHON) -m pytest -m "not e2e" -n 2 --dist loadfile
	@$(PYTHON) -m pytest -m e2e

lint: setup
	@tools/lint

setup:
	@tools/setup
