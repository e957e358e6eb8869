#!/usr/bin/env bash
# slurm.sh RELEASE DIR: put the /usr of a Debian release with Slurm, such as trixie or sid,
# into DIR, for emulated hosts that have it in the place of this machine's. It is made once.
set -euo pipefail
release=${1:?usage: slurm.sh RELEASE DIR} dir=${2:?usage: slurm.sh RELEASE DIR}
mkdir -p "$(dirname "$dir")"
exec 9> "$dir.lock"
flock 9
[ ! -e "$dir/done" ] || exit 0
rm -rf --one-file-system "$dir"
mkdir -p "$dir"
mirror=$("$(dirname "$0")/mirror.sh")
# As this system's apt is set up: a mirror of packages as they once were is no error.
valid=$(apt-config dump --no-empty --format '%f "%v";%n' Acquire::Check-Valid-Until)
# All that tests run on hosts, as programs of this machine are out of reach there.
packages=slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins,slurmdbd,slurm-wlm-mysql-plugin,munge,mariadb-server-core,openssh-server,openssh-client,procps,tzdata
mmdebstrap --quiet --variant=essential --include="$packages" ${valid:+--aptopt="$valid"} "$release" "$dir/root.tar" "deb $mirror $release main"
# By an ordinary user all belongs to that user, which programs do not mind.
tar -C "$dir" --no-same-owner --exclude='./usr/share/doc' --exclude='./usr/share/man' --exclude='./usr/share/locale' -xf "$dir/root.tar" ./usr
rm "$dir/root.tar"
touch "$dir/done"
