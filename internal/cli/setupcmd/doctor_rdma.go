package setupcmd

import (
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/rdma"
)

// addRDMA adds what this machine has for RDMA: a finding for each device, and one for each
// problem that keeps programs from all of them.
func (d *diagnosis) addRDMA(i rdma.Inventory) {
	if i.Empty() {
		return
	}
	d.RDMA = i.Report()
	add := func(name string, status standing, detail, remedy string) {
		d.Findings = append(d.Findings, finding{Area: "device", Name: name, Status: status, Detail: detail, Remedy: remedy})
	}
	problems := i.Check(nil, false)
	status := works
	if len(problems) > 0 {
		status = risky // the problems follow
	}
	for _, device := range i.Devices {
		add("RDMA "+device.Name, status, deviceText(device), "")
	}
	for _, n := range i.Nodes {
		if strings.HasPrefix(n.Path, "/dev/cxi") && n.Err == nil {
			add("RDMA", works, n.Path, "")
		}
	}
	for _, p := range problems {
		add("RDMA", risky, p.Text, p.Remedy)
	}
}

// addFunctions adds what virtual machines may have of this machine's cards.
func (d *diagnosis) addFunctions(list []rdma.Function) {
	for _, function := range list {
		f := finding{Area: "device", Name: "PCI function", Status: works, Detail: function.PCI + ", for a virtual machine (`rdma: {device: host, pci: …}`)"}
		if len(function.Problems) > 0 {
			f.Status, f.Detail, f.Remedy = risky, function.Problems[0].Text, function.Problems[0].Remedy
		}
		d.Findings = append(d.Findings, f)
	}
}

// deviceText is a device's driver and ports, for people.
func deviceText(d rdma.Device) string {
	var parts []string
	if d.Driver != "" {
		parts = append(parts, d.Driver)
	}
	for _, p := range d.Ports {
		parts = append(parts, fmt.Sprintf("port %d %s, %s, %s", p.Number, p.State, p.Link, rdma.RateText(p.Rate)))
	}
	return strings.Join(parts, "; ")
}
