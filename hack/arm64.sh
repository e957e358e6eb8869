#!/usr/bin/env bash
# Run BEE on the other architecture: boots Debian's arm64 kernel in QEMU, with
# everything in the initial RAM file system as on a diskless node, runs a job
# on it and on emulated hosts, then the tests that need no other programs; then
# takes it for a host behind ssh, from this machine of another architecture;
# `hack/arm64.sh ssh` does only that.
# Needs qemu-system-arm, busybox, kmod, ssh, and a Debian mirror. Takes ten minutes.
#
# `hack/arm64.sh guest` builds the guest image of virtual machines for arm64, by
# qemu-user, and boots it in QEMU until docker is ready in it. Needs arch-test, and
# qemu-user-static registered with the kernel (the package does so with systemd).
set -euo pipefail
cd "$(dirname "$0")/.."
here=$PWD
work=$(mktemp -d /var/tmp/bee-arm64.XXXXXX)
machine=
trap '[ -z "$machine" ] || kill "$machine" 2>/dev/null || true; rm -rf "$work"' EXIT

if [ "${1:-}" = guest ]; then
  CGO_ENABLED=0 GOARCH=arm64 go build -trimpath -ldflags "-s -w" -o "$work/bee-arm64" ./cmd/bee
  CGO_ENABLED=0 go build -trimpath -o "$work/bee" ./cmd/bee
  cache=${BEE_CACHE:-$work/cache}
  id=$("$work/bee" --cache "$cache" vm image build --arch arm64)
  BEE_TEST_ARM64_TREE=$cache/trees/${id#sha256:} BEE_TEST_ARM64_BINARY=$work/bee-arm64 \
    go test -count=1 -v -timeout 30m -run '^TestAnotherArchitecture$' ./internal/vm
  exit
fi

echo "getting the kernel"
cd "$work"
mkdir -p lists/partial cache/archives/partial
mirror=$("$here/hack/mirror.sh")
echo "deb [arch=arm64] $mirror bookworm main" > sources.list
apt=(-qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" -o Dir::Etc::sourceparts=/nonexistent
  -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::State::status=/dev/null -o APT::Sandbox::User=)
apt-get "${apt[@]}" update
kernel=$(apt-cache "${apt[@]}" depends linux-image-arm64 | grep -o 'linux-image-[0-9][^ ]*' | head -1)
apt-get "${apt[@]}" download "$kernel" busybox-static
for d in ./*.deb; do dpkg-deb -x "$d" tree; done
# sshd with all the libraries that it wants
apt-get "${apt[@]}" -y --no-install-recommends --download-only install openssh-server > /dev/null
mkdir server
for d in cache/archives/*.deb; do case $d in */perl* | */libperl*) ;; *) dpkg-deb -x "$d" server ;; esac; done

echo "building"
root=$work/root
mkdir -p "$root"/{bin,dev,proc,sys,tmp,root,etc,run,var/tmp,modules,tests,usr/bin}
cp tree/bin/busybox "$root/bin/"
for applet in $(busybox --list); do [ -e "$root/bin/$applet" ] || ln -s busybox "$root/bin/$applet"; done
depmod -b tree "${kernel#linux-image-}"
for m in llc stp bridge veth overlay sch_tbf virtio_pci virtio_net; do
  modprobe -d "$work/tree" -S "${kernel#linux-image-}" --show-depends "$m" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
