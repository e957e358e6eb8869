#!/usr/bin/env bash
# Run BEE on the other architecture: boots Debian's arm64 kernel in QEMU, with
# everything in the initial RAM file system as on a diskless node, runs a job
# on it and on emulated hosts, then the tests that need no other programs.
# Needs qemu-system-arm, busybox, and a Debian mirror. Takes ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
work=$(mktemp -d /var/tmp/bee-arm64.XXXXXX)
trap 'rm -rf "$work"' EXIT

echo "getting the kernel"
cd "$work"
mkdir -p lists/partial cache/archives/partial
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | awk '/\/debian$/ && !n++')
[ -n "$mirror" ] || { echo "apt knows no Debian mirror" >&2; exit 1; }
echo "deb [arch=arm64] $mirror bookworm main" > sources.list
apt=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o Dir::Etc::sourceparts=/nonexistent
  -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::State::status=/dev/null -o APT::Sandbox::User=)
apt-get "${apt[@]}" update
kernel=$(apt-cache "${apt[@]}" depends linux-image-arm64 | grep -o 'linux-image-[0-9][^ ]*' | head -1)
apt-get "${apt[@]}" download "$kernel" busybox-static
for d in ./*.deb; do dpkg-deb -x "$d" tree; done

echo "building"
root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,tmp,root,etc,run,var/tmp,modules,tests,usr/bin}
cp tree/bin/busybox "$root/bin/"
for applet in $(busybox --list); do [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"; done
modules=(llc stp bridge veth overlay sch_tbf)
for m in "${modules[@]}"; do find tree/lib/modules -name "$m.ko" -exec cp {} "$root/modules/" \;; done
cd "$here"
export CGO_ENABLED=0 GOOS=linux GOARCH=arm64
go build -trimpath -ldflags "-s -w" -o "$root/bin/bee" ./cmd/bee
for p in internal/runtime/rootless internal/wire internal/state internal/procid internal/mpi internal/fabric internal/node internal/provider/local; do
  go test -c -ldflags "-s -w" -o "$root/tests/$(echo "$p" | tr / -)" "./$p"
done
cat > "$root/init" <<'INIT'
#!/bin/sh
export PATH=/bin HOME=/root USER=root TERM=dumb BEE_TEST_BINARY=/bin/bee
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
for d in /dev/shm /tmp /var/tmp /root; do mount -t tmpfs tmp $d; done
mount -t devpts pts /dev/pts
exec > /dev/console 2>&1
ip link set lo up; hostname arm
for m in llc stp bridge veth overlay sch_tbf; do insmod /modules/$m.ko; done
echo root:x:0:0:root:/root:/bin/sh > /etc/passwd; echo root:x:0: > /etc/group
failed=0
check() { echo "== $*"; "$@" || { echo "FAILED: $*"; failed=1; }; }
cd /root
mkdir -p layer/bin layer/etc layer/proc layer/sys layer/dev layer/tmp oci
cp -a /bin/busybox /bin/sh /bin/uname /bin/hostname /bin/cat /bin/test layer/bin/
tar -C layer -cf layer.tar .
sum=$(sha256sum layer.tar | cut -d' ' -f1)
echo "{\"architecture\":\"arm64\",\"os\":\"linux\",\"config\":{\"Env\":[\"PATH=/bin\"]},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:$sum\"]}}" > config.json
echo '[{"Config":"config.json","RepoTags":["arm:1"],"Layers":["layer.tar"]}]' > manifest.json
tar -cf image.tar manifest.json config.json layer.tar
printf 'name: one\nimage: docker-archive:image.tar\nworkdir: /work\nrun: uname -m >/work/out\noutputs: [{from: /work/out, to: results}]\n' > one.yaml
printf 'name: three\nimage: docker-archive:image.tar\nnodes: 3\nrun: for h in 0 1 2; do /.bee/rsh lab-$h "hostname; uname -m"; done\n' > three.yaml
echo 'sites: [{name: lab, provider: local, hosts: 3}]' > lab.yaml
check bee doctor
check bee run -q one.yaml
check test "$(cat results/out)" = aarch64
check bee --sites lab.yaml run -q three.yaml
for t in /tests/*; do cd /root; check $t -test.timeout 20m; done
[ $failed = 0 ] && echo "ALL IS WELL"
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > "$work/initrd")

echo "booting"
timeout 50m qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on -accel tcg,thread=multi -smp 2 -m 4G -nographic -nic none -no-reboot \
  -kernel "$work"/tree/boot/vmlinuz* -initrd "$work/initrd" -append "console=ttyAMA0 quiet panic=-1" < /dev/null | tee "$work/console"
grep -q "ALL IS WELL" "$work/console"
