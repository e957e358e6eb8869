#!/usr/bin/env bash
# Write a release into dist/: archives, packages, wheels, images of bee itself, lists of what is in
# them (SBOM), sums and a signature. Equal sources give equal bytes: the time of everything is that
# of the commit. BEE_SIGNING_KEY names a key of minisign, BEE_SIGNING_PASSWORD has its password.
#
#   VERSION=0.1.0 hack/release.sh [DIRECTORY]
set -euo pipefail
cd "$(dirname "$0")/.."
: "${VERSION:?}"
dist=$(realpath -m "${1:-dist}")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export VERSION SOURCE_DATE_EPOCH CGO_ENABLED=0 GOOS=linux TZ=UTC LC_ALL=C GOFLAGS="${GOFLAGS:-} -trimpath"
commit=$(git describe --always --abbrev=12 --dirty=+ --exclude='*' 2>/dev/null || true)
cli=github.com/bee-hpc/bee/internal/cli
flags=(-buildvcs=false -ldflags "-s -w -X $cli.Version=$VERSION -X $cli/setupcmd.revision=$commit")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

# The programs, and one that runs here.
for arch in ${ARCHES:-amd64 arm64}; do
  env -u CC hack/verbs.sh "$arch" # the compiler of the processor, everywhere the same
  GOARCH=$arch go build "${flags[@]}" -o "$work/bee-$arch" ./cmd/bee
done
own=$work/bee-$(go env GOHOSTARCH)
[ -e "$own" ] || go build "${flags[@]}" -o "$own" ./cmd/bee

# What is the same for all architectures. Only files of the repository are examples.
mkdir -p "$work/all/completions" "$work/all/examples" "$work/man"
"$own" completion bash > "$work/all/completions/bee.bash"
"$own" completion zsh > "$work/all/completions/_bee"
"$own" completion fish > "$work/all/completions/bee.fish"
go run ./hack/manpages "$VERSION" "$(date -d "@$SOURCE_DATE_EPOCH" +%F)" "$work/man"
for section in 1 5 7; do
  mkdir -p "$work/all/man/man$section"
  mv "$work/man/"*".$section" "$work/all/man/man$section/"
done
gzip -n9 "$work"/all/man/*/*
cp LICENSE README.md CHANGELOG.md "$work/all/"
hack/licences.sh > "$work/all/LICENSES-OF-PARTS.txt"
cp -r examples "$work/all/"
find "$work/all/examples" -name results -prune -exec rm -r {} +
find "$work/all/examples" -type d -exec chmod 755 {} + -o -type f -exec chmod 644 {} +

rm -rf "$dist"
mkdir -p "$dist"
for arch in ${ARCHES:-amd64 arm64}; do
  name=bee-$VERSION-linux-$arch
  cp -r "$work/all" "$work/$name"
  mv "$work/bee-$arch" "$work/$name/bee"
  find "$work/$name" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner -c "$name" | gzip -n9 > "$dist/$name.tar.gz"
  # A binary by itself, for hosts of the other architecture.
  cp "$work/$name/bee" "$dist/bee-linux-$arch"
  for format in deb rpm; do
    (cd "$work/$name" && ARCH=$arch nfpm package --config "$OLDPWD/hack/nfpm.yaml" --packager "$format" --target "$dist" >/dev/null)
  done
  cyclonedx-gomod bin -json -noserial -notimestamp -version "v$VERSION" -output "$dist/$name.cdx.json" "$work/$name/bee" 2>/dev/null
  go run ./hack/wheel "$VERSION" "$arch" "$work/$name/bee" "$dist/$name.cdx.json" "$work/all/LICENSES-OF-PARTS.txt" "$dist"
  go run ./hack/image "$VERSION" "$arch" "$dist/$name" /usr/bin/bee="$work/$name/bee" \
    /usr/share/doc/bee/LICENSE=LICENSE /usr/share/doc/bee/LICENSES-OF-PARTS.txt="$work/all/LICENSES-OF-PARTS.txt" /usr/share/doc/bee/bee.cdx.json="$dist/$name.cdx.json"
done
hack/recipes.sh "$dist"
key=
[ -z "${BEE_SIGNING_KEY:-}" ] || key=$(go run ./hack/sign)
sed "s|^key= |key=$key |" install.sh > "$dist/install.sh" # which checks the signature with it
(cd "$dist" && sha256sum ./* | sed 's|\./||' > "$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
if [ -n "$key" ]; then
  go run ./hack/sign "$dist/SHA256SUMS" "bee $VERSION"
else
  echo "The release is not signed: BEE_SIGNING_KEY names no key of minisign." >&2
fi
ls -l "$dist"
