#!/usr/bin/env bash
# Install what a task needs, from Debian's packages and as programs of Go; an
# ordinary user is told exactly what is missing instead.
set -euo pipefail

declare -A packages=(
  [demo]="mmdebstrap uidmap"
  [test]="mmdebstrap uidmap e2fsprogs busybox-static util-linux procps openssh-server openssh-client podman crun fuse-overlayfs fuse3 charliecloud docker.io docker-registry apache2-utils gpg gpg-agent buildah python3-pip python3-prometheus-client iproute2 qemu-system-x86 erofs-utils squashfs-tools slurmctld slurmd slurm-client slurm-wlm-basic-plugins slurmdbd mariadb-server-core munge csh tcsh fish zsh mandoc rpm"
  [bench]="mmdebstrap uidmap busybox-static podman crun fuse-overlayfs charliecloud docker.io docker-registry qemu-system-x86 skopeo umoci jq hpcc netpipe-openmpi openmpi-bin openssh-server openssh-client rsync iproute2 vde2 iperf3"
  [lint]="mypy"
  [release]=""
)
packages[race]="${packages[test]} gcc libc6-dev" # the detector is in C
task=${1:?usage: deps.sh demo|test|race|bench|lint|release}
missing=()
for p in ${packages[$task]}; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
# Programs that no Debian package has: a server of S3 for tests, what prints the results
# of `go test` as they come, the linter.
release="github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2 github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"
declare -A programs=(
  [test]="github.com/versity/versitygw/cmd/versitygw@v1.8.0 gotest.tools/gotestsum@v1.13.0 $release"
  [lint]="github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0"
  [release]="$release"
)
for source in ${programs[$task]:-}; do
  version=${source##*@} name=${source%@*} name=${name##*/}
  go version -m "$(command -v "$name")" 2>/dev/null | grep "^\smod\s.*\s$version\s" >/dev/null && continue
  if ((EUID == 0)); then
    echo "installing $source"
    GOBIN=/usr/local/bin CGO_ENABLED=0 go install -trimpath "$source"
  else
    echo "This program is missing: $name $version" >&2
    echo "Get it: CGO_ENABLED=0 go install $source, with its directory in PATH" >&2
    exit 1
  fi
done
((${#missing[@]} == 0)) && exit 0
if ((EUID != 0)); then
  echo "These Debian packages are missing: ${missing[*]}" >&2
  echo "Ask for: apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# Daemons are started by the tests that want them, with settings of their own.
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d.bee && chmod +x /usr/sbin/policy-rc.d.bee
[ -e /usr/sbin/policy-rc.d ] || { ln -s policy-rc.d.bee /usr/sbin/policy-rc.d; trap 'rm -f /usr/sbin/policy-rc.d /usr/sbin/policy-rc.d.bee' EXIT; }
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
