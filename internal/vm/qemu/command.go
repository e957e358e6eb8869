// Package qemu knows QEMU: the command line of one virtual machine, and its
// process, which dies with its parent. It knows nothing of what runs
// in the guest.
package qemu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Machine is one virtual machine as QEMU shall make it.
type Machine struct {
	// Name of the machine, for people who look at processes.
	Name string
	// Program is QEMU's command, as far as its own options: several words
	// where a loader of a bundle comes first.
	Program []string
	// Arch is the guest's, as Go names it; empty: this host's.
	Arch string
	// Type is the machine's, with its version (see Monitor.Type); empty: the
	// newest that this QEMU knows.
	Type string
	// Accel is kvm or tcg, CPU a model that it knows.
	Accel, CPU string
	Topology   Topology
	Memory     int64 // bytes
	// MemoryFile is what the guest's memory is at first, byte by byte. What the
	// guest writes is its own, or with KeepMemory in that file. "": it is empty.
	MemoryFile string
	KeepMemory bool
	HugePages  bool // has the memory in huge pages
	// Emulated has disks (AHCI) and network cards (e1000) that are emulated as hardware.
	Emulated bool
	// Kernel is booted, with Initrd and its command line Append; empty: the
	// firmware finds something, or nothing.
	Kernel, Initrd, Append string
	// Console is the file for what the guest says.
	Console string
	Disks   []Disk
	Ports   []Port
	Nets    []Net
	Shares  []Share
	// Pool is memory that all guests of the host share; nil: none.
	Pool *Pool
	// Function is the PCI address of a function of the host's that is bound to vfio-pci, for
	// the guest; "": none.
	Function string
	// Control is a connected socket for QMP.
	Control *os.File
	// Restore starts the machine paused, its state to come.
	Restore bool
	// Unconfined starts QEMU without its sandbox: see HasSandbox.
	Unconfined bool
	// Extra are further arguments, already complete.
	Extra []string
	// ExtraFiles are descriptors that Extra names by FD(i).
	ExtraFiles []*os.File
}

// Pool is memory that a guest has as a device of persistent memory.
type Pool struct {
	File  *os.File
	Bytes int64
}

// Topology is that of the guest's processors.
type Topology struct{ Sockets, Cores, Threads int }

// CPUs is how many processors the guest sees.
func (t Topology) CPUs() int { return t.Sockets * t.Cores * t.Threads }

// Disk is a raw disk image, found by the guest by its serial number.
type Disk struct {
	File, Serial string
	ReadOnly     bool
	// Durable has what the guest syncs be on the host's disk; without it a
	// disk is only as good as its machine.
	Durable bool
}

// Port is a virtio-serial port at the end of a connected socket, or of one that
// listens: then the guest notices when the host's end comes and goes.
type Port struct {
	Name    string
	Socket  *os.File
	Listens bool
}

// Net is a network interface: a datagram socket pair's end, one frame a
// datagram; or the Unix socket Path of the other side of its
// rings (vhost-user), and maps the guest's memory; or of a multicast group, each frame a datagram to Group from the
// host's address Via; or QEMU's own user network where neither is given.
type Net struct {
	Socket *os.File
	Path   string
	Group  string
	Via    string
	MAC    string
	MTU    int
	// Restricted keeps a user network from reaching anything outside.
	Restricted bool

	dir *os.File // of Path, while the machine starts
}

// Share is a directory of the host: by virtiofs where there is a Server, the
// command that StartShareServer wants, and else by the 9p protocol. Only 9p
// keeps a guest from writing.
type Share struct {
	Path, Tag string
	ReadOnly  bool
	Server    []string
	// Dir, where it is set, is the directory, opened: Path is of no use then.
	Dir *os.File

	socket *os.File // of the server, while the machine starts
}

// firstFD is the number of the first inherited descriptor.
const firstFD = 3

