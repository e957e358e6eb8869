# The hypervisor travels with its guest, for hosts that have none: QEMU with its
# libraries, its loader and its firmware, to run from any directory. Packages are
# only unpacked: their scripts would want a whole system.
case $KERNEL in *-arm64) qemu=qemu-system-arm program=qemu-system-aarch64 ;; *) qemu=qemu-system-x86 program=qemu-system-x86_64 ;; esac
mkdir /bee-build/debs /bee-build/qemu
(cd /bee-build/debs && apt-get download -o APT::Sandbox::User=root $(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts \
  --no-breaks --no-replaces --no-enhances "$qemu" | grep '^[a-z]' | sed 's/:.*//' | sort -u | while read -r p; do
    apt-cache policy "$p" | grep -q 'Candidate: [0-9]' && echo "$p"; done))
for deb in /bee-build/debs/*.deb; do dpkg-deb -x "$deb" /bee-build/qemu; done
(cd /bee-build/debs && for deb in qemu-system-*.deb seabios*.deb; do [ -e "$deb" ] || continue; dpkg-deb -f "$deb" Package Version | sed 's/^[A-Za-z]*: //' | paste -s -d ' '; done) >> /packages
mkdir -p /qemu/lib /qemu/modules /qemu/share
from=/bee-build/qemu
libraries=$(find $from/lib $from/usr/lib -name '*.so.*' -printf '%h\n' | sort -u | paste -s -d :)
loader=$(find $from/lib $from/usr/lib $from/lib64 -name 'ld-linux-*.so.*' 2>/dev/null | head -n 1)
cp "$from/usr/bin/$program" /qemu/qemu
cp -L "$loader" /qemu/loader
if [ -e "$from/usr/lib/qemu/virtiofsd" ]; then cp "$from/usr/lib/qemu/virtiofsd" /qemu/; fi # as far as QEMU 7.2
# For some architectures the emulator is a module.
for file in $from/usr/lib/*/qemu/accel-tcg-"${program#qemu-system-}".so; do
  if [ -e "$file" ]; then cp "$file" /qemu/modules/; fi
done
cp /usr/sbin/mke2fs /usr/sbin/e2fsck /qemu/ # which make data images, and set them right
for file in /qemu/qemu /qemu/virtiofsd /qemu/modules/*.so /qemu/mke2fs /qemu/e2fsck; do
  [ -e "$file" ] || continue
  "$loader" --library-path "$libraries" --list "$file" | sed -n 's/.* => \([^ ]*\) .*/\1/p'
done | sort -u | while read -r library; do cp -L "$library" /qemu/lib/; done
for name in bios-256k.bin linuxboot.bin linuxboot_dma.bin multiboot.bin multiboot_dma.bin pvh.bin kvmvapic.bin; do
  for dir in qemu seabios; do
    if [ -e "$from/usr/share/$dir/$name" ]; then cp -L "$from/usr/share/$dir/$name" /qemu/share/; fi
  done
done
rm -rf /bee-build/debs /bee-build/qemu
