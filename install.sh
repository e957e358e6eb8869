#!/bin/sh
# Install bee for this user: the program, its manual pages and the completion of
# shells, below ~/.local. Needs no root. Linux only.
#
#   sh install.sh                   the latest release
#   sh install.sh --from DIR|URL    from a directory or an address with the files of a release
#   sh install.sh --prefix DIR      below DIR in place of ~/.local
#   sh install.sh --uninstall       remove what an installation wrote
set -eu
umask 022

key= # the public key of minisign that the sums of this release are signed with
from=https://github.com/bee-hpc/bee/releases/latest/download
prefix= uninstall=

fail() { printf 'install.sh: %s\n            %s\n' "$1" "$2" >&2 && exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

while [ $# -gt 0 ]; do
  case $1 in
  --from | --prefix)
    [ $# -gt 1 ] || fail "$1 needs a value." "sh install.sh --help shows the options."
    if [ "$1" = --from ]; then from=$2; else prefix=$2; fi
    shift 2
    ;;
  --uninstall) uninstall=yes && shift ;;
  -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0" && exit 0 ;;
  *) fail "unknown option \"$1\"." "sh install.sh --help shows the options." ;;
  esac
done
[ -n "$prefix" ] || prefix=${HOME:?Set HOME, or name a directory by --prefix.}/.local
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
# The files of an installation, relative to the prefix, so that nothing else is removed.
list=$prefix/share/bee/installed-files

remove_files() {
  while IFS= read -r file; do
    case $file in '' | /* | *..*) continue ;; esac
    rm -f "$prefix/$file"
  done < "$list"
  rm -f "$list"
  rmdir "$prefix/share/bee" 2>/dev/null || true
}

if [ -n "$uninstall" ]; then
  [ -f "$list" ] || fail "no installation by install.sh below $prefix." "Name its directory by --prefix."
  remove_files
  echo "Removed bee from $prefix. Runs, images and settings are still there: ~/.local/state/bee, ~/.cache/bee, ~/.config/bee."
  exit 0
fi

[ "$(uname -s)" = Linux ] || fail "bee runs on Linux only, and this is $(uname -s)." "Install it on a Linux machine, such as a login node."
case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) fail "there is no release for $(uname -m)." "Releases are for x86_64 and aarch64; 'make build' builds others." ;;
esac
for tool in tar gzip sha256sum mktemp; do has $tool || fail "$tool is missing." "Install it, then run install.sh again."; done

mkdir -p "$prefix/bin"
work=$(mktemp -d "$prefix/.bee-install.XXXXXX")
trap 'rm -rf "$work"' EXIT && trap 'exit 130' INT TERM HUP

# get NAME: a file of the release.
get() {
  case $from in
  http://* | https://*)
    if has curl; then tool='curl -fsSL --retry 3 -o'; elif has wget; then tool='wget -q -O'; else
      fail "neither curl nor wget is there." "Install one, or copy a release here and name its directory by --from."
    fi
    $tool "$work/$1" "$from/$1" || fail "download $from/$1: ${tool%% *} failed." "Check the address and your network, then run install.sh again."
    ;;
  *) cp "$from/$1" "$work/$1" || fail "no file $1 in $from." "Name the directory of a release by --from." ;;
  esac
}

# verified: SHA256SUMS has a signature by the key. OpenSSL gets the parts that minisign has in one file.
verified() {
  if has minisign; then minisign -qVm SHA256SUMS -P "$key"; return; fi
  { printf '0*0\005\006\003+ep\003!\000' && printf %s "$key" | base64 -d | tail -c 32; } > key.der
  sed -n 2p SHA256SUMS.minisig | base64 -d | tail -c 64 > signature
  openssl dgst -blake2b512 -binary -out digest SHA256SUMS
  openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin -in digest -sigfile signature
}

get SHA256SUMS
if [ -z "$key" ]; then echo "The sum is checked, and no signature: the release is not signed."; elif has minisign || openssl version 2>/dev/null | grep -q '^OpenSSL [3-9]'; then
  get SHA256SUMS.minisig
  (cd "$work" && verified >/dev/null 2>&1) || fail "SHA256SUMS of $from has no signature by the key of bee." "Do not use these files. Get the release from another place."
else
  echo "The sum is checked, and no signature: neither minisign nor OpenSSL 3 is here."
fi
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(bee-[0-9A-Za-z.+~-]*-linux-$arch\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS")
[ "$(printf '%s\n' "$archive" | grep -c .)" = 1 ] || fail "SHA256SUMS of $from does not name one archive for $arch." "Check the address of the release."
echo "Getting $archive"
get "$archive"
(cd "$work" && grep "  $archive\$" SHA256SUMS | sha256sum -c - >/dev/null 2>&1) ||
  fail "the SHA-256 sum of $archive is not that in SHA256SUMS." "The download was cut or changed. Run install.sh again."
mkdir "$work/release"
tar -xzf "$work/$archive" -C "$work/release" --strip-components=1 --no-same-owner
"$work/release/bee" version >/dev/null || fail "the program does not start on this machine." "Report this with the output of 'uname -a'."

[ ! -f "$list" ] || remove_files
mkdir -p "$prefix/share/bee"
# place FILE TARGET: write the list before the file, and put the file there in one step.
place() {
  mkdir -p "$prefix/$(dirname "$2")"
  echo "$2" >> "$list"
  mv -f "$work/release/$1" "$prefix/$2"
}
place completions/bee.bash share/bash-completion/completions/bee
place completions/_bee share/zsh/site-functions/_bee
place completions/bee.fish share/fish/vendor_completions.d/bee.fish
for page in $(cd "$work/release" && echo man/man*/*); do place "$page" "share/$page"; done
place bee bin/bee
echo "Installed $("$prefix/bin/bee" version) as $prefix/bin/bee"
case :$PATH: in *":$prefix/bin:"*) ;; *) printf 'Add it to your PATH:\n  export PATH="%s/bin:$PATH"\n' "$prefix" ;; esac
echo "Next: bee doctor"
