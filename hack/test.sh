#!/usr/bin/env bash
# The tests: each one as an ordinary user and, beside these, as root, those that root
# changes; both with an empty home directory, as on a fresh machine. BEE_TEST_LONG=1 adds the long forms.
set -euo pipefail
cd "$(dirname "$0")/.."
export BEE_REQUIRE_ALL=1 CGO_ENABLED=0 BEE_TEST_LONG=${BEE_TEST_LONG:-}
stripped=(-ldflags "-s -w") # some 170 programs of tests are linked; without symbols that takes 0.6 of the time
limit=75m
[ -z "$BEE_TEST_LONG" ] || limit=240m
kept=$(mktemp -d /var/tmp/bee-test.XXXXXX)
daemon= watch= unsteady= parts=() exec=()

# events WHO COMMAND...: run a `go test -json`. A line for each package, what fails as it
# does and again at the end, and a summary are printed; all is kept.
events() {
  gotestsum --format pkgname-and-test-fails --format-icons text --hide-summary skipped --no-color \
    --jsonfile "$kept/$1.json" --raw-command -- "${@:2}" | sed -u "s/^/$1: /"
}

# user_tests NAME ARG...: a `go test` as the ordinary user, whose events are called NAME.
user_tests() { events "$1" go test -json -count=1 -timeout "$limit" -vet=off "${stripped[@]}" "${exec[@]}" "${@:2}"; }

# root_tests NAME ARG...: the same as root.
root_tests() {
  BEE_TEST_CACHE=$kept/cache-root events "$1" go test -json -count=1 -p 1 -parallel 2 -timeout "$limit" -vet=off "${stripped[@]}" \
    -exec "env HOME=$kept/home-root GOCACHE=$(go env GOCACHE) GOPATH=$(go env GOPATH)" "${@:2}"
}

# Several packages, and tests, at a time, as many wait more than they compute; those
# that take longest first, but for internal/vm, which would only wait for the guest image.
# More at a time take longer: what waits looks again and again, and guests without KVM miss
# their own timers. `make lint` has vetted them.
all_tests() {
  user_tests user -p 3 -parallel 4 ./test/vm ./test/e2e ./test/hostile \
    ./internal/vm ./internal/control/runner ./internal/provider/... ./internal/node ./internal/runtime/docker ./...
}

# failed_packages NAME: the packages that failed.
failed_packages() { sed -nE 's|.*"Action":"fail","Package":"([^"]*)","Elapsed".*|\1|p' "$kept/$1.json"; }

# failed_tests NAME: the tests that failed, without their parts: PACKAGE TEST.
failed_tests() { sed -nE 's|.*"Action":"fail","Package":"([^"]*)","Test":"([^"/]*)".*|\1 \2|p' "$kept/$1.json"; }

# complete NAME: all packages came to their end, and those that failed did so by their tests alone.
# Of one that died, was not built or took too long, some tests never ran.
complete() {
  local package started ended
  started=$(grep -c '"Action":"start"' "$kept/$1.json") || true
  ended=$(grep -cE '"Action":"(pass|fail|skip)","Package":"[^"]*","Elapsed"' "$kept/$1.json") || true
  ((started > 0 && started == ended)) || return 1
  for package in $(failed_packages "$1"); do
    grep -qF "\"Package\":\"$package\",\"Output\":\"FAIL\\n\"}" "$kept/$1.json" || return 1
    failed_tests "$1" | grep -q "^$package " || return 1
  done
}

# again WHO...: runs the tests that failed once more, each alone. A single test may fail beside
# hundreds of others for want of processors; it is a fault to mend, and printed as such. More than
# three are a fault of the change, and `make test-long` repeats none. A part that failed without
# a test that did has failed by something else.
again() {
  local who package test n all=0
  [ -z "$BEE_TEST_LONG" ] || return 1
  for who in "$@"; do
    complete "$who" || return 1
    n=$(failed_tests "$who" | wc -l)
    ((n > 0 && (all += n) <= 3)) || return 1
  done
  for who in "$@"; do
    while read -r package test; do
      "${who}_tests" "$who-again" -run "^$test\$" "$package" < /dev/null &
      ended "$!" || return 1
    done < <(failed_tests "$who")
  done
  unsteady=1
}

