# Targets for people and for CI. `make help` lists them.
#
# Tools are Go modules under tools/, so that their versions are pinned and the
# Go toolchain is all they need; their binaries go to .bin.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/.bin
export PATH := $(BIN):$(PATH)

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
FUZZTIME ?= 10s
FUZZ ?= ./...

# The modules beside the main one that have code of ours. bench/gozero is not
# among them: to look at its twenty lines, a fresh machine would download and
# compile the hundred modules below go-zero, which takes minutes.
MODULES := $(patsubst %/go.mod,%,$(wildcard bench/go.mod tools/interop/go.mod tools/protogen/go.mod tools/vulncheck/go.mod))

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

.PHONY: test
test: deps lint vuln ## everything CI checks: what it needs, lint, generated code, known vulnerabilities, tests with the race detector
	$(foreach m,$(MODULES),go test -C $(m) -race -timeout 20m ./... &&) true
	$(MAKE) --no-print-directory fuzz FUZZTIME=3s FUZZ=./transcode
	go test -race -timeout 20m ./...

.PHONY: quick
quick: ## the tests alone, without the race detector and without installing anything
	go test ./...

.PHONY: lint
lint: $(BIN)/golangci-lint ## go vet, golangci-lint, and whether generated code is up to date
	go vet ./...
	$(foreach m,$(MODULES),go vet -C $(m) ./... &&) true
	golangci-lint run ./...
	$(foreach m,$(MODULES),(cd $(m) && golangci-lint run -c $(CURDIR)/.golangci.yml ./...) &&) true
	$(PROTOGEN) $(ADMIN) -check $(ADMIN_PROTOS)
	$(PROTOGEN) $(SHOP) -check $(SHOP_PROTOS)
	$(PROTOGEN) $(ORDER) -check order.proto
	$(PROTOGEN) $(CATALOG) -check catalog/catalog.proto
	$(PROTOGEN) $(LEDGER) -check ledger.proto

.PHONY: vuln
vuln: ## known vulnerabilities in what is called; those of the standard library are told only
	go run -C tools/vulncheck .

# `go test -fuzz` may fail with its own deadline where the time is over while it
# still runs the seeds: that is no finding, which has a failing input.
FUZZLOG := $(BIN)/fuzz.log

.PHONY: fuzz
fuzz: | $(BIN) ## run each fuzz target of FUZZ (./...) for FUZZTIME (10s); `make test` runs their seeds, and transcode's for 3s each
	@go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $(FUZZ) | while read -r pkg; do \
	  go test -list '^Fuzz' "$$pkg" | { grep '^Fuzz' || true; } | while read -r target; do \
	    echo "== $$pkg $$target"; \
	    if ! go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg" >$(FUZZLOG) 2>&1; then \
	      cat $(FUZZLOG); \
	      grep -q '^    context deadline exceeded$$' $(FUZZLOG) && ! grep -q 'Failing input' $(FUZZLOG) || exit 1; \
	    fi; \
	    tail -n 2 $(FUZZLOG); \
	  done; \
	done

SEED ?= 1
SEEDS ?= 1
TIME ?= 45s

.PHONY: chaos
chaos: packages $(BIN)/etcd ## random faults over a steady load, and an account of every call: SEED=1, the first of SEEDS=1 seeds, TIME=45s each
	go test -count=1 -v -timeout 0 -run '^TestChaos$$' ./integration/chaos -chaos.seed=$(SEED) -chaos.seeds=$(SEEDS) -chaos.time=$(TIME)

.PHONY: bench
bench: ## the gateway against its peers, side by side (bench/)
	go run -C bench ./cmd/bench

.PHONY: build
build: ## .bin/gateway and .bin/shop
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o $(BIN)/gateway ./cmd/gateway
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o $(BIN)/shop ./examples/shop

