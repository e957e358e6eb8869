#!/usr/bin/env bash
# Compile verbs/ into the library that bee embeds, for one processor, unless it is of these
# sources already.
#
#   hack/verbs.sh amd64|arm64, by $CC if that is set
set -euo pipefail
cd "$(dirname "$0")/.."
arch=${1:?usage: verbs.sh amd64|arm64}
declare -A compilers=([amd64]=x86_64-linux-gnu-gcc [arm64]=aarch64-linux-gnu-gcc)
out=$PWD/internal/rdma/library/$arch
id=$(cat verbs/*.[ch] verbs/build.sh | sha256sum | cut -c1-32)
[ "$(cat "$out/verbs.id" 2>/dev/null)" != "$id" ] || exit 0
rm -f "$out/verbs.id"
CC=${CC:-${compilers[$arch]:?no compiler is known for this processor}} verbs/build.sh "$out/verbs.so" "$id"
printf %s "$id" > "$out/verbs.id"
