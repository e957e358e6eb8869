#!/bin/sh
# The step of each CI service: by BEE_CI_MODE, run a job to its end, submit it with a
# ticket, or wait for the run of a ticket. bee shows the output of the job, writes the
# results and ends with the exit code of the job.
set -eu
bee=$BEE_CI_BEE
case $bee in
bee | */*) ;; # in PATH, or a path
*) # a version
  from=${BEE_CI_RELEASES:-https://github.com/bee-hpc/bee/releases/download}/v$bee
  to=$PWD/.bee-$bee bee=$PWD/.bee-$bee/bin/bee
  if [ ! -x "$bee" ]; then
    mkdir -p "$to"
    curl -fsSL --retry 3 -o "$to/install.sh" "$from/install.sh"
    sh "$to/install.sh" --from "$from" --prefix "$to"
  fi
  ;;
esac
BEE_TICKET_KEY=$(printenv "$BEE_CI_KEY_VARIABLE" || true)
export BEE_TICKET_KEY
set -- --junit "$BEE_CI_RESULTS/junit.xml" --summary "$BEE_CI_RESULTS/summary.md" --dotenv "$BEE_CI_RESULTS/run.env"
case $BEE_CI_MODE in
wait)
  if [ ! -s "$BEE_CI_TICKET" ] && [ -s "$BEE_CI_RESULTS/junit.xml" ]; then
    echo "There is no ticket, as the run was over when it was submitted."
    grep -q ' failures="0" errors="0" ' "$BEE_CI_RESULTS/junit.xml" && exit 0
    echo "The run was over when it was submitted, and did not succeed: see its results." >&2
    exit 1
  fi
  exec "$bee" --sites "$BEE_CI_SITES" wait -f --ticket "$BEE_CI_TICKET" "$@"
  ;;
submit)
  rm -f "$BEE_CI_TICKET" # of an earlier pipeline
  set -- -d --ticket "$BEE_CI_TICKET" "$@"
  ;;
esac
[ -z "$BEE_CI_IMAGE" ] || set -- --image "$BEE_CI_IMAGE" "$@"
exec "$bee" --sites "$BEE_CI_SITES" run "$@" "$BEE_CI_JOB"
