# What a machine's own firmware boots: the kernel as it is packed, which is a program of UEFI,
# and the loader that has it find its initrd and its command line.
cp "$vmlinuz" /vmlinuz
mkdir /bee-build/loader
(cd /bee-build/loader && apt-get download -o APT::Sandbox::User=root systemd-boot-efi && dpkg-deb -x systemd-boot-efi_*.deb .)
cp /bee-build/loader/usr/lib/systemd/boot/efi/systemd-boot*[!b].efi /loader.efi
dpkg-deb -f /bee-build/loader/systemd-boot-efi_*.deb Package Version | sed 's/^[A-Za-z]*: //' | paste -s -d ' ' >> /packages
chmod 644 /vmlinuz /loader.efi
mkdir /qemu # empty: no host runs this guest
