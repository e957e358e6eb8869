#!/usr/bin/env bash
# All tests: as root where we are root, and as an ordinary user either way.
set -euo pipefail
cd "$(dirname "$0")/.."
export BEE_REQUIRE_ALL=1
BEE_TEST_BINARY=$PWD/bin/bee
export BEE_TEST_BINARY

if ((EUID != 0)); then
  exec go test ./...
fi

# Images of applications are built once and used by both runs.
user=bee-test
id "$user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$user"
shared=$(mktemp -d /var/tmp/bee-test.XXXXXX)
daemon=
clean() {
  if [ -n "$daemon" ]; then
    kill "$daemon" && wait "$daemon" || true
    umount "$shared/docker/exec/netns/default" 2>/dev/null || true # dockerd leaves it mounted
  fi
  rm -rf "$shared"
}
trap clean EXIT
chmod 755 "$shared"
install -m 755 bin/bee "$shared/bee"
export BEE_TEST_BINARY=$shared/bee

# Two packages at a time, as many tests wait more than they compute; those that
# take longest first.
longest="./test/vm ./test/e2e ./internal/control ./internal/vm"

echo "== as root"
BEE_TEST_CACHE=$shared/cache go test -p 2 -timeout 60m $longest ./...

echo "== as the ordinary user $user"
mkdir "$shared/src" "$shared/tests"
git archive HEAD 2>/dev/null | tar -x -C "$shared/src" || cp -r . "$shared/src"
for package in $(go list $longest ./...); do
  dir=${package#github.com/bee-hpc/bee/}
  [ -n "$(go list -f '{{join .TestGoFiles ""}}{{join .XTestGoFiles ""}}' "$package")" ] || continue
  go test -c -o "$shared/tests/$(echo "$dir" | tr / -).test" "$package"
  printf '%s %s\n' "$dir" "$(echo "$dir" | tr / -).test" >> "$shared/list"
done
chown -R "$user": "$shared/src" "$shared/tests"
mkdir "$shared/tmp" "$shared/cache-$user" && chown "$user": "$shared/tmp" "$shared/cache-$user"
# A docker daemon that this user may use, as where an administrator runs one.
mkdir "$shared/docker"
dockerd --group "$user" -H "unix://$shared/docker.sock" --data-root "$shared/docker/data" --exec-root "$shared/docker/exec" --pidfile "$shared/docker/pid" \
  --bridge=none --iptables=false --ip6tables=false --storage-driver=vfs > "$shared/docker/log" 2>&1 &
daemon=$!
# as_user runs the tests of a package.
as_user() {
  local dir=$1 test=$2 begun=$SECONDS
  if (cd "$shared/src/$dir" && setpriv --reuid "$user" --regid "$user" --init-groups \
      env -i HOME="/home/$user" USER="$user" PATH="$PATH" TMPDIR="$shared/tmp" CI="${CI:-}" BEE_REQUIRE_ALL=1 \
      BEE_TEST_DOCKER_HOST="unix://$shared/docker.sock" BEE_TEST_CACHE="$shared/cache-$user" BEE_TEST_BINARY="$BEE_TEST_BINARY" "$shared/tests/$test" -test.timeout 60m > "$shared/out-$test" 2>&1); then
    echo "ok   $dir (as $user) $((SECONDS - begun)) s"
  else
    echo "FAIL $dir (as $user) $((SECONDS - begun)) s"
    tail -60 "$shared/out-$test"
    return 1
  fi
}
failed=0
running=0
while read -r dir test; do
  if ((running == 2)); then
    wait -n || failed=1
    running=$((running - 1))
  fi
  as_user "$dir" "$test" < /dev/null &
  running=$((running + 1))
done < "$shared/list"
while ((running > 0)); do
  wait -n || failed=1
  running=$((running - 1))
done
exit $failed
