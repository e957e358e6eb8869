// Package rdma reads what a host has for RDMA: devices and their ports from sysfs, device
// nodes and whether this user may open them, the limit of locked memory, and the libraries
// of an image. It changes nothing. It knows neither jobs nor runtimes.
package rdma

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Host is where to look; the zero Host is this machine.
type Host struct {
	// Root is put before every path. For tests.
	Root string
	// Open opens a device node as a program would; nil: as this process. For tests.
	Open func(path string) error
}

// Inventory is what a host has for RDMA.
type Inventory struct {
	Devices []Device
	// Nodes are the device nodes that programs use, by path. Those of the subnet's
	// administration (umad, issm) are not among them.
	Nodes []Node
	// Locked is the soft limit of locked memory in bytes; Unlimited.
	Locked int64
	// Exclusive means that a device is seen in one network namespace alone.
	Exclusive bool
}

// Unlimited is the limit that is none.
const Unlimited = -1

// Device is a device with verbs.
type Device struct {
	Name string
	// Driver is the kernel's; "" where sysfs does not show it.
	Driver string
	// Node is the path of its device node; "" where the kernel has none for it.
	Node  string
	Ports []Port
}

// SoftDevice is the name of the kernel's software device (rdma_rxe) in guests.
const SoftDevice = "rxe0"

// Soft returns that device, as far as libraries go by it.
func Soft() Device { return Device{Name: SoftDevice, Driver: softDriver} }

// OwnDevice is BEE's own, as records have it.
func OwnDevice() core.RDMADevice {
	return core.RDMADevice{Name: "bee_0", Driver: "bee", Ports: []core.RDMAPort{{Number: 1, State: active, Link: "InfiniBand"}}}
}

// softDriver is the driver of the kernel's software device.
const softDriver = "rdma_rxe"

// Port is a port of a device, as sysfs shows it.
type Port struct {
	Number int
	State  string // such as ACTIVE
	Link   string // InfiniBand or Ethernet
	// Rate is in bits per second.
	Rate int64
}

// Node is a device node.
type Node struct {
	Path string
	// Group is that of the file, by name if it has one.
	Group string
	// Err is why it does not open.
	Err error
}

// maxValue bounds what is read of a file of one line, in bytes.
const maxValue = 4 << 10

// active is the state of a port that carries data.
const active = "ACTIVE"

// Look reads what the host has.
func (h Host) Look() Inventory {
	i := Inventory{Nodes: h.nodes(), Locked: h.locked(), Exclusive: h.value("/sys/module/ib_core/parameters/netns_mode") == "N"}
	uverbs := h.uverbs()
	for _, name := range h.names("/sys/class/infiniband") {
		d := h.device(name)
		d.Node = uverbs[name]
		i.Devices = append(i.Devices, d)
	}
	return i
}

// Empty reports whether the host has no device. Without one it may have other nodes: the
// connection manager's, and xpmem.
func (i Inventory) Empty() bool {
	return len(i.Devices) == 0 && !slices.ContainsFunc(i.Nodes, func(n Node) bool {
		word, _ := cutNumber(filepath.Base(n.Path))
		return slices.Contains([]string{"uverbs", "hfi1_", "cxi"}, word)
	})
}

// Paths are the device nodes that a container needs.
func (i Inventory) Paths() []string {
	var paths []string
	for _, n := range i.Nodes {
		paths = append(paths, n.Path)
	}
	return paths
}

// Report lists the devices with ports and rates, as records and JSON have them.
func (i Inventory) Report() []core.RDMADevice {
	var list []core.RDMADevice
	for _, d := range i.Devices {
		r := core.RDMADevice{Name: d.Name, Driver: d.Driver}
		for _, p := range d.Ports {
			r.Ports = append(r.Ports, core.RDMAPort{Number: p.Number, State: p.State, Link: p.Link, Rate: p.Rate})
		}
		list = append(list, r)
	}
	return list
}

// uverbs returns the device nodes by the names of their devices.
func (h Host) uverbs() map[string]string {
	const class = "/sys/class/infiniband_verbs"
	nodes := map[string]string{}
	for _, name := range h.names(class) {
		if of := h.value(class, name, "ibdev"); of != "" {
			nodes[of] = "/dev/infiniband/" + name
		}
	}
	return nodes
}

