#!/usr/bin/env bash
# Measure, and show the table. docs/explanation/benchmarks.md keeps the last one.
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./test/bench "$@"
