# make run    starts a frontend and a worker with the example model, and shows a stream
# make test   runs all tests
# Each makes its own virtual environment in .venv first; a second call finds it done.

PORT ?= 8000
MODEL ?=
ARGS ?=
PYTHON := .venv/bin/python

.PHONY: run test lint setup

run: setup
	@$(PYTHON) -m tools.run --port "$(PORT)" --model "$(MODEL)" -- $(ARGS)

test: setup
	@$(PYTHON) -m pytest

lint: setup
	@tools/lint

setup:
	@tools/setup
