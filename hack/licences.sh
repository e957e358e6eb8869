#!/usr/bin/env bash
# Print the licences of all that is linked into bee: Go's own, those of each module, and those that
# directories inside of a module have by themselves.
set -euo pipefail
cd "$(dirname "$0")/.."
list=$(mktemp)
trap 'rm -f "$list"' EXIT
declare -A seen

# texts ROOT DIRECTORY: files with licences in a directory, once.
texts() {
  [ -z "${seen[$2]:-}" ] || return 0
  seen[$2]=yes
  while IFS= read -r file; do
    printf -- '--- %s\n\n' "${file#"$1/"}" && cat "$file" && echo
    found=yes
  done < <(find "$2" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'patents*' \) ! -name '*.go' | LC_ALL=C sort)
}

# part NAME ROOT: the texts of a module, which has to have some.
part() {
  printf '=== %s\n\n' "$1"
  found=
  texts "$2" "$2"
  [ -n "$found" ] || { echo "licences.sh: $1 has no licence in $2" >&2 && exit 1; }
}

echo "bee is under the licence in LICENSE. It contains these, under licences of their own."
echo
part "Go $(go env GOVERSION)" "$(go env GOROOT)"
for arch in amd64 arm64; do
  GOOS=linux GOARCH=$arch CGO_ENABLED=0 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}} {{$.Dir}}{{end}}{{end}}' ./cmd/bee
done | LC_ALL=C sort -u | grep . > "$list"
module=
while read -r path version root dir; do
  [ "$path" = "$module" ] || part "$path $version" "$root"
  module=$path
  for ((; ${#dir} > ${#root}; )); do
    texts "$root" "$dir"
    dir=${dir%/*}
  done
done < "$list"