// Command gives the command line, and the descriptors that it names.
func (m Machine) Command() ([]string, []*os.File) {
	b := &builder{argv: append([]string{}, m.Program...), files: append([]*os.File{}, m.ExtraFiles...)}
	b.add("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-name", "guest="+comma(m.Name)+",debug-threads=on")
	machine := m.board()
	if m.Accel == "tcg" {
		b.add("-accel", "tcg,thread=multi,tb-size=256")
	} else {
		machine += ",accel=" + m.Accel
	}
	// Called as QEMU calls what a machine has by itself, each may take the state of the others.
	name := m.memoryName()
	switch {
	case m.MemoryFile != "":
		machine += ",memory-backend=" + name
		b.add("-object", fmt.Sprintf("memory-backend-file,id=%s,size=%d,mem-path=%s,share=%s", name, m.Memory, comma(m.MemoryFile), onOff(m.KeepMemory)))
	case m.HugePages || m.SharesMemory():
		machine += ",memory-backend=" + name
		// Huge pages that are not there show at once, not when they are used.
		b.add("-object", fmt.Sprintf("memory-backend-memfd,id=%s,size=%d,share=on,hugetlb=%s,prealloc=%s", name, m.Memory, onOff(m.HugePages), onOff(m.HugePages)))
	}
	size := strconv.FormatInt(m.Memory>>20, 10) + "M"
	if m.Pool != nil { // room for it among the addresses of memory
		size += ",slots=1,maxmem=" + strconv.FormatInt((m.Memory+m.Pool.Bytes)>>20, 10) + "M"
	}
	b.add("-machine", machine, "-cpu", m.CPU, "-m", size)
	t := m.Topology
	b.add("-smp", fmt.Sprintf("%d,sockets=%d,cores=%d,threads=%d", t.CPUs(), t.Sockets, t.Cores, t.Threads))
	if m.Kernel != "" {
		b.add("-kernel", m.Kernel, "-initrd", m.Initrd, "-append", m.Append)
	}
	b.add("-rtc", "base=utc,driftfix=slew", "-device", "virtio-rng-pci")
	b.add("-chardev", "file,id=console,path="+comma(m.Console), "-serial", "chardev:console")
	// What all guests have comes first, so that it is in the same places in all.
	if len(m.Ports) > 0 {
		b.add("-device", "virtio-serial-pci")
	}
	for i, p := range m.Ports {
		id := "port" + strconv.Itoa(i)
		chardev := "socket,id=" + id + ",fd=" + b.fd(p.Socket)
		if p.Listens {
			chardev += ",server=on,wait=off"
		}
		b.add("-chardev", chardev, "-device", "virtserialport,chardev="+id+",name="+p.Name)
	}
	for i, d := range m.Disks {
		id := "disk" + strconv.Itoa(i)
		// Shared read-only images need no lock, scratch disks have one owner.
		cache, access := "unsafe", "readonly="+onOff(d.ReadOnly)
		device, properties := "virtio-blk-pci", ",drive="+id+",serial="+d.Serial
		if !d.ReadOnly { // a full host is an error in the guest, which QEMU would stop for good
			properties += ",werror=report,rerror=report"
		}
		if d.Durable {
			cache = "writeback"
		}
		if m.Emulated {
			if i%ahciPorts == 0 {
				b.add("-device", "ahci,id=ahci"+strconv.Itoa(i/ahciPorts))
			}
			device = fmt.Sprintf("ide-hd,bus=ahci%d.%d", i/ahciPorts, i%ahciPorts)
			if d.ReadOnly { // such a disk is writable: what a guest writes is dropped
				access = "snapshot=on"
			}
		}
		b.add("-drive", fmt.Sprintf("if=none,id=%s,format=raw,file.locking=off,cache=%s,discard=unmap,%s,file=%s", id, cache, access, comma(d.File)),
			"-device", device+properties)
	}
	for i, n := range m.Nets {
		b.net("net"+strconv.Itoa(i), n, m.rings(), m.Emulated)
	}
	for i, s := range m.Shares {
		id := "share" + strconv.Itoa(i)
		if s.socket != nil {
			b.add("-chardev", "socket,id="+id+",fd="+b.fd(s.socket), "-device", "vhost-user-fs-pci,queue-size=1024,chardev="+id+",tag="+s.Tag+sharePlace(i)+m.rings())
			continue
		}
		path := s.Path
		if s.Dir != nil {
			path = "/proc/self/fd/" + b.fd(s.Dir)
		}
		b.add("-fsdev", "local,id="+id+",security_model=none,multidevs=remap,readonly="+onOff(s.ReadOnly)+",path="+comma(path),
			"-device", "virtio-9p-pci,fsdev="+id+",mount_tag="+s.Tag+sharePlace(i))
	}
	if m.Pool != nil {
		b.add("-object", fmt.Sprintf("memory-backend-file,id=pool,size=%d,mem-path=/proc/self/fd/%s,share=on", m.Pool.Bytes, b.fd(m.Pool.File)), "-device", "virtio-pmem-pci,memdev=pool")
	}
	if m.Function != "" {
		b.add("-device", "vfio-pci,host="+comma(m.Function))
	}
	if m.Control != nil {
		b.add("-chardev", "socket,id=qmp,fd="+b.fd(m.Control), "-mon", "chardev=qmp,mode=control")
	}
	if m.Restore {
		b.add("-incoming", "defer", "-S")
	}
	if !m.Unconfined {
		b.add("-sandbox", sandbox)
	}
	b.add(m.Extra...)
	return b.argv, b.files
}

// ahciPorts is how many disks one AHCI controller of QEMU's has.
const ahciPorts = 6

