#!/usr/bin/env bash
# Run the conformance suite of the runtime apptainer, and an MPI program over two
# emulated hosts in its containers, on a real Apptainer, as root and as an ordinary
# user. Debian 12 has none, but Debian unstable does: that is unpacked beside this
# system and entered in a mount namespace. Needs root, mmdebstrap and a Debian mirror;
# takes ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
((EUID == 0)) || { echo "only root can enter another system" >&2; exit 1; }
user=bee-test
id "$user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$user"
work=$(mktemp -d /var/tmp/bee-apptainer.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"

echo "getting Apptainer"
mirror=$(hack/mirror.sh)
# As this system's apt is set up: a mirror of packages as they once were is no error.
valid=$(apt-config dump --no-empty --format '%f "%v";%n' Acquire::Check-Valid-Until)
mmdebstrap --quiet --variant=minbase ${valid:+--aptopt="$valid"} --include=apptainer,busybox-static sid "$work/root.tar" "deb $mirror sid main"
mkdir -p "$work/root" "$work/job"
tar -C "$work/root" -xf "$work/root.tar"
mkdir -p "$work/root/old" "$work/root/work"
for f in passwd group subuid subgid; do grep "^$user:" /etc/$f >> "$work/root/etc/$f"; done

echo "building"
CGO_ENABLED=0 go build -o "$work/bee" ./cmd/bee
CGO_ENABLED=0 go test -c -o "$work/suite" ./internal/runtime/apptainer
cp -r examples/mpi4py/input "$work/job/"
cat > "$work/job/job.yaml" <<'END'
name: pi
build: {debian: bookworm, packages: [openmpi-bin, python3-mpi4py]}
nodes: 2
ranks_per_node: 2
runtime: apptainer
inputs: [{from: ./input, to: /work}]
workdir: /work
run: mpirun python3 pi.py
END
echo 'sites: [{name: lab, provider: local, hosts: 2}]' > "$work/job/sites.yaml"
"$work/bee" --cache "$work/cache-root" image build "$work/job/job.yaml"
cp -a "$work/cache-root" "$work/cache-$user"
chown -R "$user": "$work/cache-$user"

# inside USER COMMAND... runs a command there, with $work as /work.
inside() {
  unshare --mount --propagation private bash -c '
    set -eu
    work=$1 user=$2 root=$1/root; shift 2
    mount --bind "$root" "$root"
    for d in proc sys dev; do mount --rbind "/$d" "$root/$d"; done
    mount --bind "$work" "$root/work"
    cd "$root"; pivot_root . old; umount -l /old; cd /work/job
    exec setpriv --reuid "$user" --regid "$user" --init-groups env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin BEE_TEST_BINARY=/work/bee "$@"' - "$work" "$@"
}

inside root apptainer --version
for u in root "$user"; do
  echo "== as $u"
  inside "$u" /work/suite -test.v -test.run '^TestConformance$' | grep -v '^=== '
  inside "$u" env BEE_STATE="/tmp/state-$u" BEE_SCRATCH="/tmp/scratch-$u" /work/bee --cache "/work/cache-$u" --sites sites.yaml run -q job.yaml | tee "$work/out"
  grep -q '^pi = 3.14159.* by 4 ranks on lab-0, lab-1$' "$work/out"
done
echo "all passed"
