#!/usr/bin/env bash
# Formatting, vet, and the direction of imports (.golangci.yml has the rules
# for editors; the test in internal/house holds them in CI).
set -euo pipefail
bad=$(gofmt -l cmd docs internal test)
[ -z "$bad" ] || { echo "not formatted: $bad" >&2; exit 1; }
go vet ./...
go test ./internal/house
