# bisectd: build, check, test and demonstrate. `make help` lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:

GO      ?= go
GOFLAGS ?= -mod=readonly
export GOFLAGS

# Caches live outside the tree, where a fresh clone finds them again.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/bisectd
TOOLS := $(CACHE)/tools

GOLANGCI_VERSION := v2.15.0
GOLANGCI         := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)

AGENT := vm/guest/bin/init
PROBE := workloads/probes/bin/timerprobe

# What the three products are made of; the commands that make the guest's two
# stand beside their packages, for go generate. Work on the host's side does
# not rebuild what runs in the guest.
AGENT_SOURCES := $(shell find vm/guest -name '*.go' ! -name '*_test.go')
PROBE_SOURCES := $(shell find workloads/probes/src -type f)
GO_SOURCES    := $(shell find . -name '*.go' ! -name '*_test.go')
EMBEDDED      := $(shell find bisect configs kbuild vm workloads -type f ! -name '*.go' ! -path '*/testdata/*' ! -path '*/bin/*')

# The packaged kernel that tests boot; Debian's smallest.
TEST_KERNEL ?= linux-image-cloud-amd64

# The versions whose packaged kernels the table in docs/semantics.md is about.
PROBE_KERNELS ?= 5.10 6.1 6.12 6.16 6.17 6.18 6.19 7.0 7.1 7.2 newest

FUZZTIME     ?= 10s
UNIT_TIMEOUT ?= 10m
TEST_TIMEOUT ?= 25m
E2E_TIMEOUT  ?= 80m

.DEFAULT_GOAL := build
.PHONY: help deps deps-demo toolchain build vet lint unit integration test probe-table demo e2e fuzz simulate bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what building and testing need and this machine lacks (apt)
	@.ci/deps

deps-demo: ## the same, and the kernel source that the demonstration starts from
	@.ci/deps --demo

toolchain:
	@.ci/toolchain $(GO)

build: bin/bisectd ## build bin/bisectd with the guest's programs inside

$(AGENT): $(AGENT_SOURCES) go.mod go.sum | toolchain
	$(GO) generate ./vm/guest
	@touch $@

$(PROBE): $(PROBE_SOURCES) workloads/probes/probes.go | toolchain
	$(GO) generate ./workloads/probes

bin/bisectd: $(GO_SOURCES) $(EMBEDDED) $(AGENT) $(PROBE) go.mod go.sum | toolchain
	$(GO) build -trimpath -o $@ ./cmd/bisectd
	@touch $@

vet: $(AGENT) $(PROBE) ## go vet, the tests behind build tags included
	$(GO) vet ./...
	$(GO) vet -tags e2e ./...

lint: $(AGENT) $(PROBE) $(GOLANGCI) ## golangci-lint, pinned; its first build takes minutes
	$(GOLANGCI) run ./...

$(GOLANGCI): | toolchain
	@mkdir -p $(TOOLS)
	@echo "building golangci-lint $(GOLANGCI_VERSION) (once; minutes)"
	@cd $(TOOLS) && GOBIN=$(TOOLS)/.new GOFLAGS= \
	    $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(TOOLS)/.new/golangci-lint $@ && rmdir $(TOOLS)/.new

unit: $(AGENT) $(PROBE) ## unit tests under the race detector; nothing is booted
	$(GO) test -race -short -timeout $(UNIT_TIMEOUT) ./...

integration: $(AGENT) $(PROBE) ## every test, with a packaged kernel to boot in QEMU (fetched, not installed)
	@variables=$$($(GO) run .ci/testkernel.go $(CACHE)/packages $(TEST_KERNEL)); \
	    mapfile -t variables <<<"$$variables"; \
	    set -x; env "$${variables[@]}" $(GO) test -p 1 -timeout $(TEST_TIMEOUT) ./...

test: deps ## everything but the demonstration: build, vet, lint, unit, a real kernel in QEMU
	$(MAKE) build
	$(MAKE) vet
	$(MAKE) lint
	$(MAKE) unit
	$(MAKE) integration

probe-table: $(AGENT) $(PROBE) ## what the probe finds on a packaged kernel of each release since 5.10, held to docs/semantics.md
	$(GO) run .ci/probetable.go $(CACHE)/packages docs/semantics.md $(PROBE_KERNELS)

demo: deps-demo ## find three planted changes in a real kernel range, from source to report
	$(MAKE) build
	bin/bisectd demo

e2e: deps-demo ## the same as a test: builds and boots kernels for half an hour or more
	$(MAKE) build
	$(GO) test -tags e2e -timeout $(E2E_TIMEOUT) -v ./cmd/bisectd/...

fuzz: $(AGENT) $(PROBE) ## run each fuzz target for FUZZTIME (10s)
	@.ci/fuzz $(GO) $(FUZZTIME)

simulate: build ## how often the policy is right in made-up worlds, and what that costs
	bin/bisectd simulate

bench: $(AGENT) $(PROBE) ## run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

clean: ## remove what was built here; caches and runs stay
	rm -rf bin out $(AGENT) $(PROBE)
