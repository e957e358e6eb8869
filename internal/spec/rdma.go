package spec

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// RDMA is which RDMA devices the containers of a job have. In a Beefile it may also be the
// device alone.
type RDMA struct {
	// Device is RDMAAuto, RDMAHost or RDMANone; "": RDMAAuto.
	Device string `yaml:"device"`
}

// Words of RDMA.Device.
const (
	RDMAAuto = "auto" // the host's, where it has some; none in guests
	RDMAHost = "host" // the host's; a site without usable ones is skipped
	RDMANone = "none"
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

// rdma finds devices that are none, and those that the job's guests cannot have.
func (jc *jobCheck) rdma() {
	j := jc.job
	at := "rdma"
	if _, long := jc.report.places["rdma.device"]; long {
		at = "rdma.device"
	}
	if jc.report.allRead("rdma") {
		jc.report.oneOf(at, j.RDMA.Device)
	}
	if v := j.VM; v != nil && v.When != VMNever && v.When != VMAuto && j.RDMA.Device == RDMAHost && jc.report.allRead("rdma", "vm") {
		jc.report.at(at, "leave `rdma` or `vm` out", "%s: a virtual machine cannot use the host's devices", at)
	}
}
