#!/usr/bin/env bash
# The main job on this very machine: GROMACS, unmodified from Debian, on two
# emulated hosts.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "\$ bee --sites examples/sites.yaml run examples/gromacs/job.yaml"
bin/bee --sites examples/sites.yaml run examples/gromacs/job.yaml
echo
echo "\$ bee show salt-water"
bin/bee show salt-water
echo
grep 'Conserved energy drift' examples/gromacs/md.log
echo "The results are in examples/gromacs."
