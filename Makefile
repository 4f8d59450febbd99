# kubehsm: what there is to do with a checkout. `make` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help

GO ?= go
# The folder that the trial lives in; nothing outside it is touched.
DEMO_DIR ?= $(CURDIR)/.demo
# How long each fuzzer runs: a time, or a number of inputs (2000x).
FUZZTIME ?= 3s
# go test, with a second try for a test that fails; those that then pass are listed here.
FLAKY := .cache/flaky
AGAIN := $(GO) run -buildvcs=false ./test/again '$(FLAKY)'
# How long the soak lasts, and how many faults it makes beside it.
SOAK ?= 10m
FAULTS ?= 5000
# What the race hunt tests, and with how many seeds.
PKG ?= ./hsm/... ./csr/... ./kubeconfig/... ./plugin/... ./ui/...
RUNS ?= 10
# The folder that reports of physical tokens go to; those in this one are shown in docs/tokens.md.
REPORTS ?= test/tokens/physical
# The generator of gRPC code, a module of its own.
GENERATE := plugin/externalsigner/v1alpha1/generate
# A version control system that is missing or mistrusts the folder is no reason not to build.
BUILD := $(GO) build -buildvcs=false
# What `kubehsm version` says; from an archive, which has no history, nobody knows.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

##@ Use
.PHONY: demo
demo: ## try it: a trial token, a trial cluster, kubectl signed in by the token (DEMO_CONTEXT=kind-kind: in the cluster of that context)
	@test/install/debian.sh demo
	@$(GO) run -buildvcs=false ./test/demo up '$(DEMO_DIR)' $(if $(DEMO_CONTEXT),'$(DEMO_CONTEXT)')

.PHONY: demo-fleet
demo-fleet: ## watch twenty people join with virtual cards, while nobody at the help desk does anything
	@test/install/debian.sh fleet
	@$(GO) run -buildvcs=false ./test/demo fleet '$(DEMO_DIR)'

.PHONY: demo-down
demo-down: ## stop the trial and remove every trace of it
	@$(GO) run -buildvcs=false ./test/demo down '$(DEMO_DIR)'

.PHONY: build
build: ## build ./kubehsm and ./kubehsm-credential
	CGO_ENABLED=0 $(BUILD) -trimpath -o kubehsm-credential ./plugin/kubehsm-credential
	$(BUILD) -trimpath -tags grpcnotrace $(if $(VERSION),-ldflags '-X github.com/kubehsm/kubehsm/ui.version=$(VERSION)') -o kubehsm .

.PHONY: kubectl-externalsigner
kubectl-externalsigner: ## build ./kubectl-externalsigner, a kubectl that asks a signer itself (docs/kubectl.md)
	flags=$$(GOOS= GOARCH= $(GO) run -buildvcs=false ./test/stamp/flags test/kubectl-externalsigner k8s.io/kubectl) && \
	  cd test/kubectl-externalsigner && $(BUILD) -trimpath -ldflags "$$flags" -o '$(CURDIR)/kubectl-externalsigner' .

##@ Check
.PHONY: test
# One package of integration tests at a time: they pick ports on one loopback.
test: prerequisites cluster ## everything: prerequisites, control plane, lint, all tests; lists FLAKY ones
	@failed=; rm -f '$(FLAKY)'; \
	$(MAKE) --no-print-directory lint || failed=1; \
	echo '== unit and contract tests, with the race detector'; \
	$(AGAIN) -race -timeout 30m -- $$($(GO) list ./... | grep -v '/test\(/\|$$\)') || failed=1; \
	echo '== requests, as the API server reads them'; \
	(set -o pipefail; cd test/reading && CGO_ENABLED=0 $(GO) test -trimpath -v ./... | { grep -v 'RUN  \|PASS: Fuzz\|no test files' || true; }) || failed=1; \
	echo '== every fuzzer, on a bounded number of inputs'; \
	$(MAKE) --no-print-directory fuzz FUZZTIME=1000x || failed=1; \
	echo '== integration and end-to-end tests, on real parts'; \
	$(AGAIN) -p 1 -timeout 30m -- ./test/... || failed=1; \
	echo '== the approver, in a real cluster'; \
	(cd $(APPROVER) && $(GO) test -trimpath ./...) || failed=1; \
	[ ! -e '$(FLAKY)' ] || { echo '== failed, then passed when run again, alone: find the race (make race-hunt)'; cat '$(FLAKY)'; }; \
	[ -z "$$failed" ] || { echo '== something failed: see above'; exit 1; }

