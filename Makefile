# SPDX-License-Identifier: Apache-2.0
# Two commands to start: `make run` and `make test`. `make` alone lists the others.
SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
LOCK := $(BIN)/uv pip compile --quiet --generate-hashes --no-emit-index-url --universal --python-version 3.11 --no-header $(if $(UPGRADE),--upgrade)
# Some processes more than cores, as tests/spread.py says. One that dies is not replaced: the test that it had has failed.
SPREAD := --numprocesses auto --maxprocesses 8 --dist loadscope --max-worker-restart 0
# make test ARGS="-k extend -x" hands its arguments to pytest.
ARGS ?=
# Handed on as a value of the environment, so that the shell never reads it as words.
export NAME PORT

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: environment packages ## Start everything on this machine and take the tour (ONCE=1: stop after it; PORT=8787: not on 8786)
	@$(BIN)/python -m lab.tour $(if $(ONCE),--once) $(if $(PORT),--port "$$PORT")

.PHONY: test
test: environment openstack ansible packages ## Run all tests, those with real components included
	@$(BIN)/python -m pytest $(SPREAD) $(ARGS)

.PHONY: quick
quick: environment ## Run the tests that need no real components, in about two minutes
	@$(BIN)/python -m pytest -m "not system" $(SPREAD) $(ARGS)

.PHONY: thorough
thorough: environment openstack packages ## All faults, all toys of the journal, a real GlusterFS, all pages and forms of Horizon, Terraform, OpenTofu and gophercloud, twice the hostile requests of `make test`, made-up ones on both databases (FAULTS_SEED, TOYS_SEED, FUZZ_SEED, HOSTILE_SEED, HORIZON_SEED=n: others)
	@$(BIN)/python -m lab.go_programs
	@FAULTS_THOROUGH=1 FUZZ_THOROUGH=1 GO_THOROUGH=1 TOYS_THOROUGH=1 HOSTILE_THOROUGH=1 GLUSTER_THOROUGH=1 HORIZON_THOROUGH=1 $(BIN)/python -m pytest $(SPREAD) $(ARGS) tests/operations/test_faults.py tests/operations/test_glusterfs_faults.py tests/operations/test_frozen.py tests/journal tests/api/test_fuzz.py tests/api/test_hostile.py tests/drivers/contract tests/system/test_glusterfs*.py tests/clients/test_horizon.py tests/clients/test_terraform.py tests/clients/test_gophercloud.py

.PHONY: bed
bed: environment packages ## Run what needs GlusterFS on real thin LVM, on user-mode-linux nodes: minutes, by hand or by night
	@lab/packages.sh lvm2 thin-provisioning-tools acl attr
	@GLUSTER_BED=1 $(BIN)/python -m pytest --durations 0 -o faulthandler_timeout=3600 -k "glusterfs_thin or thin_disks" $(ARGS) tests/drivers/contract/test_snapshots.py tests/system/test_glusterfs_thin_disks.py tests/system/test_glusterfs_thin_nodes.py

.PHONY: check
check: environment ## Check format, lint, types, layers, house rules and that all tests can be read
	@failed=(); \
	$(BIN)/ruff format --check --quiet --output-format concise . || failed+=("format (make fix mends it)"); \
	$(BIN)/ruff check --quiet --output-format concise . || failed+=("lint"); \
	$(BIN)/mypy --no-error-summary || failed+=("types"); \
	layers=$$($(BIN)/lint-imports --no-logo 2>&1) || { echo "$$layers"; failed+=("layers"); }; \
	$(BIN)/python -m pytest tests/test_house.py || failed+=("house rules"); \
	found=$$($(BIN)/python -m pytest --collect-only -qq 2>&1) || { echo "$$found" | grep -v ': [0-9]*$$'; failed+=("imports of tests"); }; \
	if [ $${#failed[@]} -gt 0 ]; then printf 'This does not hold: %s\n' "$${failed[@]}"; exit 1; fi; \
	echo "Format, lint, types, layers and house rules hold; all tests can be read."

.PHONY: fix
fix: environment ## Format the code and mend what lint can mend
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .

.PHONY: golden
golden: environment ## Write the golden files anew from what the code does now
	@$(BIN)/python -m pytest -m "not system" --write-golden $(ARGS)
	@git status --short -- tests docs

.PHONY: docs
docs: environment ## Write the generated reference pages anew
	@$(BIN)/python -m pytest tests/test_docs.py --write-golden
	@git status --short -- docs

.PHONY: bench
bench: environment openstack packages ## Run the benchmarks, reads beside a baseline measured in the same run (ARGS="reads idle")
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: lock
lock: environment ## Resolve the dependencies anew into requirements/*.txt (UPGRADE=1: to their newest releases)
	@$(LOCK) pyproject.toml --group test --group check --group build -o requirements/dev.txt
	@$(LOCK) pyproject.toml --constraints requirements/dev.txt -o requirements/run.txt
	@echo uv | $(LOCK) - --constraints requirements/dev.txt -o requirements/uv.txt
	@$(LOCK) --group openstack -o requirements/openstack.txt
	@$(LOCK) --group ansible -o requirements/ansible.txt
	@sed -i '1i # Made by `make lock`; do not edit.' requirements/*.txt
	@git status --short -- requirements

.PHONY: new-driver
new-driver: environment ## Start a storage driver: make new-driver NAME=cephfs
	@$(BIN)/python -m lab.new_driver "$$NAME"

# What the commands above stand on; each is instant when nothing has changed.
.PHONY: environment
environment: .venv/.installed ## Make the Python environment .venv from the lock

.PHONY: openstack
openstack: .venv-openstack/.installed ## Make the environment in which tests run Keystone, Nova and Neutron

.PHONY: ansible
ansible: .venv-ansible/.installed ## Make the environment in which tests run Ansible

.PHONY: packages
packages: ## Install the Debian packages that real components come in, and build what has none
	@lab/packages.sh
	@lab/heketi_build/build.sh || echo "Heketi could not be built: tests of GlusterFS on real nodes say so and are skipped." >&2

.venv/.installed: requirements/dev.txt requirements/uv.txt pyproject.toml lab/environment.sh
	@lab/environment.sh .venv requirements/dev.txt
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

.venv-openstack/.installed: requirements/openstack.txt lab/environment.sh | .venv/.installed
	@lab/environment.sh .venv-openstack requirements/openstack.txt
	@touch $@

.venv-ansible/.installed: requirements/ansible.txt lab/environment.sh | .venv/.installed
	@lab/environment.sh .venv-ansible requirements/ansible.txt
	@touch $@
