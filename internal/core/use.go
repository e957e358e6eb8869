package core

import (
	"fmt"
	"math"
	"time"
)

// Sample is what the processes of a container have used so far, and use now.
type Sample struct {
	Time       time.Time `json:"time"`
	CPUSeconds float64   `json:"cpu_seconds"`
	// MemoryBytes counts pages that processes share once, where the kernel reports (Pss).
	MemoryBytes int64 `json:"memory_bytes"`
	ReadBytes   int64 `json:"read_bytes"`
	WriteBytes  int64 `json:"write_bytes"`
	Processes   int   `json:"processes"`
	// Cores and HostMemoryBytes are those of the host, or of the guest.
	Cores           int   `json:"cores"`
	HostMemoryBytes int64 `json:"host_memory_bytes"`
}

// Check implements the check of package rpc.
func (s Sample) Check() error {
	if !(s.CPUSeconds >= 0) || s.MemoryBytes < 0 || s.ReadBytes < 0 || s.WriteBytes < 0 || s.Processes < 0 || s.Cores < 0 || s.HostMemoryBytes < 0 {
		return &Error{Kind: Invalid, Op: "check", Object: "a sample"}
	}
	return nil
}

// Use is what a node uses over some seconds: a number for each of the constants below, in
// their order. Those of GPUs are missing where it has none, or they are not known.
type Use []float64

// The places of a Use.
const (
	UseCores     = iota // cores in use, on average
	UseMemory           // bytes, the most of these seconds
	UseRead             // bytes a second
	UseWritten          // bytes a second
	UseGPUs             // GPUs in use, on average
	UseGPUMemory        // bytes, the most of these seconds
	Uses                // how many there are
)

// useMost is the largest number of each.
var useMost = [Uses]float64{UseCores: 1 << 20, UseMemory: 1 << 60, UseRead: 1 << 60, UseWritten: 1 << 60, UseGPUs: 1 << 10, UseGPUMemory: 1 << 60}

// Check refuses numbers that no node of ours has measured.
func (u Use) Check() error {
	if len(u) != UseGPUs && len(u) != Uses {
		return &Error{Kind: Invalid, Op: "check", Object: "what a node uses", Err: fmt.Errorf("there are %d numbers, expected %d or %d", len(u), UseGPUs, Uses), Remedy: RemedyVersions}
	}
	for i, n := range u {
		if math.IsNaN(n) || n < 0 || n > useMost[i] {
			return &Error{Kind: Invalid, Op: "check", Object: "what a node uses", Err: fmt.Errorf("number %d is %v, expected 0 to %v", i+1, n, useMost[i]), Remedy: RemedyVersions}
		}
	}
	return nil
}

// IsPeak reports whether a number of a Use is the most of its seconds, and not an average.
func IsPeak(use int) bool { return use == UseMemory || use == UseGPUMemory }