# ended PID: waits for the end of a part alone. A signal ends the wait, and so the part, at once.
ended() {
  local code=0
  parts=("$1")
  wait "$1" || code=$?
  parts=()
  return "$code"
}

# The tests that a call in them has run as root: PACKAGE NAME.
tests_of_root() {
  find . -name '*_test.go' -exec awk '
    FNR == 1 { name = "" }
    /^func Test/ { name = $2; sub(/\(.*/, "", name) }
    /^}/ { name = "" }
    /^\ttestkit\.(AsRootToo|RequireRoot)\(t\)/ && name { dir = FILENAME; sub(/\/[^\/]*$/, "", dir); print dir, name }' {} + | sort -u
}

# free: what can still be written where tests write, in MB.
free() { df --output=avail -BM "$kept" | tr -dc '0-9\n' | sed -n 2p; }

# failures WORD: the tests that failed, with their first and last lines, at the end of the output:
# CI shows no more of it.
failures() {
  for who in user root; do
    [ -e "$kept/$who.json" ] || continue
    sed -nE 's|.*"Action":"fail","Package":"([^"]*)","Test":"([^"]*)".*|\1 \2|p' "$kept/$who.json" | sed -n 1,40p | while read -r package test; do
      echo "== $1: $who ${package#github.com/bee-hpc/bee/} $test"
      grep -F "\"Package\":\"$package\",\"Test\":\"$test\",\"Output\":" "$kept/$who.json" |
        sed -E 's/.*"Output":"(.*)(\\n)?"\}$/\1/; s/\\n$//; s/\\t/  /g; s/\\u003c/</g; s/\\u003e/>/g; s/\\"/"/g' | grep -vE '^ *(---|===) ' | awk 'NR <= 4; { line[NR] = $0 } END { for (i = NR > 12 ? NR - 7 : 5; i <= NR; i++) print line[i] }' || true
    done
    failed_packages $who | sed "s|^|== $1: $who package |"
  done
}

end() {
  status=$?
  trap - EXIT INT TERM
  for pid in "${parts[@]}"; do
    kill -- "-$pid" 2>/dev/null && wait "$pid" || true
  done
  if [ -n "$daemon" ]; then
    kill "$daemon" && wait "$daemon" || true
    umount "$kept/docker/exec/netns/default" 2>/dev/null || true # dockerd leaves it mounted
  fi
  if [ -n "$watch" ]; then
    { kill "$watch" && wait "$watch"; } 2>/dev/null || true
    echo "== the tests took $((room - $(sort -n "$kept/free" | sed -n 1p))) MB of disk at most, of $room MB that were free"
  fi
  if [ -s "$kept/figures" ]; then
    echo "== measured"
    sort "$kept/figures"
  fi
  echo "== the twenty slowest tests, in seconds"
  for who in user root; do
    [ ! -e "$kept/$who.json" ] || sed -nE 's|.*"Package":"github.com/bee-hpc/bee/([^"]*)","Test":"([^"/]*)","Elapsed":([0-9.]+).*|\3 '$who' \1 \2|p' "$kept/$who.json"
  done | sort -rn | sed -n 1,20p | column -t
  ((status == 0)) || failures failed
  [ -z "$unsteady" ] || failures "failed, and passed alone"
  rm -rf --one-file-system "$kept"
  ((status == 0)) && verdict=passed || verdict=failed
  echo "== $verdict after $((SECONDS / 60)) min $((SECONDS % 60)) s"
  exit "$status"
}
trap end EXIT
trap 'exit 130' INT TERM
touch "$kept/figures"
room=$(free)
free > "$kept/free"
(while sleep 5; do free >> "$kept/free"; done) > /dev/null 2>&1 & # its sleep outlives it
watch=$!
export BEE_TEST_FIGURES=$kept/figures

if ((EUID != 0)); then
  export BEE_TEST_BINARY=$PWD/bin/bee
  set -m # as below
  all_tests < /dev/null &
  ended "$!" || again user
  exit
fi

