package node

import (
	"os"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/plan"
)

// Machine is the virtual machine that a node wants between its host and the
// container.
type Machine struct {
	plan.VM
	// Tree is the unpacked guest image, and Kept the directory of what this
	// host keeps with it.
	Tree, Kept string
	// Cores are the host's that the run may use, and Sharers how many guests
	// of the run are on one machine, of which this is the Index-th.
	Cores, Sharers, Index int
	// Free is the machine's memory that the guests may have, in bytes, before
	// any of them ran; 0 when unknown.
	Free int64
	// Port is the end of a datagram socket pair that leads to the other
	// guests, as rank Rank; nil: there are none.
	Port *os.File
	// PortPath is a Unix socket that does so, for the rings of the guest's
	// network device, in place of Port.
	PortPath string
	Rank     int
	// Group is where the guests' hypervisors meet by multicast, and Via this
	// host's address for it; without Port.
	Group, Via string
	// SoftRDMA gives the guest the software device of its kernel for RDMA; PCI the function of
	// a card by its address on the host, "" none.
	SoftRDMA bool
	PCI      string
	// Broker is what the guest's agent makes the broker of bee_0 of; nil: the guest has none.
	Broker *driver.BrokerOptions
	// Peers has the machine hold all that its container uses, so that it can be
	// saved; nil: it need not.
	Peers *driver.Peers
	// Volume is the run's volume where it is no directory of this host; nil:
	// it is.
	Volume *MachineVolume
	// Inputs is this host's directory of the run's inputs outside the volume.
	Inputs string
	// Report is given how it goes, and Emulated whether the guest's processors are.
	Report   func(message string)
	Emulated func(is bool)
}

// MachineVolume is a data image in place of a host's directory.
type MachineVolume struct {
	Dir string // of the host that it stands in for
	// Image is its file on node 0's host, whose guest serves it to Clients;
	// Server is that guest's address, on all other nodes.
	Image, Server, Clients string
}