done | awk '!seen[$0]++' > order
for m in $(cat order); do cp "$m" "$root/modules/"; basename "$m"; done > "$root/modules/order"
mkdir -p "$root"/usr/sbin "$root"/usr/lib/openssh "$root"/etc/ssh "$root"/root/.ssh
cp -a server/lib "$root/"; mkdir -p "$root/usr/lib"; cp -a server/usr/lib/aarch64-linux-gnu "$root/usr/lib/"
cp server/usr/sbin/sshd "$root/usr/sbin/"
ssh-keygen -q -t ed25519 -N "" -f key; ssh-keygen -q -t ed25519 -N "" -f "$root/etc/ssh/host_key"
cp key.pub "$root/etc/ssh/authorized"
printf 'HostKey /etc/ssh/host_key\nAuthorizedKeysFile /etc/ssh/authorized\nPermitRootLogin yes\nStrictModes no\nUsePAM no\n' > "$root/etc/ssh/sshd_config"
cd "$here"
export CGO_ENABLED=0 GOOS=linux GOARCH=arm64
go build -trimpath -ldflags "-s -w" -o "$root/bin/bee" ./cmd/bee
packages=(internal/runtime/rootless internal/wire internal/state internal/procid internal/mpi internal/fabric internal/node internal/node/head internal/provider/local)
[ "${1:-}" != ssh ] || packages=()
for p in "${packages[@]}"; do
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
for m in $(cat /modules/order); do insmod /modules/$m; done
printf 'root:x:0:0:root:/root:/bin/sh\nsshd:x:1:1::/run/sshd:/bin/false\n' > /etc/passwd; printf 'root:x:0:\nsshd:x:1:\n' > /etc/group
ip link set eth0 up; ip addr add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2
mkdir -p /run/sshd; chmod 755 /run/sshd; /usr/sbin/sshd
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
for t in /tests/*; do [ -e "$t" ] && cd /root && check $t -test.timeout 20m; done
[ $failed = 0 ] && echo "ALL IS WELL"
echo "WAITING FOR SSH"
n=0; while [ ! -e /tmp/over ] && [ $n -lt 600 ]; do sleep 1; n=$((n + 1)); done
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > "$work/initrd")

echo "booting"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
timeout 50m qemu-system-aarch64 -M virt -cpu max,pauth-impdef=on -accel tcg,thread=multi -smp 2 -m 4G -nographic -no-reboot \
  -netdev "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:$port-:22" -device virtio-net-pci,netdev=net,romfile= \
  -kernel "$work"/tree/boot/vmlinuz* -initrd "$work/initrd" -append "console=ttyAMA0 quiet panic=-1" < /dev/null > "$work/console" &
machine=$!
tail -F --pid "$machine" "$work/console" 2>/dev/null &
until grep -q "WAITING FOR SSH" "$work/console"; do
  kill -0 "$machine" || { echo "the machine ended before its tests did" >&2; exit 1; }
  sleep 1
done
grep -q "ALL IS WELL" "$work/console"

echo "as a host behind ssh"
cd "$work"
mkdir bin user && cd user
printf 'Host arm\nHostName 127.0.0.1\nPort %s\nUser root\nIdentityFile %s\nUserKnownHostsFile %s\n' "$port" "$work/key" "$work/known" > "$work/config"
echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 "$root/etc/ssh/host_key.pub")" > "$work/known"
printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$work/config" > "$work/bin/ssh"
chmod +x "$work/bin/ssh"
(cd "$here" && GOARCH=$(go env GOHOSTARCH) go build -o "$work/bin/bee" ./cmd/bee)
cp "$root/bin/bee" "$work/bin/bee-linux-arm64" # as `make release` lays them side by side
export PATH=$work/bin:$PATH BEE_STATE=$work/state BEE_CACHE=$work/bee-cache
archive() { # ARCHITECTURE BUSYBOX: a docker-archive of it
  rm -rf layer && mkdir -p layer/bin layer/etc layer/proc layer/sys layer/dev layer/tmp
  cp "$2" layer/bin/busybox && for a in sh uname cat; do ln -s busybox layer/bin/$a; done
  tar -C layer -cf layer.tar .
  printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$1" "$(sha256sum layer.tar | cut -d' ' -f1)" > config.json
  echo '[{"Config":"config.json","RepoTags":["arm:1"],"Layers":["layer.tar"]}]' > manifest.json
  tar -cf "$1.tar" manifest.json config.json layer.tar
}
archive arm64 "$work/tree/bin/busybox"
archive amd64 "$(command -v busybox)"
echo 'sites: [{name: rack, provider: ssh, hosts: [arm], scratch: /var/tmp}]' > sites.yaml
for a in arm64 amd64; do
  printf 'name: far\nimage: docker-archive:%s.tar\nworkdir: /work\nrun: uname -m | tee /work/out\noutputs: [{from: /work/out, to: results}]\n' $a > $a.yaml
done
bee --sites sites.yaml plan arm64.yaml
bee --sites sites.yaml run -q arm64.yaml
[ "$(cat results/out)" = aarch64 ]
if bee --sites sites.yaml run -q amd64.yaml 2> error; then echo "an image of another architecture was run" >&2; exit 1; fi
cat error
grep -q arm64 error
ssh arm 'ls -A /var/tmp; touch /tmp/over'
wait "$machine" || true
machine=
echo "ALL IS WELL, over ssh too"