user=bee-test
id "$user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$user"
chmod 755 "$kept"
install -m 755 bin/bee "$kept/bee"
mkdir "$kept/src" "$kept/tests" "$kept/tmp" "$kept/cache-user" "$kept/cache-root" "$kept/docker" "$kept/home-user" "$kept/home-root"
git archive HEAD 2>/dev/null | tar -x -C "$kept/src" || cp -r . "$kept/src"
chown -R "$user": "$kept/src" "$kept/tmp" "$kept/cache-user" "$kept/home-user" "$kept/figures"
export BEE_TEST_BINARY=$kept/bee
tests_of_root > "$kept/root"
as_root="^($(cut -d ' ' -f 2 "$kept/root" | sort -u | paste -sd '|'))\$"
# A docker daemon that this user may use, as where an administrator runs one.
dockerd --group "$user" -H "unix://$kept/docker.sock" --data-root "$kept/docker/data" --exec-root "$kept/docker/exec" --pidfile "$kept/docker/pid" \
  --bridge=none --iptables=false --ip6tables=false --storage-driver=vfs > "$kept/docker/log" 2>&1 &
daemon=$!

# Where no udev runs, root alone may open it; users mount volumes through it.
[ ! -c /dev/fuse ] || chmod 666 /dev/fuse

# Linux may share the processors among sessions, and each node of a run is a session. This one
# has all tests, and the builds of images, which got no more than a single node.
[ ! -w /proc/self/autogroup ] || echo -5 > /proc/self/autogroup || true

# as-user COMMAND ARG...: in the working directory's place in the copy of the tree.
cat > "$kept/as-user" <<END
#!/bin/bash
set -e
cd "$kept/src/\${PWD#"$PWD"}"
niceness=0
[[ \$PWD != */internal/control/runner ]] || niceness=10 # it only computes: virtual machines go first
exec nice -n \$niceness setpriv --reuid "$user" --regid "$user" --init-groups env -i HOME="$kept/home-user" USER="$user" PATH="$PATH" TMPDIR="$kept/tmp" \\
  CI="${CI:-}" BEE_REQUIRE_ALL=1 BEE_TEST_LONG="$BEE_TEST_LONG" BEE_TEST_HISTORIES="${BEE_TEST_HISTORIES:-}" BEE_TEST_SEED="${BEE_TEST_SEED:-}" \\
  BEE_TEST_AS_ROOT='$as_root' BEE_TEST_DOCKER_HOST="unix://$kept/docker.sock" BEE_TEST_CACHE="$kept/cache-user" BEE_TEST_BINARY="$kept/bee" BEE_TEST_FIGURES="$kept/figures" "\$@"
END
# test-as-user TEST ARG...: what go test has run each package's tests.
cat > "$kept/test-as-user" <<END
#!/bin/bash
set -e
for test in "$kept"/tests/*; do # each is named after its process, and has some 40 MB
  [ ! -e "\$test" ] || kill -0 "\${test##*/}" 2>/dev/null || rm -f "\$test"
done
install -m 755 "\$1" "$kept/tests/\$\$"
several=()
[[ \$PWD != */vm ]] || several=(-test.parallel=2) # guests compute all the time
exec "$kept/as-user" "$kept/tests/\$\$" "\${@:2}" "\${several[@]}"
END
chmod 755 "$kept/as-user" "$kept/test-as-user"

set -m # each part is a group of processes, which ends as one
exec=(-exec "$kept/test-as-user")
all_tests &
parts+=($!)

# The images that virtual machines boot and that the examples have take minutes to build: each
# is built once, by the user whose tests wait for it meanwhile, and root gets a copy.
prebuild() { "$kept/as-user" env BEE_CACHE="$kept/cache-user" BEE_STATE="$kept/tmp/state" "$kept/bee" "$@" > "$kept/image" 2>&1; }
if prebuild vm image build && prebuild image build --trust "$kept/src/examples/mpi4py/job.yaml"; then
  (
    cd "$kept/cache-user"
    for record in $(grep -lE 'BEE_GUEST_IMAGE|bookworm[+]gromacs' images/*.json); do
      id=$(basename "$record" .json)
      odd=images/$id.odd
      [ -e "$odd" ] || odd=
      cp --archive --parents "$record" $odd "trees/$id" $(grep -l "$id" refs/*) "$kept/cache-root"
    done
  )
  chown -R root: "$kept/cache-root"
else
  echo "An image for the tests was not built beforehand:" && cat "$kept/image"
fi
root_tests root -run "$as_root" $(cut -d ' ' -f 1 "$kept/root" | sort -u) &
parts+=($!)
failed=()
wait "${parts[0]}" || failed+=(user)
wait "${parts[1]}" || failed+=(root)
parts=()
((${#failed[@]} == 0)) || again "${failed[@]}"
