#!/usr/bin/env bash
# Write the recipes for package managers with the version and sums of a release, as an archive.
#
#   VERSION=0.1.0 SOURCE_DATE_EPOCH=... hack/recipes.sh DIRECTORY
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=bee-$VERSION-recipes
cp -r packaging "$work/$name"
edits=(-e "s/@VERSION@/$VERSION/g")
for arch in amd64 arm64; do
  archive=$dist/bee-$VERSION-linux-$arch.tar.gz
  sum=no-archive # of a release for one processor, which the recipes refuse on the other
  [ ! -e "$archive" ] || sum=$(sha256sum "$archive" | cut -d ' ' -f 1)
  edits+=(-e "s/@SHA256_${arch^^}@/$sum/g")
done
find "$work/$name" -type f -exec sed -i "${edits[@]}" {} +
find "$work/$name" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +
find "$work/$name" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -c "$name" | gzip -n9 > "$dist/$name.tar.gz"
