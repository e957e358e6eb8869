# BEE's own tasks. As root they install what they need; for an ordinary user they
# print what is missing.

GO      ?= go
# What one task has compiled the others have, as all compile with the same flags.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -trimpath)
VERSION ?= $(or $(patsubst v%,%,$(shell git describe --tags --dirty 2>/dev/null)),0.1.0)
FLAGS    = -trimpath -ldflags "-s -w -X github.com/bee-hpc/bee/internal/cli.Version=$(VERSION)"

.PHONY: build verbs demo test test-long quick histories race bench docs lint release clean

build: verbs              ## the static binary, bin/bee
	CGO_ENABLED=0 $(GO) build $(FLAGS) -o bin/bee ./cmd/bee

verbs:                    ## the library for BEE's own verbs device, which bin/bee embeds; takes a C compiler
	! command -v dpkg-query >/dev/null || hack/deps.sh build
	hack/verbs.sh $(shell $(GO) env GOARCH)

demo: build               ## GROMACS on two emulated hosts of this machine
	hack/deps.sh demo
	hack/demo.sh

test: build               ## every promise: unit, conformance, end to end, as a user and as root
	hack/deps.sh test
	hack/test.sh

test-long: build          ## the same with the long forms of tests, before a release
	hack/deps.sh test
	hack/openstack.sh
	BEE_TEST_LONG=1 hack/test.sh

quick: build              ## unit tests and one run from end to end, within 3 minutes
	BEE_TEST_BINARY=$(CURDIR)/bin/bee CGO_ENABLED=0 $(GO) test -short -p 4 -vet=off ./internal/node ./internal/vm ./internal/control/runner ./cmd/... ./internal/... ./test/docs
	BEE_TEST_BINARY=$(CURDIR)/bin/bee CGO_ENABLED=0 $(GO) test -count=1 -vet=off -run 'TestRunShowsOutputAndBringsResultsHome$$' ./test/e2e

N ?= 100000
histories:                ## N new random histories of runs, in virtual time
	BEE_TEST_HISTORIES=$(N) CGO_ENABLED=0 $(GO) test -count=1 -v -timeout 0 -run 'TestRandomHistories$$' ./internal/control/runner

race: build               ## data races, where much happens at once; takes a C compiler
	hack/deps.sh race
	hack/race.sh

bench: build              ## measurements, as ratios within one run
	hack/deps.sh bench
	hack/bench.sh

docs:                     ## the documentation as a site for any browser, without a network: dist/docs/index.html
	hack/deps.sh docs
	PYTHONDONTWRITEBYTECODE=1 NO_MKDOCS_2_WARNING=1 /usr/local/share/bee-test/site/bin/mkdocs build

lint:                     ## golangci-lint with .golangci.yml: formatting, vet, import direction; types of the Python client
	hack/deps.sh lint
	$(GO) mod tidy -diff
	CGO_ENABLED=0 golangci-lint run
	mypy --strict --python-version 3.9 --cache-dir /dev/null clients/python/bee

release:                  ## archives, packages, wheels, sums and SBOM in dist/, the same bytes for the same commit
	hack/deps.sh release
	hack/verbs.sh $(shell $(GO) env GOARCH)
	VERSION=$(VERSION) hack/release.sh

clean:
	rm -rf bin dist