.PHONY: bench
bench: prerequisites cluster ## measure against peers, write docs/benchmarks.md (ONLY=cold,kubectl: print only these)
	$(GO) run -buildvcs=false ./test/bench $(if $(ONLY),-only '$(ONLY)')

.PHONY: revocation-cost
revocation-cost: cluster ## measure how long a write takes with 20000 revoked certificates against none
	$(GO) test -count=1 -timeout 40m -v -run '^TestCost$$' ./test/revocation -revoked 20000 -writes 1000 -rounds 4 -bar 1.1

.PHONY: conformance
conformance: prerequisites cluster ## run Kubernetes' own suites with a key file and through the token, write docs/conformance.md; a run goes on where one was stopped (ONLY=kubectl: only that suite)
	$(GO) run -buildvcs=false ./test/conformance $(if $(ONLY),-only '$(ONLY)')

.PHONY: soak
soak: prerequisites cluster ## 50 watchers and 20 kubectl loops for SOAK (10m), 5000 commands, then FAULTS (5000) faults of SEED
	$(GO) test -count=1 -timeout 40m -v -run '^TestSoak$$' ./test/informers -soak $(SOAK)
	$(GO) test -count=1 -v -run '^TestManyCommands$$' ./plugin/agent/host -commands 5000
	@$(MAKE) --no-print-directory faults

.PHONY: faults
faults: prerequisites cluster ## kill, suspend, fill the disk, move the clock: FAULTS=200 SEED=7, compared with a model
	FAULTS=$(FAULTS) SEED=$(or $(SEED),$$(date +%s)) $(GO) test -count=1 -timeout 3h -v -run '^TestFaults$$' ./test/faults

.PHONY: fault-defects
fault-defects: prerequisites cluster ## put defects into the program, one at a time: 200 faults must find each
	$(GO) test -count=1 -timeout 1h -tags defects -v -run '^TestDefectsAreFound$$' ./test/faults

.PHONY: adversary
adversary: prerequisites cluster ## put each known security defect back, one at a time: the attacks of test/adversary must catch it (DEFECT=name,name: only those)
	$(GO) test -count=1 -timeout 90m -v -run '^TestDefects$$' ./test/adversary $(if $(DEFECT),-defect '$(DEFECT)',-defects)

.PHONY: race-hunt
race-hunt: ## run tests with some statements delayed, to find racy tests: PKG=./plugin/agent/host RUNS=10 SEED=7 FLAGS=-race
	$(GO) run -buildvcs=false ./test/racehunt -runs $(RUNS) $(if $(SEED),-seed $(SEED)) -flags '$(FLAGS)' $(PKG)

.PHONY: clients
CLIENT := CGO_ENABLED=0 $(BUILD) -trimpath -o $(CURDIR)/.cache/clients
clients: prerequisites cluster ## build kubectl, client-go and helm in many versions, try them and others, write docs/clients.md (10 minutes the first time)
	cd test/clients/kubectl && $(CLIENT)/kubectl-1.34 . && for v in 1.27 1.31; do $(CLIENT)/kubectl-$$v -modfile=$$v.mod . || exit 1; done
	cd test/clients/clientgo && $(CLIENT)/clientgo-0.37 . && $(CLIENT)/clientgo-0.20 -modfile=0.20.mod .
	cd test/helm && $(CLIENT)/helm helm.sh/helm/v3/cmd/helm
	$(GO) test -count=1 -timeout 20m -tags helm -v -run '^(TestMatrix|TestHelm)$$' ./test/clients -all -write
	$(GO) test -count=1 -timeout 20m -v -run '^TestFaults$$' ./test/transparency -verbs

.PHONY: modules
modules: prerequisites ## try PKCS#11 modules of other makers and libraries that misbehave, write their rows of docs/tokens.md
	KUBEHSM_TOKENS=write $(GO) test -count=1 -timeout 20m -v ./test/modules
	$(GO) run -buildvcs=false ./test/tokens/table

.PHONY: pictures
pictures: prerequisites cluster ## draw docs/pictures anew from the real program
	$(GO) run -buildvcs=false ./test/picture

