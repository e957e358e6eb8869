package catalog

import (
	"context"
	"math/bits"
	"os"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/node"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma"
	"github.com/bee-hpc/bee/internal/vm"
	"github.com/bee-hpc/bee/internal/vm/qemu"
)

// machine makes the runtime that puts a virtual machine between a node's host
// and its container.
func machine(ctx context.Context, m node.Machine) (driver.Runtime, error) {
	program := qemu.Choose(ctx, m.Tree)
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	accel := m.Accel
	if accel == "" || accel == "auto" {
		why := ""
		if accel, why, err = vm.Accel(ctx, program, m.Tree, self, verdictDir()); err != nil {
			return nil, err
		}
		if accel == vm.TCG {
			m.Report("virtual machines run in software emulation, which is slow: " + why)
		}
	}
	m.Emulated(accel == vm.TCG)
	var t qemu.Topology
	t.Sockets, t.Cores, t.Threads = m.Topology(m.Cores)
	o := vm.Options{
		Guest: m.Tree, Templates: m.Kept, Program: program, Accel: accel, CPU: m.CPU, Topology: t, Memory: m.Memory, Disk: m.Disk, HugePages: m.HugePages,
		Bridge: m.Bridge, Bare: m.Bare, Emulated: m.VM.Emulated, SocketName: plan.SocketName, SoftRDMA: m.SoftRDMA, PCI: m.PCI, Broker: m.Broker, Peers: m.Peers, Inputs: m.Inputs, Report: m.Report,
	}
	if o.CPU == "" {
		o.CPU = "max"
	}
	if o.Memory == 0 {
		free := m.Free
		if m.HugePages {
			free, _ = qemu.FreeHugePages()
		} else if free == 0 {
			free = vm.FreeMemory("").Free
		}
		o.Memory = free / 4 * 3 / int64(m.Sharers)
		if m.Broker != nil && m.Broker.Pool != nil && !m.HugePages {
			o.Memory -= m.Broker.Pool.Share
		}
		o.Memory = max(o.Memory, leastMemory)
		step := int64(2 << 20) // whole huge pages
		if !m.HugePages {      // the same in each run, for a template serves guests of one size
			step = max(step, 1<<bits.Len64(uint64(o.Memory))/32)
		}
		o.Memory -= o.Memory % step
	}
	if m.PCI != "" {
		if err := rdma.Unusable(rdma.Host{}.CheckFunction(m.PCI, o.Memory)); err != nil {
			return nil, &core.Error{Kind: core.Unsupported, Op: "pass to a guest the PCI function", Object: m.PCI, Err: err, Remedy: core.Remedy(err)}
		}
	}
	if m.Share == plan.ShareVirtiofs && m.Peers == nil {
		if o.ShareServer, err = qemu.ChooseShareServer(self, m.Tree); err != nil {
			m.Report("guests have their hosts' directory by 9p, as virtiofs does not work: " + err.Error())
		}
	}
	if m.Pin {
		if o.Pin, err = vm.Processors(m.Index, m.Sharers, o.Topology.CPUs()); err != nil {
			return nil, err
		}
	}
	for _, d := range m.Disks {
		o.Disks = append(o.Disks, vm.Disk(d))
	}
	if v := m.Volume; v != nil {
		o.Volume = &vm.Volume{Dir: v.Dir, Image: v.Image, Server: v.Server, Clients: v.Clients}
	}
	if m.Port != nil || m.PortPath != "" || m.Group != "" {
		mtu := m.MTU
		if mtu == 0 {
			mtu = fabric.MTU
		}
		if m.Group != "" {
			mtu = min(mtu, fabric.MulticastMTU)
		}
		o.Fabric = &vm.Fabric{Socket: m.Port, Path: m.PortPath, Group: m.Group, Via: m.Via, Interface: api.Interface{
			Name: fabric.Interface, MAC: fabric.MAC(m.Rank), MTU: mtu,
			Address: fabric.Address(m.Rank).String() + "/" + strconv.Itoa(fabric.Network().Bits()),
		}}
	}
	return vm.New(o), nil
}

// KnownAccel is vm.KnownAccel of what machines on this host have found out.
func KnownAccel() (accel, why string, err error) { return vm.KnownAccel(verdictDir()) }

// leastMemory is what a guest with docker needs.
const leastMemory = 512 << 20
