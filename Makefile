# kubehsm: what there is to do with a checkout. `make` lists it.

SHELL := /bin/bash
.DEFAULT_GOAL := help

GO ?= go
# The folder that the trial lives in; nothing outside it is touched.
DEMO_DIR ?= $(CURDIR)/.demo
# How long each fuzzer runs: a time, or a number of inputs (2000x).
FUZZTIME ?= 3s
# How long the soak lasts, and how many faults it makes beside it.
SOAK ?= 10m
FAULTS ?= 200
# What builds and tests in half the time: for all that is not measured or released. The control
# plane is built so, too, and Go's build cache serves both.
QUICK := $(shell $(GO) env GOFLAGS 2>/dev/null) -trimpath '-gcflags=all=-N -l'
# The folder that reports of physical tokens go to.
REPORTS ?= test/tokens/physical
# The auth provider for clients of other people, a module of its own.
PROVIDER := plugin/externalsigner/provider
# A version control system that is missing or mistrusts the folder is no reason not to build.
BUILD := $(GO) build -buildvcs=false
# What `kubehsm version` says; from an archive, which has no history, nobody knows.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

##@ Use
demo demo-down test: export GOFLAGS := $(QUICK)

.PHONY: demo
demo: ## try it: a trial token, a trial cluster, kubectl signed in by the token
	@test/install/debian.sh demo
	@$(GO) run -buildvcs=false ./test/demo up '$(DEMO_DIR)'

.PHONY: demo-down
demo-down: ## stop the trial and remove every trace of it
	@$(GO) run -buildvcs=false ./test/demo down '$(DEMO_DIR)'

.PHONY: build
build: ## build ./kubehsm and ./kubehsm-credential
	CGO_ENABLED=0 $(BUILD) -trimpath -o kubehsm-credential ./plugin/kubehsm-credential
	$(BUILD) -trimpath $(if $(VERSION),-ldflags '-X github.com/kubehsm/kubehsm/ui.version=$(VERSION)') -o kubehsm .

.PHONY: kubectl-externalsigner
kubectl-externalsigner: ## build ./kubectl-externalsigner, a kubectl that asks a signer itself (docs/kubectl.md)
	flags=$$(GOOS= GOARCH= $(GO) run -buildvcs=false ./test/stamp/flags test/kubectl-externalsigner k8s.io/kubectl) && \
	  cd test/kubectl-externalsigner && $(BUILD) -trimpath -ldflags "$$flags" -o '$(CURDIR)/kubectl-externalsigner' .

##@ Check
.PHONY: test
test: ## what every change must pass: formatting, go vet, unit tests, the main job end to end
	@test/install/debian.sh test
	@$(MAKE) --no-print-directory gofmt
	$(GO) vet ./...
	$(GO) test -vet=off -timeout 10m $$($(GO) list ./... | grep -v '/test\(/\|$$\)') ./test/layout
	cd $(PROVIDER) && $(GO) test -timeout 10m ./...
	@$(MAKE) --no-print-directory cluster
	@$(GO) -C test/kubectl-externalsigner list -deps . >/dev/null # fetches: the tests have no network
	$(GO) test -vet=off -count=1 -timeout 10m ./test/e2e

# The parts of `make check`: docs/testing.md says what each is for. Each runs on its own.
CHECKS := race lint platforms fuzz reading scenarios cards integration transparency faults fault-defects adversary \
  revocation approver modules clients packaging wine
NIGHTLY := conformance soak bench
comma := ,

.PHONY: check
check: ## everything else, part by part (ONLY=race,fuzz: only these; docs/testing.md)
	@failed=; for part in $(if $(ONLY),$(subst $(comma), ,$(ONLY)),$(CHECKS)); do \
	  echo "== $$part"; began=$$SECONDS; \
	  $(MAKE) --no-print-directory check-$$part ONLY= || failed="$$failed $$part"; \
	  echo "== $$part: $$(( (SECONDS - began) / 60 )) min $$(( (SECONDS - began) % 60 )) s"; \
	done; [ -z "$$failed" ] || { echo "== failed:$$failed"; exit 1; }