.PHONY: fuzz
fuzz: ## every fuzzer for FUZZTIME (3s); what one finds is kept under its testdata
	@failed=; \
	for dir in $$(git ls-files --cached --others --exclude-standard '*_test.go' 2>/dev/null | xargs grep -l '^func Fuzz' | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -h -o '^func Fuzz[A-Za-z0-9]*' "$$dir"/*_test.go | cut -c6-); do \
	    $(GO) test -C "$$dir" -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x . || failed=1; \
	  done; \
	done; [ -z "$$failed" ] || { echo '== a fuzzer found something: commit its input with the fix'; exit 1; }

.PHONY: hardware-check
hardware-check: ## read a token of yours, change nothing, write a report into REPORTS (TOKEN='piv:serial=...' if there are several)
	KUBEHSM_HARDWARE='$(or $(TOKEN),any)' KUBEHSM_REPORTS='$(abspath $(REPORTS))' \
	  $(GO) test -tags hardware -count=1 -timeout 0 -v -run '^TestCheck$$' ./test/tokens/hardware

.PHONY: hardware-suite
hardware-suite: ## ERASE a token, run the contract suite on it, write a report: TOKEN='piv:serial=...' ERASE=its-whole-serial
	@[ -n '$(TOKEN)' ] && [ -n '$(ERASE)' ] || { echo "name the token that may be erased: make hardware-suite TOKEN='piv:serial=...' ERASE=its-whole-serial (kubehsm token list shows both)"; exit 2; }
	KUBEHSM_HARDWARE='$(TOKEN)' KUBEHSM_ERASE='$(ERASE)' KUBEHSM_REPORTS='$(abspath $(REPORTS))' \
	  $(GO) test -tags hardware -count=1 -timeout 0 -v -run '^TestSuite$$' ./test/tokens/hardware

.PHONY: prerequisites
prerequisites: ## install what tests need (says what and why)
	@test/install/debian.sh test

.PHONY: cluster
cluster: ## build the control plane that tests run on (8 minutes the first time)
	@$(GO) run -buildvcs=false ./test/controlplane/buildcluster

.PHONY: lint
lint: golangci-lint actionlint ## gofmt, golangci-lint (.golangci.yml; 2 minutes the first time), workflows, generated code
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go' 2>/dev/null || find . -name '*.go')); \
	  [ -z "$$unformatted" ] || { echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; }
	$(GOLANGCI_LINT) --build-tags helm,hardware,packages,defects,wine
	'$(BIN)/actionlint' -shellcheck= -pyflakes= .github/workflows/*.yml
	@# golangci-lint would look through all of Kubernetes for the few lines of these.
	cd test/cluster && CGO_ENABLED=0 $(GO) vet -trimpath ./...
	cd test/reading && CGO_ENABLED=0 $(GO) vet -trimpath ./...
	cd test/clients/clientgo && CGO_ENABLED=0 $(GO) vet -trimpath ./...
	cd test/integration/kubeadm/program && CGO_ENABLED=0 $(GO) vet -trimpath ./...
	cd test/kubectl-externalsigner && GOFLAGS=-trimpath $(GOLANGCI_LINT)
	cd $(APPROVER) && GOFLAGS=-trimpath $(GOLANGCI_LINT) --build-tags bars
	cd $(GENERATE) && $(GOLANGCI_LINT) && $(GO) run -buildvcs=false . -check

# The programs that lint and release are pinned, each in a module of its own (test/tools).
BIN := $(CURDIR)/.cache/bin
# go vet is one of its linters. Bounded, so that it fits beside a control plane in 4 GB.
GOLANGCI_LINT := GOGC=50 GOMEMLIMIT=3GiB '$(BIN)/golangci-lint' run ./...

.PHONY: golangci-lint
golangci-lint:
	@$(GO) -C test/tools/golangci-lint build -buildvcs=false -o '$(BIN)/' tool

.PHONY: actionlint
actionlint:
	@$(GO) -C test/tools/actionlint build -buildvcs=false -o '$(BIN)/' tool

##@ The approver (docs/fleet.md)
APPROVER := plugin/kubehsm-cluster

.PHONY: images
images: ## build the approver for amd64 and arm64, as one image in dist/images/kubehsm-cluster (an OCI layout)
	@mkdir -p dist/images
	cd $(APPROVER) && for arch in amd64 arm64; do CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(BUILD) -trimpath -ldflags '-s -w' \
	  -o '$(CURDIR)'/dist/images/kubehsm-cluster-$$arch . || exit 1; done
	$(GO) -C $(APPROVER) run -buildvcs=false ./image '$(CURDIR)/dist/images/kubehsm-cluster' \
	  amd64='$(CURDIR)/dist/images/kubehsm-cluster-amd64' arm64='$(CURDIR)/dist/images/kubehsm-cluster-arm64'

.PHONY: approver-bars
approver-bars: cluster ## 10000 requests, every twentieth forged, the leader killed, the API server restarted: none lost, none approved that is forged (REQUESTS=1000)
	cd $(APPROVER) && $(GO) test -trimpath -tags bars -count=1 -timeout 2h -v -run '^TestBars$$' . -requests $(or $(REQUESTS),10000)

.PHONY: approver-people
approver-people: prerequisites cluster ## 500 people with virtual cards, from a list to signed in, nobody decides on anything (PEOPLE=20)
	cd $(APPROVER) && $(GO) test -trimpath -count=1 -timeout 2h -v -run '^TestPeople$$' . -people $(or $(PEOPLE),500)

.PHONY: renewal-minutes
renewal-minutes: prerequisites cluster ## the agent renews a certificate of 10 minutes twice, the approver approves, kubectl watches: 15 minutes
	cd $(APPROVER) && $(GO) test -trimpath -tags minutes -count=1 -timeout 1h -v -run '^TestRenewalMinutes$$' .

##@ Release
.PHONY: goreleaser
goreleaser:
	@$(GO) -C test/tools/goreleaser build -buildvcs=false -o '$(BIN)/' tool

.PHONY: release-check
release-check: goreleaser ## check goreleaser.yaml (2 minutes the first time)
	'$(BIN)/goreleaser' check

# A checkout without a remote has no date, says goreleaser.
REMOTE := GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/kubehsm/kubehsm
.PHONY: snapshot
snapshot: release-check ## build the packages of this commit into ./dist and publish nothing
	@test/install/debian.sh release
	PATH='$(BIN)':'$(CURDIR)/test/packaging':"$$PATH" $(REMOTE) goreleaser release --snapshot --clean

.PHONY: release-files
release-files: release-check ## build the packages of this tag into ./dist/release, with their checksums
	@test/install/debian.sh release
	PATH='$(BIN)':'$(CURDIR)/test/packaging':"$$PATH" goreleaser release --clean --skip=announce,publish$(SKIP)
	test/packaging/release.sh files dist

.PHONY: sign
sign: ## sign the checksums of a release: make sign RELEASE=folder KEY=~/.ssh/release.pub (docs/releasing.md)
	@test/packaging/release.sh sign '$(RELEASE)' '$(KEY)'

.PHONY: reproduce
reproduce: snapshot ## build the packages a second time, in another folder and from nothing, and compare
	@test/packaging/reproduce.sh dist

.PHONY: arm64-check
arm64-check: ## build for linux/arm64 and run the program and a part of the unit tests under qemu
	@test/packaging/arm64.sh

.PHONY: windows-check
windows-check: prerequisites cluster ## build for Windows, and run unit tests, the program and kubectl.exe under Wine in a folder (1 GB)
	@test/wine/check.sh

.PHONY: package-check
package-check: snapshot formula-check ## check the packages; install the Debian one on bare systems (Debian 12 and 13) in a folder, and use it there
	KUBEHSM_DIST='$(CURDIR)/dist' $(GO) test -count=1 -v -tags packages -run '^TestDist' ./test/packaging
	@test/packaging/debian.sh dist bookworm
	@test/packaging/debian.sh dist trixie

.PHONY: formula-check
formula-check: ## install the Homebrew formula for this commit into a folder, without Homebrew
	@test/packaging/formula.sh check

.PHONY: formula
formula: ## print the Homebrew formula of a release: make formula VERSION=1.2.3 ARCHIVE=v1.2.3.tar.gz
	@test/packaging/formula.sh fill '$(VERSION)' '$(ARCHIVE)'

##@ Tidy
.PHONY: generate
generate: ## write generated code anew (gRPC, from externalsigner.proto); lint tells if it is stale
	cd $(GENERATE) && $(GO) run -buildvcs=false .

.PHONY: clean
clean: ## remove what was built (the trial is left: see demo-down)
	rm -rf kubehsm kubectl-externalsigner dist .cache

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
