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

from=https://github.com/bee-hpc/bee/releases/latest/download
prefix=
uninstall=

fail() {
  echo "install.sh: $1" >&2
  [ -z "${2:-}" ] || echo "            $2" >&2
  exit 1
}

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
for tool in tar gzip sha256sum mktemp; do
  command -v $tool >/dev/null 2>&1 || fail "$tool is missing." "Install it, then run install.sh again."
done

mkdir -p "$prefix/bin"
work=$(mktemp -d "$prefix/.bee-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# get NAME: a file of the release.
get() {
  case $from in
  http://* | https://*)
    if command -v curl >/dev/null 2>&1; then
      curl -fsSL --retry 3 -o "$work/$1" "$from/$1" || fail "download $from/$1: curl failed." "Check the address and your network, then run install.sh again."
    elif command -v wget >/dev/null 2>&1; then
      wget -q -O "$work/$1" "$from/$1" || fail "download $from/$1: wget failed." "Check the address and your network, then run install.sh again."
    else
      fail "neither curl nor wget is there." "Install one, or copy a release here and name its directory by --from."
    fi
    ;;
  *) cp "$from/$1" "$work/$1" || fail "no file $1 in $from." "Name the directory of a release by --from." ;;
  esac
}

get SHA256SUMS
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
for page in "$work"/release/man/man*/*; do
  name=${page#"$work/release/"}
  place "$name" "share/$name"
done
place bee bin/bee
echo "Installed $("$prefix/bin/bee" version) as $prefix/bin/bee"
case :$PATH: in
*":$prefix/bin:"*) echo "Next: bee doctor" ;;
*) printf 'Add it to your PATH:\n  export PATH="%s/bin:$PATH"\nNext: bee doctor\n' "$prefix" ;;
esac
