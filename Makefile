# make bench · make test · make check · make perf: each sets up what it needs first.

PY := .venv/bin/python
WORKLOAD ?= prefix-cache
TESTED_AGENTS := pi codex opencode mini-swe-agent qwen-code
# One file of tests never runs in two processes; the slow files begin first, so that both end at about the same time.
TWO_AT_ONCE := -n 2 --dist loadfile --no-loadscope-reorder -p no:benchmark
MODEL := models/SmolLM2-135M-Instruct.Q4_1.gguf

.PHONY: agent- help bench test quick check format perf schemas real-model real clean

help:  ## what there is
	@sed -n 's/^\([a-z%-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

bench:  ## set up, then run the main job (WORKLOAD=csv-totals for the small one)
	@bin/set-up bench
	$(PY) -m pytest bench --workload $(WORKLOAD) $(ARGS)

test:  ## set up, then all checks and all tests: what CI runs
	@bin/set-up test
	@$(MAKE) --no-print-directory check
	@for agent in $(TESTED_AGENTS); do bin/install-agent $$agent || [ $$? = 3 ] || exit 2; done
	$(PY) -m pytest tests/whole tests/test_cases.py tests --ignore=tests/perf --ignore=tests/test_architecture.py $(TWO_AT_ONCE) --durations=15 $(ARGS)

quick:  ## the tests without the slow ones
	@bin/set-up test
	$(PY) -m pytest tests --ignore=tests/perf -m "not slow" $(TWO_AT_ONCE) $(ARGS)

check:  ## lint, format, types, layers, ceilings
	@bin/set-up test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	$(PY) -m pytest -q tests/test_architecture.py

format:  ## write the code in the one format
	@bin/set-up test
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

perf:  ## measure what should be fast
	@bin/set-up test
	$(PY) -m pytest tests/perf --benchmark-only --benchmark-columns=min,median,max,rounds $(ARGS)

schemas:  ## write the published JSON schema and the tables of docs/measures.md again
	@bin/set-up bench
	$(PY) -m bench.records.json_schema
	$(PY) -m bench.figures.measures_page

real-model:  ## fetch the 135M model that real llama-server runs use
	@bin/set-up bench
	$(PY) -m bench.engines.real_model --into models

real:  ## a run on a real llama-server with the 135M model, with tight limits
	@bin/set-up test
	@$(MAKE) --no-print-directory real-model
	$(PY) -m pytest bench --workload $(WORKLOAD) --engine llama-server --model $(MODEL) \
	  --engine-arg=-t --engine-arg=1 --engine-arg=-tb --engine-arg=1 \
	  --limit bootstrap_attempts=1 --limit session_seconds=120 --limit output_tokens_per_request=64 --limit requests_per_session=2 $(ARGS)

agent-%:  ## install a coding agent: agent-pi, agent-codex, agent-opencode, agent-mini-swe-agent, agent-qwen-code, agent-claude-code, agent-aider (runcard doctor shows which are there)
	@bin/set-up bench
	@bin/install-agent $*

agent-:
	@bin/install-agent

clean:  ## remove what make made, results apart
	rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis .benchmarks *.egg-info models .agents
