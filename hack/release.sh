#!/usr/bin/env bash
# Write a release into dist/: archives, packages, wheels, lists of what is in them (SBOM) and
# sums. Equal sources give equal bytes: the time of everything is that of the commit.
#
#   VERSION=0.1.0 hack/release.sh [DIRECTORY]
set -euo pipefail
cd "$(dirname "$0")/.."
: "${VERSION:?}"
dist=$(realpath -m "${1:-dist}")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export VERSION SOURCE_DATE_EPOCH CGO_ENABLED=0 GOOS=linux TZ=UTC LC_ALL=C
flags=(-trimpath -buildvcs=false -ldflags "-s -w -X github.com/bee-hpc/bee/internal/cli.Version=$VERSION")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

# What is the same for all architectures. Only files of the repository are examples.
mkdir -p "$work/all/completions" "$work/all/examples" "$work/man"
go build "${flags[@]}" -o "$work/bee" ./cmd/bee
"$work/bee" completion bash > "$work/all/completions/bee.bash"
"$work/bee" completion zsh > "$work/all/completions/_bee"
"$work/bee" completion fish > "$work/all/completions/bee.fish"
go run ./hack/manpages "$VERSION" "$(date -d "@$SOURCE_DATE_EPOCH" +%F)" "$work/man"
for section in 1 5; do
  mkdir -p "$work/all/man/man$section"
  mv "$work/man/"*".$section" "$work/all/man/man$section/"
done
gzip -n9 "$work"/all/man/*/*
cp LICENSE README.md CHANGELOG.md "$work/all/"
cp -r examples "$work/all/"
find "$work/all/examples" -name results -prune -exec rm -r {} +
find "$work/all/examples" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +

rm -rf "$dist"
mkdir -p "$dist"
for arch in ${ARCHES:-amd64 arm64}; do
  name=bee-$VERSION-linux-$arch
  cp -r "$work/all" "$work/$name"
  GOARCH=$arch go build "${flags[@]}" -o "$work/$name/bee" ./cmd/bee
  find "$work/$name" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -c "$name" | gzip -n9 > "$dist/$name.tar.gz"
  # A binary by itself, for hosts of the other architecture.
  cp "$work/$name/bee" "$dist/bee-linux-$arch"
  for format in deb rpm; do
    (cd "$work/$name" && ARCH=$arch nfpm package --config "$OLDPWD/hack/nfpm.yaml" --packager "$format" --target "$dist" >/dev/null)
  done
  cyclonedx-gomod bin -json -noserial -notimestamp -version "v$VERSION" -output "$dist/$name.cdx.json" "$work/$name/bee" 2>/dev/null
  go run ./hack/wheel "$VERSION" "$arch" "$work/$name/bee" "$dist/$name.cdx.json" "$dist"
done
cp install.sh "$dist/"
(cd "$dist" && sha256sum ./* | sed 's|\./||' > "$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
ls -l "$dist"