PROTOGEN := go run -C tools/protogen .
ADMIN := -proto ../../admin/proto -out ../../admin/adminpb
ADMIN_PROTOS := $(patsubst admin/proto/%,%,$(wildcard admin/proto/rpcgate/admin/v1/*.proto))
SHOP := -proto ../../examples/shop/proto -out ../../examples/shop/shoppb
SHOP_PROTOS := $(patsubst examples/shop/proto/%,%,$(wildcard examples/shop/proto/shop/*.proto))
CATALOG := -proto ../../bench/proto -out ../../bench/internal/catalogpb
LEDGER := -proto ../../integration/ledger/proto -out ../../integration/ledger/ledgerpb
ORDER := -proto ../../transcode/internal/orderpb/proto -out ../../transcode/internal/orderpb

.PHONY: generate
generate: ## the Go code of the .proto files
	$(PROTOGEN) $(ADMIN) $(ADMIN_PROTOS)
	$(PROTOGEN) $(SHOP) $(SHOP_PROTOS)
	$(PROTOGEN) $(ORDER) order.proto
	$(PROTOGEN) $(CATALOG) catalog/catalog.proto
	$(PROTOGEN) $(LEDGER) ledger.proto

# Programs of other modules' that tests run, by the module under tools/ that
# pins them. The tests build them themselves; built here first, that takes no
# time out of theirs.
PROGRAMS := conformance:connectrpc.com/conformance/cmd/connectconformance \
  conformance:connectrpc.com/conformance/cmd/referenceserver conformance:connectrpc.com/conformance/cmd/grpcserver \
  h2spec:github.com/summerwind/h2spec/cmd/h2spec interop:. interop:google.golang.org/grpc/interop/client

.PHONY: deps
deps: packages programs $(BIN)/golangci-lint conformance-runner ## what the tests need: servers, clients, a browser, suites of others, golangci-lint

.PHONY: programs
programs: $(BIN)/etcd $(BIN)/grpcurl
	@$(foreach p,$(PROGRAMS),go build -C tools/$(firstword $(subst :, ,$p)) -o /dev/null $(lastword $(subst :, ,$p)) &&) true

# Debian's packages. Node itself comes from npm, as Debian's is too old for some
# of the clients.
.PHONY: packages
packages:
	@missing=; \
	for program in redis-server npm chromium curl; do \
	  command -v "$$program" >/dev/null || missing+=" $$program"; \
	done; \
	for program in ip:iproute2 iptables:iptables; do \
	  PATH="$$PATH:/usr/sbin:/sbin" command -v "$${program%:*}" >/dev/null || missing+=" $${program#*:}"; \
	done; \
	/usr/bin/python3 -c 'import grpc' 2>/dev/null || missing+=" python3-grpcio"; \
	[ -n "$$missing" ] || exit 0; \
	if ! command -v apt-get >/dev/null; then \
	  echo "the tests need these packages of Debian, or what your system has in their place:$$missing" >&2; exit 1; \
	fi; \
	sudo=; \
	if [ "$$(id -u)" != 0 ]; then \
	  command -v sudo >/dev/null || { echo "the tests need more: as root, apt-get install$$missing" >&2; exit 1; }; \
	  sudo=sudo; \
	fi; \
	$$sudo apt-get update -q; \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing

# Into the user's cache folder; the test does so itself, if need be.
.PHONY: conformance-runner
conformance-runner: packages
	@integration/protobufsuite/install.sh >/dev/null

$(BIN)/etcd: tools/etcd/go.mod tools/etcd/go.sum tools/etcd/main.go
	go build -C tools/etcd -o $@ .

$(BIN)/grpcurl: tools/grpcurl/go.mod tools/grpcurl/go.sum
	go build -C tools/grpcurl -o $@ github.com/fullstorydev/grpcurl/cmd/grpcurl

$(BIN)/golangci-lint: tools/lint/go.mod tools/lint/go.sum
	go build -C tools/lint -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: clean
clean: ## remove .bin
	rm -rf $(BIN)
