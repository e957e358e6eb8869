package spec

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// RDMA is which RDMA devices the containers of a job have. In a Beefile it may also be the
// device alone.
type RDMA struct {
	// Device is RDMAAuto, RDMAHost, RDMABee, RDMASoft or RDMANone; "": RDMAAuto.
	Device string `yaml:"device"`
	// PCI is the address of a function of a card, the same on each host, which the
	// administrator has bound to vfio-pci; "": none. It is for virtual machines.
	PCI string `yaml:"pci"`
	// Memory is how much memory with remote rights a container may have on bee_0, and QPs how
	// many queue pairs; 0: the default.
	Memory Size `yaml:"memory"`
	QPs    int  `yaml:"qps"`
	// Path is how queue pairs of bee_0 in containers of one machine exchange data: PathDirect or
	// PathForward; "": PathDirect.
	Path string `yaml:"path"`
	// Domain joins the devices bee_0 of runs of one user on one host; "": the run has its own.
	Domain string `yaml:"domain"`
}

// Words of RDMA.Device.
const (
	RDMAAuto = "auto" // the host's, where it has some; none in guests
	RDMAHost = "host" // the host's; a site without usable ones is skipped
	RDMABee  = "bee"  // BEE's own device, bee_0
	RDMASoft = "soft" // in guests, the software device of their kernel
	RDMANone = "none"
)

// Words of RDMA.Path.
const (
	PathDirect  = "direct"  // by memory that both have
	PathForward = "forward" // by BEE's processes, as between machines
)

// rdmaForm is RDMA without its own decode, so that object can fill it.
type rdmaForm RDMA

func (r *RDMA) decode(d *decoder, n ast.Node, path string) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		d.object(n, reflect.ValueOf((*rdmaForm)(r)).Elem(), path)
		if _, given := d.report.places[join(path, "device")]; !given {
			r.Device = RDMAAuto
		}
	default:
		r.Device, _ = d.text(n, path)
	}
}

// rdma finds devices that are none, and those that the job's containers cannot have.
func (jc *jobCheck) rdma() {
	j := jc.job
	at := "rdma"
	if _, long := jc.report.places["rdma.device"]; long {
		at = "rdma.device"
	}
	if !jc.report.allRead("rdma") {
		return
	}
	jc.report.oneOf(at, j.RDMA.Device)
	within(jc.report, "rdma.qps", j.RDMA.QPs)
	for _, key := range []string{"rdma.memory", "rdma.qps", "rdma.path", "rdma.domain"} {
		if _, given := jc.report.places[key]; given && j.RDMA.Device != RDMABee {
			jc.report.at(key, "`{device: bee, …}`", "%s is of BEE's own device", key)
		}
	}
	if j.RDMA.Path != "" {
		jc.report.oneOf("rdma.path", j.RDMA.Path)
	}
	if _, given := jc.report.places["rdma.domain"]; given {
		jc.rdmaDomain()
	}
	if _, given := jc.report.places["rdma.pci"]; given {
		jc.rdmaFunction()
		return
	}
	if !jc.report.allRead("vm") {
		return
	}
	switch guests := j.VM != nil && j.VM.When != VMNever && j.VM.When != VMAuto; {
	case guests && j.RDMA.Device == RDMAHost:
		jc.report.at(at, "`{device: host, pci: ADDRESS}` passes a function of the card in, and `soft` needs no card", "%s: a virtual machine cannot use the host's devices as containers do", at)
	case guests && j.RDMA.Device == RDMABee && jc.report.allRead("checkpoint", "resume") && j.SavesVM():
		jc.report.at(at, "`soft`, or a job that writes its own checkpoint", "%s: a guest with bee_0 cannot be saved", at)
	case !guests && j.RDMA.Device == RDMASoft:
		jc.report.at(at, "`vm: true`", "%s: soft is a device of virtual machines, which the job need not have", at)
	case guests && j.RDMA.Device == RDMASoft && j.VM.Fabric == "none" && j.Nodes > 1:
		jc.report.at("vm.fabric", "", "vm.fabric: the software device needs the network between the guests")
	}
}

// rdmaDomain finds domains that no run can join. Which site the run gets, and whether that has several hosts for it, is
// known at the start alone.
func (jc *jobCheck) rdmaDomain() {
	const at = "rdma.domain"
	switch j := jc.job; {
	case !fits(at, j.RDMA.Domain):
		jc.report.at(at, "such as lab: up to 32 letters, digits, and `-` or `_` behind the first", "%s: %q is no name of a domain", at, j.RDMA.Domain)
	case jc.report.allRead("vm") && j.VM != nil && j.VM.When != VMNever:
		jc.report.at(at, "`vm: false`, or leave `domain:` out", "%s: virtual machines of several runs share no memory", at)
	case j.RDMA.Path == PathForward:
		jc.report.at("rdma.path", "`direct`, or leave `domain:` out", "rdma.path: the runs of a domain share memory, and forward nothing")
	}
}

// rdmaFunction finds functions of cards that no guest can have.
func (jc *jobCheck) rdmaFunction() {
	const at = "rdma.pci"
	j := jc.job
	switch {
	case !fits(at, j.RDMA.PCI):
		jc.report.at(at, "such as 0000:81:00.1, as `lspci -D` prints it", "%s: %q is no address of a PCI function", at, j.RDMA.PCI)
	case j.RDMA.Device != RDMAHost:
		jc.report.at(at, "`{device: host, pci: …}`", "%s is a function of the host's card", at)
	case !jc.report.allRead("vm"):
	case j.VM == nil || j.VM.When == VMNever || j.VM.When == VMAuto:
		jc.report.at(at, "`vm: true`, or leave `pci` out: containers have all devices of their host", "%s is for virtual machines, which the job need not have", at)
	case j.VM.PerHost > 1:
		jc.report.at(at, "", "%s: only one of the %d guests of a host can have it", at, j.VM.PerHost)
	case jc.report.allRead("checkpoint", "resume") && j.SavesVM():
		jc.report.at(at, "`soft`, or a job that writes its own checkpoint", "%s: a guest with a function of a card cannot be saved", at)
	}
}
