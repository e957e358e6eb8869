# Turn the root file system around us into a guest image: kernel, boot modules
# and one squashfs. Runs in the chroot, as the last step of the build.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
cd /
dpkg-query -W -f '${Package} ${Version}\n' > /packages

# The kernel package without its dependencies: we need no initramfs-tools.
image=$(apt-cache depends "$KERNEL" | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1)
mkdir -p /bee-build && chmod 755 /bee-build
(cd /bee-build && apt-get download -o APT::Sandbox::User=root "${image:-$KERNEL}")
dpkg-deb -x /bee-build/*.deb /bee-build/kernel
dpkg-deb -f /bee-build/*.deb Package Version | sed 's/^[A-Za-z]*: //' | paste -s -d ' ' >> /packages
version=$(ls /bee-build/kernel/lib/modules)
if [ -d /lib/modules ]; then rm -rf /lib/modules; fi

# Only what virtual hardware, networks, file systems and containers need.
from=/bee-build/kernel/lib/modules/$version
to=/usr/lib/modules/$version
mkdir -p "$to/kernel/drivers/net"
for dir in arch crypto lib fs net virt drivers/virtio drivers/block drivers/char drivers/infiniband drivers/firmware drivers/vhost \
  drivers/crypto/virtio drivers/nvdimm drivers/dax drivers/vdpa drivers/net/ethernet/mellanox drivers/ptp drivers/pps drivers/watchdog drivers/cdrom drivers/dca; do
  [ -d "$from/kernel/$dir" ] || continue
  mkdir -p "$to/kernel/$dir"
  cp -a "$from/kernel/$dir/." "$to/kernel/$dir/"
done
cp -a "$from"/kernel/drivers/net/*.ko "$from"/kernel/drivers/net/vxlan "$from"/kernel/drivers/net/bonding \
  "$from"/kernel/drivers/net/macvlan* "$from"/kernel/drivers/net/ipvlan "$to/kernel/drivers/net/" 2>/dev/null || true
rm -rf "$to"/kernel/net/wireless "$to"/kernel/net/mac80211 "$to"/kernel/net/bluetooth "$to"/kernel/net/batman-adv "$to"/kernel/net/can \
  "$to"/kernel/drivers/block/drbd "$to"/kernel/fs/ocfs2 "$to"/kernel/fs/btrfs "$to"/kernel/fs/f2fs "$to"/kernel/fs/jfs "$to"/kernel/fs/reiserfs
for f in modules.order modules.builtin modules.builtin.modinfo; do cp "$from/$f" "$to/"; done
@DRIVERS@depmod "$version"

# The modules that reach the root file system, in order of loading. Debian's
# kernel has some of them built in on some architectures.
mkdir /modules
n=10
for name in virtio_pci virtio_mmio virtio_blk virtio_console qemu_fw_cfg squashfs overlay@BOOT@; do
  for file in $(modprobe --set-version "$version" --show-depends "$name" | sed -n 's/^insmod \([^ ]*\).*/\1/p'); do
    base=$(basename "$file" | sed 's/\.ko.*//')
    [ -n "$(ls /modules | grep -x "[0-9]*-$base\.ko" || true)" ] && continue
    case $file in
      *.xz) xz -dc "$file" > "/modules/$n-$base.ko" ;;
      *) cp "$file" "/modules/$n-$base.ko" ;;
    esac
    n=$((n + 1))
  done
done

# A kernel for x86 unpacks itself, which costs an emulated machine seconds.
# QEMU boots the plain ELF file by the PVH protocol as well. Offsets: the
# kernel's Documentation/x86/boot.rst (payload_offset, payload_length).
vmlinuz=$(ls /bee-build/kernel/boot/vmlinu[xz]-*)
if [ "$(dd if="$vmlinuz" bs=1 skip=514 count=4 2>/dev/null)" = HdrS ]; then
  perl -e 'open F, "<", $ARGV[0]; binmode F; local $/; my $d = <F>;
    my $base = (ord(substr($d, 0x1f1, 1)) || 4) * 512 + 512;
    my ($off, $len) = unpack("VV", substr($d, 0x248, 8));
    binmode STDOUT; print substr($d, $base + $off, $len)' "$vmlinuz" > /bee-build/payload
  case $(od -A n -t x1 -N 4 /bee-build/payload) in
    " fd 37 7a 58") xz --single-stream -dc < /bee-build/payload > /vmlinux ;;
    *) cp "$vmlinuz" /vmlinux ;;
  esac
else
  cp "$vmlinuz" /vmlinux
fi

@HYPERVISOR@
# Ours: the places that BEE mounts to, and no services of their own.
mkdir -p /.bee /mnt /lib/modules
echo bee > /etc/hostname
printf '127.0.0.1 localhost\n::1 localhost\n' > /etc/hosts
rm -f /etc/resolv.conf && ln -s /run/resolv.conf /etc/resolv.conf
rm -f /etc/ssh/ssh_host_*
# How this host reaches its mirror, perhaps by a proxy and with a password, is
# nobody else's: the builder's own clean-up comes after the squashfs.
rm -f /etc/apt/apt.conf.d/99mmdebstrap /etc/apt/sources.list /etc/apt/sources.list.d/*
ln -sf /proc/self/mounts /etc/mtab

# Nobody looks up or debugs in a guest: what only serves that costs every host its
# transfer.
rm -rf /var/cache/apt/archives/*.deb /var/cache/debconf/* /usr/share/doc /usr/share/man /usr/share/locale /usr/share/info \
  /var/cache/ldconfig /var/log/* /usr/share/bash-completion /usr/share/i18n
rm -rf /usr/bin/ctr /usr/bin/containerd-stress /usr/bin/containerd-shim \
  /usr/bin/containerd-shim-runc-v1 /usr/lib/systemd/systemd /usr/lib/udev/hwdb.d /usr/lib/udev/hwdb.bin /etc/udev/hwdb.bin
# -Xhc would take 100 s of a processor in place of one, to make it a sixth smaller.
# What mmdebstrap has mounted has another owner or date with each of its modes.
mksquashfs / /bee-build/root.sqfs -comp lz4 -noappend -no-progress -quiet -reproducible \
  -p 'proc d 555 0 0' -p 'sys d 555 0 0' -p 'dev d 755 0 0' \
  -wildcards -e proc sys dev 'var/lib/apt/lists/*' 'var/cache/apt/*' 'tmp/*' 'run/*' vmlinux modules packages qemu@LOADER@ bee-build
mv /bee-build/root.sqfs /root.sqfs
chmod 644 /root.sqfs /vmlinux /packages
chmod -R a+rX /qemu
rm -rf /bee-build
# What is left is the artifact, and what mmdebstrap's own end expects.
rm -rf /boot /home /media /mnt /opt /root /run /srv /.bee /var/lib/dpkg/info /etc/ssl /etc/ssh
rm -rf /usr/* /sbin /etc/alternatives /lib64 /lib /lib32 /libx32 /bin
