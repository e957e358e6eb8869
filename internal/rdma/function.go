package rdma

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// vfio is the driver of functions that a virtual machine may have.
const vfio = "vfio-pci"

// networkClass begins the PCI class of network cards, those of InfiniBand among them.
const networkClass = "0x02"

// vfioDir has the device nodes of such functions, one for each group.
const vfioDir = "/dev/vfio"

// aboveGuest is the locked memory, in bytes, that QEMU needs beyond that of its guest.
const aboveGuest = 64 << 20

// Function is a PCI function of this host's network cards that a virtual machine may have.
type Function struct {
	PCI string // its address
	// Problems keep every virtual machine from it; none: it is usable.
	Problems []Problem
}

// Functions lists those that are bound to vfio-pci.
func (h Host) Functions() []Function {
	const drivers = "/sys/bus/pci/drivers/" + vfio
	var list []Function
	for _, name := range h.names(drivers) {
		if strings.HasPrefix(h.value(drivers, name, "class"), networkClass) {
			list = append(list, Function{name, h.CheckFunction(name, 0)})
		}
	}
	return list
}

// CheckFunction returns what keeps a virtual machine of so many bytes of memory from a PCI
// function of this host, which it drives itself (Documentation/driver-api/vfio.rst of the
// kernel); none: it can have it.
func (h Host) CheckFunction(pci string, memory int64) []Problem {
	at := "/sys/bus/pci/devices/" + pci
	if _, err := os.Stat(h.Root + at); err != nil {
		return []Problem{{"this host has no PCI function " + pci, "Have the administrator enable virtual functions of the card (sriov_numvfs); `lspci -D` lists them."}}
	}
	link, err := os.Readlink(h.Root + at + "/iommu_group")
	if err != nil {
		return []Problem{{"PCI function " + pci + " is in no IOMMU group", "Have the administrator enable the IOMMU in the firmware and, for Intel, by intel_iommu=on on the kernel's command line."}}
	}
	if driver := h.driver(at); driver != vfio {
		return []Problem{{fmt.Sprintf("PCI function %s has driver %q, expected %s", pci, driver, vfio), "Have the administrator bind it: `driverctl set-override " + pci + " " + vfio + "`."}}
	}
	group := filepath.Base(link)
	for _, other := range h.names("/sys/kernel/iommu_groups/" + group + "/devices") {
		switch driver := h.driver("/sys/bus/pci/devices/" + other); driver {
		case "", vfio, "pci-stub", "pcieport": // those that no driver uses, and bridges, which stay with the host
		default:
			return []Problem{{
				fmt.Sprintf("PCI function %s shares IOMMU group %s with %s, which driver %s of the host has", pci, group, other, driver),
				"Have the administrator bind that one to " + vfio + " as well, or choose a function with a group of its own.",
			}}
		}
	}
	for _, path := range []string{vfioDir + "/vfio", filepath.Join(vfioDir, group)} {
		if n := h.node(path); n.Err != nil {
			return []Problem{n.shutFunction()}
		}
	}
	if limit := h.locked(); limit != Unlimited && memory > 0 && limit < memory+aboveGuest {
		return []Problem{{
			fmt.Sprintf("the limit of locked memory is %d MiB, and a guest with a function of a card needs %d MiB: all of its memory", limit>>20, (memory+aboveGuest)>>20), raiseLocked,
		}}
	}
	return nil
}

// shutFunction is the problem of a node of vfio that does not open.
func (n Node) shutFunction() Problem {
	p := n.shut()
	switch {
	case errors.Is(n.Err, unix.EACCES):
		p.Remedy = fmt.Sprintf("Ask the administrator to add you to the group %s, or to make you the owner of %s.", n.Group, n.Path)
	case errors.Is(n.Err, unix.EBUSY):
		p.Remedy = "Another virtual machine has the function: wait until it has ended, or name another function."
	case errors.Is(n.Err, unix.ENOENT):
		p.Remedy = "Have the administrator load the module " + vfio + "."
	}
	return p
}

// driver is the kernel's driver of a PCI function; "": it has none.
func (h Host) driver(at string) string {
	link, err := os.Readlink(h.Root + at + "/driver")
	if err != nil {
		return ""
	}
	return filepath.Base(link)
}
