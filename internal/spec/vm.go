package spec

import (
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// VM describes the virtual machines between hosts and containers, one on each
// host. In a Beefile it may also be true (all defaults), false or auto.
type VM struct {
	// When is always, never, or auto: only where no container runtime works.
	When string `yaml:"when"`
	// PerHost is how many of the job's nodes, each a guest, share a host;
	// default 1.
	PerHost int `yaml:"per_host"`
	// CPUs that a guest sees; 0: the host's cores. Sockets and Threads (per
	// core) divide them; default 1.
	CPUs    int `yaml:"cpus"`
	Sockets int `yaml:"sockets"`
	Threads int `yaml:"threads"`
	// Memory of a guest; default: three quarters of what is free on the host.
	Memory Size `yaml:"memory"`
	// Disk is the most that docker and the container may write in a guest
	// outside the volume; it takes space only as it is used. Default 20G.
	Disk Size `yaml:"disk"`
	// CPU is the processor model that guests see: QEMU's name, or max (all
	// that the host has). Name one for the same results on all hosts.
	CPU string `yaml:"cpu"`
	// Accel: auto (default), kvm or tcg (software emulation).
	Accel string `yaml:"accel"`
	// Devices of a guest: virtio (default), or emulated, network and disks that QEMU
	// emulates as hardware.
	Devices string `yaml:"devices"`
	// Fabric is the network between the guests: switch (default), star, tree,
	// multicast or none.
	Fabric string `yaml:"fabric"`
	// NIC is how a guest is attached to its host's switch: vhost (default where all hosts can), by the
	// rings of its network device in shared memory, with checksums and segments
	// left undone on the way; or socket, a datagram for each frame.
	NIC string `yaml:"nic"`
	// Encryption of what passes between the hosts' switches: tls (default), or
	// none.
	Encryption string `yaml:"encryption"`
	// Share is how guests have the hosts' directory: 9p (default), or virtiofs
	// where it works.
	Share string `yaml:"share"`
	// MTU of the fabric; default 65280.
	MTU int `yaml:"mtu"`
	// Image is a guest image of the cache or a registry; default: one is
	// built of Debian's packages, once.
	Image string `yaml:"image"`
	// Packages are further Debian packages of the guest that is built.
	Packages []string `yaml:"packages"`
	// Bridge gives docker in the guest its own network beside the guest's,
	// for people who use it there; it costs time at the start.
	Bridge bool `yaml:"bridge"`
	// HugePages has the guests' memory in huge pages.
	HugePages bool `yaml:"huge_pages"`
	// Pin binds each processor of a guest to one of its host's.
	Pin bool `yaml:"pin"`
	// Disks are further disks of each guest.
	Disks []VMDisk `yaml:"disks"`
}

// VMDisk is a disk of each guest that appears in the container at To: empty,
// of that size, and gone with the guest; or the file From, the raw image of a
// file system on every host, which is only read.
type VMDisk struct {
	Size Size   `yaml:"size"`
	From string `yaml:"from"`
	To   string `yaml:"to"`
}

// Words of VM.When.
const (
	VMAlways = "always"
	VMNever  = "never"
	VMAuto   = "auto"
)

// vmForm is VM without its own decode, so that object can fill it.
type vmForm VM

func (v *VM) decode(d *decoder, n ast.Node, path string) {
	switch n.(type) {
	case *ast.BoolNode, *ast.StringNode:
		word, _ := d.text(n, path)
		switch word {
		case "true":
			v.When = VMAlways
		case "false":
			v.When = VMNever
		case VMAuto:
			v.When = VMAuto
		default:
			d.report.problem(begins(n), "true, false, auto, or keys such as {cpus: 4, memory: 8G}", "%s%q is not known", prefix(path), word)
		}
	default:
		d.object(n, reflect.ValueOf((*vmForm)(v)).Elem(), path)
	}
}

// Words of VM.NIC.
const (
	NICRings   = "vhost"
	NICSockets = "socket"
)

// NativeRuntime starts programs of an image without a container: on the host or, with
// virtual machines, in the guest. Only studies have it.
const NativeRuntime = "native"

// HostRuntime starts programs that the host has installed, without a container. Only studies
// have it.
const HostRuntime = "native-host"

// Words of VM.Devices.
const (
	DevicesVirtio   = "virtio"
	DevicesEmulated = "emulated"
)

// Words of VM.Encryption.
const (
	EncryptionTLS  = "tls"
	EncryptionNone = "none"
)

// Limits of what a guest can be given.
const (
	mostDisks   = 16 // each is a device, and what all guests have leaves room for some twenty
	mostMounts  = 40 // eight share the place of a device; the volume and inputs are of them
	leastMemory = 512 << 20
	leastDisk   = 1 << 30
	leastExtra  = 16 << 20
)

// vm finds virtual machines that cannot be.
func (jc *jobCheck) vm(v *VM) {
	jc.report.oneOf("vm.when", v.When)
	jc.report.oneOf("vm.accel", v.Accel)
	jc.report.oneOf("vm.fabric", v.Fabric)
	jc.report.oneOf("vm.nic", v.NIC)
	jc.report.oneOf("vm.encryption", v.Encryption)
	jc.report.oneOf("vm.share", v.Share)
	jc.report.oneOf("vm.devices", v.Devices)
	within(jc.report, "vm.per_host", v.PerHost)
	within(jc.report, "vm.cpus", v.CPUs)
	within(jc.report, "vm.sockets", v.Sockets)
	within(jc.report, "vm.threads", v.Threads)
	within(jc.report, "vm.mtu", v.MTU)
	sockets, threads := max(v.Sockets, 1), max(v.Threads, 1)
	switch {
	case v.PerHost > 1 && v.When == VMAuto:
		jc.report.at("vm.per_host", "", "vm.per_host needs virtual machines on every host, and `auto` may have none")
	case !jc.report.allRead("vm.cpus", "vm.sockets", "vm.threads"):
	case v.CPUs%(sockets*threads) != 0:
		jc.report.at("vm.cpus", "", "vm.cpus: %d processors cannot be divided into %d sockets of cores with %d threads", v.CPUs, sockets, threads)
	}
	if v.NIC == NICRings && (v.Fabric == "multicast" || v.Fabric == "none") {
		jc.report.at("vm.nic", "", "vm.nic: with `fabric: %s` there is no switch whose device it could be", v.Fabric)
	}
	if v.Devices == DevicesEmulated && jc.report.allRead("vm.devices") {
		switch {
		case v.NIC == NICRings:
			jc.report.at("vm.nic", "", "vm.nic: emulated devices have no rings")
		case v.Image != "":
			jc.report.at("vm.image", "leave it out: a guest with their drivers is built", "vm.image: it need not have the drivers of emulated devices")
		case jc.job.Volume.Kind == VolumeVirtio:
			jc.report.at("volume.kind", "leave it out: the volume is a data image", "volume.kind: with emulated devices no directory is shared by virtio")
		}
	}
	if v.Encryption == EncryptionTLS && v.Fabric == "multicast" {
		jc.report.at("vm.encryption", "", "vm.encryption: with `fabric: multicast` the hypervisors speak to each other, and encrypt nothing")
	}
	if v.Memory != 0 && v.Memory < leastMemory {
		jc.report.at("vm.memory", "at least 512M", "vm.memory: a guest with docker does not start in so little")
	}
	if v.Disk != 0 && v.Disk < leastDisk {
		jc.report.at("vm.disk", "at least 1G", "vm.disk: docker has no room in so little")
	}
	if n := len(v.Disks); n > mostDisks {
		jc.report.at("vm.disks", "", "vm.disks: a guest has room for %d of them, not for %d", mostDisks, n)
	}
	for i, disk := range v.Disks {
		at := fmt.Sprintf("vm.disks[%d]", i)
		switch {
		case !jc.report.allRead(at):
		case (disk.Size == 0) == (disk.From == ""):
			jc.report.at(at, "{size: 10G, to: /scratch} or {from: /data/reference.img, to: /reference}", "%s: give either `size`, for an empty disk, or `from`, a file of the hosts", at)
		case disk.Size != 0 && disk.Size < leastExtra:
			jc.report.at(at+".size", "at least 16M", "%s.size: a file system has no room in so little", at)
		case disk.From != "" && !path.IsAbs(disk.From):
			jc.report.at(at+".from", "", "%s.from: %q is no absolute path on the hosts", at, disk.From)
		case !path.IsAbs(disk.To) || path.Clean(disk.To) == "/":
			jc.report.at(at+".to", "such as /scratch", "%s.to: %q is no absolute path below /", at, disk.To)
		default:
			jc.target(at+".to", disk.To)
		}
	}
	jc.report.checkImage("vm.image", v.Image)
	jc.packages("vm.packages", v.Packages)
	if v.Image != "" && len(v.Packages) > 0 {
		jc.report.atKey("vm.packages", "", "vm.packages are for a guest that is built, and vm.image names one that is")
	}
}

// aroundVM finds what the rest of the job has that cannot be with its virtual
// machines.
func (jc *jobCheck) aroundVM() {
	j := jc.job
	if j.VM.When != VMNever && j.VM.When != VMAuto {
		if j.GPUs != 0 && jc.report.allRead("gpus") {
			jc.report.atKey("gpus", "leave `gpus` or `vm` out", "gpus: a virtual machine cannot use the host's")
		}
		if j.Runtime != "" && j.Runtime != "auto" && j.Runtime != "docker" && jc.report.allRead("runtime") {
			jc.report.at("runtime", "leave it out", "runtime: in virtual machines docker starts the containers, not %s", j.Runtime)
		}
	}
	taken := map[string]string{}
	if jc.report.allRead("volume") {
		taken[path.Clean(j.Volume.Path)] = "the volume"
	}
	for _, in := range j.Inputs { // with a slash at its end, it may be a file below
		taken[in.To] = "an input"
	}
	for i, disk := range j.VM.Disks {
		at, to := fmt.Sprintf("vm.disks[%d]", i), path.Clean(disk.To)
		if what, is := taken[to]; is && jc.report.allRead(at) {
			jc.report.at(at+".to", "", "%s.to: %s is there already, at %s", at, what, to)
		}
		taken[to] = "another disk"
	}
}

// Size is a number of bytes.
type Size int64

func (b *Size) decode(d *decoder, n ast.Node, path string) {
	s, ok := d.text(n, path)
	if !ok {
		return
	}
	size, err := ParseSize(s)
	if err != nil {
		d.report.problem(begins(n), "such as 512M, 8G or 1.5T", "%s%v", prefix(path), err)
		return
	}
	*b = Size(size)
}

// ParseSize reads a number of bytes such as 512M, 8G or 1.5T; nothing is 0.
func ParseSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	number := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(strings.TrimSpace(s)), "B"), "I")
	factor := 1.0
	if i := strings.IndexAny(number, "KMGT"); i >= 0 && i == len(number)-1 {
		factor = float64(int64(1) << (10 * (1 + strings.IndexByte("KMGT", number[i]))))
		number = strings.TrimSpace(number[:i])
	}
	x, ok := decimal(number)
	if !ok || x*factor > 1<<62 {
		return 0, fmt.Errorf("%q is no size", s)
	}
	return int64(x * factor), nil
}

// NodesPerHost is how many of the job's nodes share a host.
func (j *Job) NodesPerHost() int {
	if j.VM == nil || j.VM.When == VMNever || j.VM.PerHost < 1 {
		return 1
	}
	return j.VM.PerHost
}

// Hosts is how many hosts the job's nodes take.
func (j *Job) Hosts() int { return (j.Nodes + j.NodesPerHost() - 1) / j.NodesPerHost() }
