#!/usr/bin/env bash
# The packages in which much happens at once, under Go's race detector. It needs cgo,
# which BEE itself does not, and makes tests some ten times slower: so it is no part
# of `make test`, and plays few of the random histories.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=1 BEE_TEST_BINARY=$PWD/bin/bee BEE_TEST_HISTORIES=${BEE_TEST_HISTORIES:-20}
go test -race -count=1 -timeout 60m ./internal/wire/... ./internal/treesync ./internal/fabric/... ./internal/node/... \
  ./internal/state ./internal/image/... ./internal/tasklog ./internal/control ./internal/control/runner ./internal/provider/ssh ./internal/sshlink/...