.PHONY: $(addprefix check-,$(CHECKS) $(NIGHTLY))
QUICK_CHECKS := scenarios cards integration transparency faults fault-defects adversary revocation approver clients modules
$(addprefix check-,$(QUICK_CHECKS)): export GOFLAGS := $(QUICK)

check-race: prerequisites
	$(GO) test -race -vet=off -timeout 20m $$($(GO) list ./... | grep -v '/test\(/\|$$\)')
	cd $(PROVIDER) && $(GO) test -race -vet=off -timeout 20m ./...

check-lint: gofmt golangci-lint actionlint
	$(GOLANGCI_LINT) --build-tags hardware,packages,defects,wine
	'$(BIN)/actionlint' -shellcheck= -pyflakes= .github/workflows/*.yml
	@# golangci-lint would look through all of Kubernetes for the few lines of these.
	cd test/cluster && GOFLAGS="$(QUICK)" $(GO) vet . && GOFLAGS="$(QUICK)" $(GO) vet -tags=whole .
	cd test/reading && GOFLAGS="$(QUICK)" $(GO) vet ./...
	cd test/clients/clientgo && GOFLAGS="$(QUICK)" $(GO) vet ./...
	cd test/integration/kubeadm/program && GOFLAGS="$(QUICK)" $(GO) vet ./...
	cd $(PROVIDER) && GOFLAGS=-trimpath $(GOLANGCI_LINT)
	cd test/kubectl-externalsigner && GOFLAGS=-trimpath $(GOLANGCI_LINT)
	cd $(APPROVER) && GOFLAGS=-trimpath $(GOLANGCI_LINT) --build-tags bars

check-platforms:
	$(GO) test -count=1 -timeout 20m -tags platforms -v -run '^TestBuildsWithoutCgo$$' ./test/layout

check-fuzz:
	@$(MAKE) --no-print-directory fuzz FUZZTIME=1000x

check-reading:
	cd test/reading && GOFLAGS="$(QUICK)" $(GO) test ./...

check-scenarios: prerequisites cluster
	$(GO) test -vet=off -count=1 -timeout 20m ./test/scenarios

check-cards: prerequisites cluster
	$(GO) test -vet=off -count=1 -timeout 20m ./test/scenarios/card

# One package at a time: they pick ports on one loopback.
OWN_PARTS := layout|e2e|scenarios|transparency|faults|adversary|revocation|modules|clients|packaging|wine|conformance|bench
check-integration: prerequisites cluster
	$(GO) test -vet=off -count=1 -p 1 -timeout 20m $$($(GO) list ./test/... | grep -vE '/test/($(OWN_PARTS))(/|$$)') \
	  ./test/conformance ./test/bench

check-transparency: prerequisites cluster
	$(GO) test -vet=off -count=1 -timeout 20m ./test/transparency

check-faults: prerequisites cluster
	FAULTS=$(FAULTS) SEED=$(or $(SEED),$$(date +%s)) $(GO) test -vet=off -count=1 -timeout 3h -v -run '^TestFaults$$' ./test/faults

check-fault-defects: prerequisites cluster
	$(GO) test -vet=off -count=1 -timeout 1h -tags defects -v -run '^TestDefectsAreFound$$$(if $(DEFECT),/$(DEFECT))' ./test/faults

check-adversary: prerequisites cluster
	$(GO) test -vet=off -count=1 -timeout 90m -v -run '^Test' ./test/adversary -defect '$(or $(DEFECT),*)'

check-revocation: cluster
	$(GO) test -vet=off -count=1 -timeout 20m ./test/revocation
	$(GO) test -vet=off -count=1 -timeout 40m -v -run '^TestCost$$' ./test/revocation -revoked 20000 -writes 1000 -rounds 4 -bar 1.1

check-approver: prerequisites cluster
	cd $(APPROVER) && $(GO) test -trimpath -count=1 -timeout 20m ./...

check-modules: prerequisites
	$(GO) test -vet=off -count=1 -timeout 20m ./test/modules

check-clients: cluster
	@test/install/debian.sh clients
	@$(MAKE) --no-print-directory clients

check-packaging: package-check
	$(GO) test -vet=off -count=1 ./test/packaging

check-wine: windows-check
check-conformance: conformance
check-soak: soak
check-bench: bench

.PHONY: gofmt
gofmt:
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go' 2>/dev/null || find . -name '*.go')); \
	  [ -z "$$unformatted" ] || { echo "not gofmt'ed:"; echo "$$unformatted"; exit 1; }

.PHONY: fuzz
fuzz: ## every fuzzer for FUZZTIME (3s); what one finds is kept under its testdata
	@failed=; \
	for dir in $$(git ls-files --cached --others --exclude-standard '*_test.go' 2>/dev/null | xargs grep -l '^func Fuzz' | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -h -o '^func Fuzz[A-Za-z0-9]*' "$$dir"/*_test.go | cut -c6-); do \
	    $(GO) test -C "$$dir" -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x . || failed=1; \
	  done; \
	done; [ -z "$$failed" ] || { echo '== a fuzzer found something: commit its input with the fix'; exit 1; }

.PHONY: bench
bench: prerequisites cluster-whole ## measure against peers, write docs/benchmarks.md (ONLY=start,kubectl: print only these)
	$(GO) run -buildvcs=false ./test/bench $(if $(ONLY),-only '$(ONLY)')

.PHONY: conformance
conformance: prerequisites cluster-whole ## run kubectl's own suite with a key file and through the token (ONLY=run_kuberc_tests: only that group)
	$(GO) run -buildvcs=false ./test/conformance $(ONLY)

.PHONY: soak
soak: prerequisites cluster ## 50 watchers and 20 kubectl loops for SOAK (10m), 5000 commands, then 5000 faults of SEED
	$(GO) test -count=1 -timeout 40m -v -run '^TestSoak$$' ./test/informers -soak $(SOAK)
	$(GO) test -count=1 -v -run '^TestManyCommands$$' ./plugin/agent/host -commands 5000
	@$(MAKE) --no-print-directory check-faults FAULTS=5000

CLIENT := CGO_ENABLED=0 $(BUILD) -trimpath -o $(CURDIR)/.cache/clients
.PHONY: clients
clients: cluster ## build kubectl, client-go and helm in many versions, try them and others, write docs/clients.md (10 minutes the first time)
	@test/install/debian.sh clients
	cd test/clients/kubectl && $(CLIENT)/kubectl-1.34 . && for v in 1.27 1.31; do $(CLIENT)/kubectl-$$v -modfile=$$v.mod . || exit 1; done
	cd test/clients/clientgo && $(CLIENT)/clientgo-0.37 . && $(CLIENT)/clientgo-0.20 -modfile=0.20.mod .
	cd test/helm && $(CLIENT)/helm helm.sh/helm/v3/cmd/helm
	$(GO) test -count=1 -timeout 20m -v ./test/clients -all -write
	$(GO) test -count=1 -timeout 20m -v -run '^TestFaults$$' ./test/transparency -verbs

.PHONY: picture
picture: prerequisites cluster ## draw the README's picture from the real program
	$(GO) run -buildvcs=false ./test/picture

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
prerequisites: ## install what `make check` needs (says what and why)
	@test/install/debian.sh check

.PHONY: cluster
cluster: ## build the control plane that tests run on, unless the machine has one (KUBEBUILDER_ASSETS, PATH)
	@$(GO) run -buildvcs=false ./test/controlplane/buildcluster

.PHONY: cluster-whole
cluster-whole: ## build the control plane that measurements run on: optimized, with the whole controller manager
	@$(GO) run -buildvcs=false ./test/controlplane/buildcluster -whole

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
.PHONY: clean
clean: ## remove what was built (the trial is left: see demo-down)
	rm -rf kubehsm kubectl-externalsigner dist .cache

.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
