package qemu

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	f := os.Stdin
	argv, files := Machine{
		Name: "a,b", Program: []string{"ld.so", "qemu"}, Accel: "tcg", CPU: "max", Topology: Topology{2, 3, 1}, Memory: 1 << 30, Kernel: "k", Initrd: "i", Append: "x y",
		Console: "c,d", Disks: []Disk{{File: "r,s", Serial: "one", ReadOnly: true}, {File: "w", Serial: "two"}, {File: "d", Serial: "three", Durable: true}}, Ports: []Port{{Name: "p", Socket: f}},
		Nets: []Net{{}, {Socket: f, MAC: "02:be:e0:00:00:01", MTU: 65280}}, Shares: []Share{{Path: "/a", Tag: "t", ReadOnly: true}}, Control: f,
	}.Command()
	want := "ld.so qemu -nodefaults -no-user-config -no-reboot -display none -name guest=a,,b,debug-threads=on -accel tcg,thread=multi,tb-size=256 " +
		"-machine q35,usb=off,vmport=off,smbus=off,sata=off,i8042=off,graphics=off -cpu max -m 1024M -smp 6,sockets=2,cores=3,threads=1 -kernel k -initrd i -append x y " +
		"-rtc base=utc,driftfix=slew -device virtio-rng-pci -chardev file,id=console,path=c,,d -serial chardev:console " +
		"-device virtio-serial-pci -chardev socket,id=port0,fd=3 -device virtserialport,chardev=port0,name=p " +
		"-drive if=none,id=disk0,format=raw,file.locking=off,cache=unsafe,discard=unmap,readonly=on,file=r,,s -device virtio-blk-pci,drive=disk0,serial=one " +
		"-drive if=none,id=disk1,format=raw,file.locking=off,cache=unsafe,discard=unmap,readonly=off,file=w -device virtio-blk-pci,drive=disk1,serial=two,werror=report,rerror=report " +
		"-drive if=none,id=disk2,format=raw,file.locking=off,cache=writeback,discard=unmap,readonly=off,file=d -device virtio-blk-pci,drive=disk2,serial=three,werror=report,rerror=report " +
		"-netdev user,id=net0,ipv6=off,restrict=off -device virtio-net-pci,netdev=net0,romfile= " +
		"-netdev dgram,id=net1,local.type=fd,local.str=4 -device virtio-net-pci,netdev=net1,romfile=,host_mtu=65280,mac=02:be:e0:00:00:01 " +
		"-fsdev local,id=share0,security_model=none,multidevs=remap,readonly=on,path=/a -device virtio-9p-pci,fsdev=share0,mount_tag=t,addr=0x1e.0,multifunction=on " +
		"-chardev socket,id=qmp,fd=5 -mon chardev=qmp,mode=control -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
	if got := strings.Join(argv, " "); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(files) != 3 {
		t.Errorf("%d descriptors", len(files))
	}
	argv, _ = Machine{Accel: "kvm", Program: []string{"qemu"}, HugePages: true, Memory: 1 << 30, Topology: Topology{1, 1, 1}}.Command()
	got := strings.Join(argv, " ")
	shared, _ := Machine{Accel: "tcg", Program: []string{"qemu"}, Topology: Topology{1, 1, 1}, Shares: []Share{{Path: "/a", Tag: "t", Server: []string{"s"}, socket: f}}}.Command()
	got += strings.Join(shared, " ")
	for _, want := range []string{"-chardev socket,id=share0,fd=3 -device vhost-user-fs-pci,queue-size=1024,chardev=share0,tag=t,addr=0x1e.0,multifunction=on,vectors=0", "graphics=off,memory-backend=pc.ram", "graphics=off,accel=kvm,memory-backend=pc.ram", "memory-backend-memfd,id=pc.ram,size=1073741824,share=on,hugetlb=on,prealloc=on"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	argv, _ = Machine{Program: []string{"qemu"}, Accel: "tcg", Topology: Topology{1, 1, 1}, Emulated: true, Disks: slices.Repeat([]Disk{{File: "r", Serial: "s", ReadOnly: true}}, 7), Nets: []Net{{MTU: 1500}}}.Command()
	emulated := strings.Join(argv, " ")
	for _, want := range []string{"-device ahci,id=ahci0 ", "-device ahci,id=ahci1 ", "snapshot=on,file=r -device ide-hd,bus=ahci1.0,drive=disk6,serial=s", "-device e1000,netdev=net0,romfile= "} {
		if !strings.Contains(emulated, want) {
			t.Errorf("%s is missing in %s", want, emulated)
		}
	}
	if strings.Contains(emulated, "virtio-blk") || strings.Contains(emulated, "virtio-net") || strings.Contains(emulated, "host_mtu") {
		t.Errorf("emulated devices with virtio's: %s", emulated)
	}
	argv, _ = Machine{Program: []string{"qemu"}, Accel: "kvm", Memory: 1 << 30, Topology: Topology{1, 1, 1}, Arch: "amd64", CPU: "host", Function: "0000:81:00.1", Control: f}.Command()
	const withFunction = "qemu -nodefaults -no-user-config -no-reboot -display none -name guest=,debug-threads=on -machine q35,usb=off,vmport=off,smbus=off,sata=off,i8042=off,graphics=off,accel=kvm " +
		"-cpu host -m 1024M -smp 1,sockets=1,cores=1,threads=1 -rtc base=utc,driftfix=slew -device virtio-rng-pci -chardev file,id=console,path= -serial chardev:console " +
		"-device vfio-pci,host=0000:81:00.1 -chardev socket,id=qmp,fd=3 -mon chardev=qmp,mode=control -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
	if got := strings.Join(argv, " "); got != withFunction {
		t.Errorf("with a function of a card: got\n%s\nwant\n%s", got, withFunction)
	}
	argv, files = Machine{Program: []string{"qemu"}, Accel: "tcg", Memory: 1 << 30, Topology: Topology{1, 1, 1}, Arch: "amd64", CPU: "max", Pool: &Pool{File: f, Bytes: 256 << 20}, Control: f}.Command()
	const withPool = "qemu -nodefaults -no-user-config -no-reboot -display none -name guest=,debug-threads=on -accel tcg,thread=multi,tb-size=256 -machine q35,usb=off,vmport=off,smbus=off,sata=off,i8042=off,graphics=off " +
		"-cpu max -m 1024M,slots=1,maxmem=1280M -smp 1,sockets=1,cores=1,threads=1 -rtc base=utc,driftfix=slew -device virtio-rng-pci -chardev file,id=console,path= -serial chardev:console " +
		"-object memory-backend-file,id=pool,size=268435456,mem-path=/proc/self/fd/3,share=on -device virtio-pmem-pci,memdev=pool -chardev socket,id=qmp,fd=4 -mon chardev=qmp,mode=control " +
		"-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
	if got := strings.Join(argv, " "); got != withPool || len(files) != 2 {
		t.Errorf("with a pool: %d descriptors, got\n%s\nwant\n%s", len(files), got, withPool)
	}
	argv, _ = Machine{Program: []string{"qemu"}, MemoryFile: "/m,1", Memory: 1 << 30, Topology: Topology{1, 1, 1}, Arch: "amd64"}.Command()
	if got := strings.Join(argv, " "); !strings.Contains(got, "memory-backend-file,id=pc.ram,size=1073741824,mem-path=/m,,1,share=off") || !strings.Contains(got, "memory-backend=pc.ram") {
		t.Errorf("memory from a file: %s", got)
	}
}

// TestManyShares has as many devices as a machine has at most.
func TestManyShares(t *testing.T) {
	dir := t.TempDir()
	disk := filepath.Join(dir, "disk")
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	m := Machine{Nets: make([]Net, 2), Disks: slices.Repeat([]Disk{{File: disk, ReadOnly: true}}, 21)} // one for the ports, which are missing
	for i := range MostShares {
		m.Shares = append(m.Shares, Share{Path: dir, Tag: "t" + strconv.Itoa(i), ReadOnly: true})
	}
	bare(t, m) // which fails where QEMU has no place for one
}