// device reads a device of /sys/class/infiniband
// (Documentation/ABI/stable/sysfs-class-infiniband of the kernel).
func (h Host) device(name string) Device {
	at := "/sys/class/infiniband/" + name
	d := Device{Name: name}
	if driver, err := os.Readlink(h.Root + at + "/device/driver"); err == nil {
		d.Driver = filepath.Base(driver)
	} else if h.value(at, "parent") != "" { // rxe's own attribute: it has no hardware
		d.Driver = softDriver
	}
	for _, number := range h.names(at + "/ports") {
		p := Port{Link: h.value(at, "ports", number, "link_layer"), Rate: rate(h.value(at, "ports", number, "rate"))}
		var err error
		if p.Number, err = strconv.Atoi(number); err != nil {
			continue
		}
		_, p.State, _ = strings.Cut(h.value(at, "ports", number, "state"), ": ")
		d.Ports = append(d.Ports, p)
	}
	return d
}

// rate reads a text such as "100 Gb/sec (4X EDR)"; 0: it is another.
func rate(text string) int64 {
	number, rest, _ := strings.Cut(text, " ")
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(rest, "Gb/sec") || !(x >= 0 && x < 1e6) {
		return 0
	}
	return int64(x * 1e9)
}

// names lists a directory, numbers in their order; none: it cannot be read.
func (h Host) names(dir string) []string {
	entries, err := os.ReadDir(h.Root + dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.SortFunc(names, byNumber)
	return names
}

// byNumber orders names that end with numbers: uverbs2 before uverbs10.
func byNumber(a, b string) int {
	word, number := cutNumber(a)
	otherWord, other := cutNumber(b)
	if word != otherWord || number == other {
		return strings.Compare(a, b)
	}
	return number - other
}

func cutNumber(s string) (word string, number int) {
	word = strings.TrimRight(s, "0123456789")
	number, err := strconv.Atoi(s[len(word):])
	if err != nil {
		return s, 0
	}
	return word, number
}

// value reads a file of one line; "": it cannot be read.
func (h Host) value(path ...string) string {
	f, err := os.Open(h.Root + filepath.Join(path...))
	if err != nil {
		return ""
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxValue))
	if err != nil {
		return ""
	}
	return core.Printable(strings.TrimSpace(string(raw)), maxValue)
}

// locked reads the soft limit of locked memory, which programs start with.
func (h Host) locked() int64 {
	raw, err := os.ReadFile(h.Root + "/proc/self/limits")
	if err != nil {
		return Unlimited
	}
	for _, line := range strings.Split(string(raw), "\n") {
		rest, is := strings.CutPrefix(line, "Max locked memory")
		if !is {
			continue
		}
		if soft := strings.Fields(rest); len(soft) > 0 {
			if n, err := strconv.ParseInt(soft[0], 10, 64); err == nil {
				return n
			}
		}
	}
	return Unlimited
}

// nodes finds the device nodes that programs use: verbs and the connection manager,
// Omni-Path (hfi1), Slingshot (cxi) and memory of other processes (xpmem).
func (h Host) nodes() []Node {
	var nodes []Node
	for _, from := range []struct {
		dir   string
		words []string
	}{{"/dev/infiniband", []string{"uverbs"}}, {"/dev", []string{"hfi1_", "cxi"}}} {
		for _, name := range h.names(from.dir) {
			if word, _ := cutNumber(name); word != name && slices.Contains(from.words, word) {
				nodes = append(nodes, h.node(from.dir+"/"+name))
			}
		}
	}
	for _, path := range []string{"/dev/infiniband/rdma_cm", "/dev/xpmem"} {
		if info, err := os.Stat(h.Root + path); err == nil && !info.IsDir() {
			nodes = append(nodes, h.node(path))
		}
	}
	return nodes
}

func (h Host) node(path string) Node {
	n := Node{Path: path, Group: group(h.Root + path)}
	open := h.Open
	if open == nil {
		open = func(path string) error {
			fd, err := unix.Open(h.Root+path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}
	}
	n.Err = open(path)
	return n
}

// RateText is a rate as people write it, such as 100 Gbit/s.
func RateText(bits int64) string {
	if bits <= 0 {
		return "rate not known"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bits)/1e9), ".0") + " Gbit/s"
}
