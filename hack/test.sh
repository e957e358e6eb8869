#!/usr/bin/env bash
# All tests: as an ordinary user, and what is not the same for root as root too.
set -euo pipefail
cd "$(dirname "$0")/.."
export BEE_REQUIRE_ALL=1 CGO_ENABLED=0

# Several packages, and tests, at a time, as many wait more than they compute; those
# that take longest first. `make lint` has vetted them.
run_tests() {
  go test -p 4 -parallel 4 -timeout 80m -vet=off "$@" ./test/vm ./test/e2e ./internal/control ./internal/vm \
    ./internal/provider/... ./internal/node ./internal/runtime/docker ./...
}

# What tests measure on their way is told at the end, however that comes.
tell_figures() {
  [ -s "$1" ] || return 0
  echo "== measured"
  sort "$1"
}

if ((EUID != 0)); then
  export BEE_TEST_BINARY=$PWD/bin/bee BEE_TEST_FIGURES
  BEE_TEST_FIGURES=$(mktemp)
  trap 'tell_figures "$BEE_TEST_FIGURES"; rm -f "$BEE_TEST_FIGURES"' EXIT
  run_tests
  exit
fi

user=bee-test
id "$user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$user"
shared=$(mktemp -d /var/tmp/bee-test.XXXXXX)
daemon=
clean() {
  tell_figures "$shared/figures"
  if [ -n "$daemon" ]; then
    kill "$daemon" && wait "$daemon" || true
    umount "$shared/docker/exec/netns/default" 2>/dev/null || true # dockerd leaves it mounted
  fi
  rm -rf --one-file-system "$shared"
}
trap clean EXIT
chmod 755 "$shared"
install -m 755 bin/bee "$shared/bee"
touch "$shared/figures"
chown "$user" "$shared/figures"
export BEE_TEST_BINARY=$shared/bee BEE_TEST_FIGURES=$shared/figures

echo "== as root"
BEE_TEST_CACHE=$shared/cache run_tests

echo "== as the ordinary user $user"
mkdir "$shared/src" "$shared/tests" "$shared/tmp" "$shared/cache-$user" "$shared/docker"
git archive HEAD 2>/dev/null | tar -x -C "$shared/src" || cp -r . "$shared/src"
# The image that virtual machines boot takes minutes to build. That a user can is tested
# in a cache of its own (TestGuestImages).
(
  cd "$shared/cache"
  for record in $(grep -l BEE_GUEST_IMAGE images/*.json); do
    id=$(basename "$record" .json)
    cp --archive --parents "$record" "images/$id.odd" "trees/$id" $(grep -l "$id" refs/*) "$shared/cache-$user"
  done
)
chown -R "$user": "$shared/src" "$shared/tmp" "$shared/cache-$user"
# A docker daemon that this user may use, as where an administrator runs one.
dockerd --group "$user" -H "unix://$shared/docker.sock" --data-root "$shared/docker/data" --exec-root "$shared/docker/exec" --pidfile "$shared/docker/pid" \
  --bridge=none --iptables=false --ip6tables=false --storage-driver=vfs > "$shared/docker/log" 2>&1 &
daemon=$!
# as-user TEST ARG...: go test has it run each package's tests, in the package's directory.
cat > "$shared/as-user" <<END
#!/bin/bash
set -e
cd "$shared/src/\${PWD#"$PWD"}"
test=\$(mktemp "$shared/tests/XXXXXX")
install -m 755 "\$1" "\$test"
niceness=0
[[ \$PWD != */internal/control ]] || niceness=10 # it only computes: virtual machines go first
exec nice -n \$niceness setpriv --reuid "$user" --regid "$user" --init-groups env -i HOME="/home/$user" USER="$user" PATH="$PATH" TMPDIR="$shared/tmp" \\
  CI="${CI:-}" BEE_REQUIRE_ALL=1 BEE_TEST_DOCKER_HOST="unix://$shared/docker.sock" BEE_TEST_CACHE="$shared/cache-$user" BEE_TEST_BINARY="$shared/bee" BEE_TEST_FIGURES="$shared/figures" "\$test" "\${@:2}"
END
chmod 755 "$shared/as-user"
run_tests -exec "$shared/as-user" -count=1
