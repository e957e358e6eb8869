#!/usr/bin/env bash
# Measure, and show the tables: what test/bench has, and without arguments also the studies of
# `bee bench` for the rest. docs/explanation/benchmarks.md keeps the last ones.
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./test/bench "$@"
[ $# = 0 ] || exit 0

# Nothing of the user's own sites and runs is involved. Results stay in dist/bench.
own=$(mktemp -d /var/tmp/bee-bench-XXXXXX)
trap 'rm -rf "$own"' EXIT
printf 'sites: [{name: here, provider: local}, {name: lab, provider: local, hosts: 4}]\n' > "$own/sites.yaml"
export BEE_STATE=$own/state BEE_SCRATCH=$own/scratch BEE_SITES=$own/sites.yaml
results=dist/bench/$(date +%Y%m%d-%H%M%S)
mkdir -p "$results"
bad=0
study() { # NAME SITE
  code=0
  bin/bee bench run "$1" --site "$2" --budget 40m -o "$results/$1" || code=$?
  case $code in
    0) bin/bee bench report "$results/$1" --markdown ;;
    204) echo "$1 is left out: this machine has nothing to compare" ;; # unsupported
    *) bad=$code ;;
  esac
}
study layers here
study beserra-stage2-comm here
study start here
study volumes here
study fabrics here
study bee-storage lab
exit $bad