// MostShares is the number of shares that a machine has room for: they have the last
// slots of its PCI bus, and all other devices the slots below.
const (
	MostShares   = shareSlots * functions
	shareSlots   = 6
	functions    = 8    // of a slot
	lastFreeSlot = 0x1e // the board has 0x1f
)

// sharePlace has several shares be functions of one slot, as a bus has only 32 slots.
func sharePlace(i int) string {
	return fmt.Sprintf(",addr=%#x.%d,multifunction=on", lastFreeSlot-i/functions, i%functions)
}

// SharesMemory reports whether others map the machine's memory: who has the other
// end of the rings of a network device, or serves a directory. A MemoryFile has
// to be kept then.
func (m Machine) SharesMemory() bool {
	return slices.ContainsFunc(m.Nets, func(n Net) bool { return n.Path != "" }) || m.Unmovable()
}

// Unmovable reports whether QEMU refuses to save the machine's state or to give it
// one: its device for a served directory does not know how.
func (m Machine) Unmovable() bool {
	return slices.ContainsFunc(m.Shares, func(s Share) bool { return s.Server != nil })
}

func (m Machine) memoryName() string {
	if archOr(m.Arch) == "arm64" {
		return "mach-virt.ram"
	}
	return "pc.ram"
}

// board is the machine as QEMU calls it, without what no guest of ours uses.
func (m Machine) board() string {
	kind := m.Type
	if archOr(m.Arch) == "arm64" {
		if kind == "" {
			kind = "virt"
		}
		return kind + ",gic-version=3"
	}
	if kind == "" {
		kind = "q35"
	}
	return kind + ",usb=off,vmport=off,smbus=off,sata=off,i8042=off,graphics=off"
}

// ConsoleDevice is what the guest's kernel calls its serial port.
func (m Machine) ConsoleDevice() string {
	if archOr(m.Arch) == "arm64" {
		return "ttyAMA0"
	}
	return "ttyS0"
}

// ClockOptions are what the guest's kernel reads of its clocks. On a busy host
// its look whether its timer ticks takes an emulated one for broken, and panics;
// and it measures a third of the frequency of an emulated time stamp counter, by
// which its time then passes three times as quickly.
func (m Machine) ClockOptions() string {
	if archOr(m.Arch) == "arm64" { // where unknown options would become its first program's
		return ""
	}
	options := " tsc=reliable no_timer_check"
	if khz := m.CounterKHz(); khz > 0 {
		options += fmt.Sprintf(" tsc_early_khz=%d", khz)
	}
	return options
}

// CounterKHz is the frequency of the host's counter where the guest has that; else 0.
func (m Machine) CounterKHz() int64 {
	if m.Accel != "tcg" || archOr(m.Arch) == "arm64" {
		return 0
	}
	return tscKHz()
}

// FD is the number in QEMU of the i-th of ExtraFiles.
func FD(i int) string { return strconv.Itoa(firstFD + i) }

type builder struct {
	argv  []string
	files []*os.File
}

func (b *builder) add(args ...string) { b.argv = append(b.argv, args...) }

func (b *builder) fd(f *os.File) string {
	b.files = append(b.files, f)
	return FD(len(b.files) - 1)
}

// rings are options of devices whose rings another process serves.
func (m Machine) rings() string {
	if m.Accel == "tcg" { // QEMU 7.2 then looks for KVM's interrupts behind its message-signaled ones, and crashes
		return ",vectors=0"
	}
	return ""
}

func (b *builder) net(id string, n Net, rings string, emulated bool) {
	device := "virtio-net-pci,netdev=" + id + ",romfile="
	if emulated {
		device = "e1000,netdev=" + id + ",romfile="
	}
	switch {
	case n.Socket != nil:
		b.add("-netdev", "dgram,id="+id+",local.type=fd,local.str="+b.fd(n.Socket))
	case n.Path != "":
		path := n.Path
		if n.dir != nil { // by a descriptor, as addresses of sockets are short
			path = "/proc/self/fd/" + b.fd(n.dir) + "/" + filepath.Base(path)
		}
		b.add("-chardev", "socket,id="+id+",path="+comma(path), "-netdev", "vhost-user,id="+id+",chardev="+id)
		device += ",rx_queue_size=1024,tx_queue_size=1024" + rings
	case n.Group != "":
		b.add("-netdev", "socket,id="+id+",mcast="+n.Group+",localaddr="+n.Via)
	default:
		b.add("-netdev", "user,id="+id+",ipv6=off,restrict="+onOff(n.Restricted))
	}
	if n.MTU > 0 && !emulated {
		device += ",host_mtu=" + strconv.Itoa(n.MTU)
	}
	if n.MAC != "" {
		device += ",mac=" + n.MAC
	}
	b.add("-device", device)
}

// comma doubles commas, as QEMU's option values want them.
func comma(s string) string { return strings.ReplaceAll(s, ",", ",,") }

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
