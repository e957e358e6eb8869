package core

import (
	"fmt"
	"time"
)

// Answer is how a job ended after it was asked to write its checkpoint.
type Answer string

// Answers.
const (
	AnswerWrote   Answer = "wrote"   // it ended in its own way, or files of its checkpoint changed
	AnswerDied    Answer = "died"    // it died of the signal, and nothing shows that it wrote a checkpoint
	AnswerNothing Answer = "nothing" // it died of the signal, and nothing is there of `checkpoint.paths`
)

// NodeReport is what a node reports of its host and its use.
type NodeReport struct {
	Rank       int           `json:"rank"`
	Host       string        `json:"host"`
	Addr       string        `json:"addr"`
	Runtime    string        `json:"runtime"`
	Cores      int           `json:"cores"`
	UserTime   time.Duration `json:"user_time"`
	SystemTime time.Duration `json:"system_time"`
	MaxRSS     int64         `json:"max_rss"`
	// MemoryKills is how many processes of the job the kernel killed there because memory was
	// full, and HostMemoryKills how many on the whole host.
	MemoryKills     int `json:"memory_kills,omitempty"`
	HostMemoryKills int `json:"host_memory_kills,omitempty"`
	// MemoryUnlimited is why the job's memory was not limited there to what it names; empty: it
	// was, or it names none.
	MemoryUnlimited string `json:"memory_unlimited,omitempty"`
	// Full reports that the disk with the disks of its virtual machine was full at the end.
	Full bool `json:"full,omitempty"`
	// RDMA are the RDMA devices of its host that its container had.
	RDMA []RDMADevice `json:"rdma,omitempty"`
	// Energy is that of its host from the start of its container to the end.
	Energy Energy `json:"energy,omitzero"`
	// VMCommand is the command line of QEMU for its guest. Of the nodes of an attempt, rank 0 alone
	// has one, as the others are alike.
	VMCommand string `json:"vm_command,omitempty"`
}

// MostVMCommand bounds the command line of QEMU in reports, in bytes.
const MostVMCommand = 8 << 10

// Energy is what the processors of a host have used.
type Energy struct {
	// Joules are more than 0 where Unknown is empty.
	Joules float64 `json:"joules,omitempty"`
	// Unknown is why nothing is known, and Remedy what would help.
	Unknown string `json:"unknown,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
	// Boot names the running kernel, as several hosts of a run may be one machine.
	Boot string `json:"boot,omitempty"`
}

// Bounds of what a host may report of its energy.
const (
	maxJoules     = 1e15
	maxEnergyText = 1000
)

// Check refuses what no host uses.
func (e Energy) Check() error {
	if !(e.Joules >= 0 && e.Joules <= maxJoules) {
		return fmt.Errorf("it is %g J, expected 0 to %g", e.Joules, float64(maxJoules))
	}
	for _, text := range []string{e.Unknown, e.Remedy, e.Boot} {
		if Printable(text, maxEnergyText) != text {
			return fmt.Errorf("a text is %q, expected a printable one of %d bytes at most", Printable(text, maxEnergyText), maxEnergyText)
		}
	}
	return nil
}

// RDMADevice is an RDMA device of a host.
type RDMADevice struct {
	Name   string     `json:"name"`
	Driver string     `json:"driver,omitempty"` // the kernel's
	Ports  []RDMAPort `json:"ports,omitempty"`
}

// RDMAPort is a port of an RDMADevice.
type RDMAPort struct {
	Number int    `json:"number"`
	State  string `json:"state"`      // such as ACTIVE
	Link   string `json:"link_layer"` // InfiniBand or Ethernet
	Rate   int64  `json:"bits_per_second,omitempty"`
}

// Bounds of what a host may report of its RDMA devices.
const (
	maxRDMA     = 256 // devices, and ports of each
	maxRDMAText = 64
	maxRDMARate = 1 << 60
)

// CheckRDMA refuses devices that no host has.
func CheckRDMA(devices []RDMADevice) error {
	if len(devices) > maxRDMA {
		return fmt.Errorf("they are %d, expected %d at most", len(devices), maxRDMA)
	}
	for _, d := range devices {
		if len(d.Ports) > maxRDMA {
			return fmt.Errorf("ports are %d, expected %d at most", len(d.Ports), maxRDMA)
		}
		texts := []string{d.Name, d.Driver}
		for _, p := range d.Ports {
			texts = append(texts, p.State, p.Link)
			if p.Number < 0 || p.Rate < 0 || p.Rate > maxRDMARate {
				return fmt.Errorf("port %d has the rate %d, expected %d at most", p.Number, p.Rate, int64(maxRDMARate))
			}
		}
		for _, text := range texts {
			if Printable(text, maxRDMAText) != text {
				return fmt.Errorf("a word is %q, expected a printable one of %d bytes at most", Printable(text, maxRDMAText), maxRDMAText)
			}
		}
	}
	return nil
}
