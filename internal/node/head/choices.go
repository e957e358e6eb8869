package head

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
)

// choices are what the head settles for all hosts, by what each reported as it joined.
type choices struct {
	plan    *plan.Plan
	infos   []peercall.JoinRequest // by rank
	journal *journal.Journal
	nameOf  func(rank int) string
}

// choices returns those of the attempt, once all nodes have joined.
func (hs *hosts) choices() choices {
	return choices{plan: hs.plan, infos: hs.infos, journal: hs.journal, nameOf: hs.nameOf}
}

// decideVM drops the virtual machines that are only for hosts which can run no
// containers, where all can.
func (c choices) decideVM() {
	if c.plan.VM == nil || !c.plan.VM.OnDemand {
		return
	}
	for rank, info := range c.infos {
		if info.NoRuntime != "" {
			c.journal.Say(core.PhaseJoin, fmt.Sprintf("using virtual machines, as %s can run no containers itself: %s", c.nameOf(rank), info.NoRuntime))
			return
		}
	}
	c.plan.VM = nil
}

// decideNIC has all guests attached to their switches in the same way, as they send each
// other what one of their devices makes: where the job leaves it open, by sockets if any
// host can do no better.
func (c choices) decideNIC() {
	if c.plan.VM == nil || c.plan.VM.NIC != "" {
		return
	}
	c.plan.VM.NIC = fabric.Rings
	for rank, info := range c.infos {
		if info.NoRings != "" {
			c.plan.VM.NIC = fabric.Sockets
			c.journal.Say(core.PhaseJoin, fmt.Sprintf("using `nic: socket`, which is slower: on %s the switch cannot be a guest's network device: %s", c.nameOf(rank), info.NoRings))
			return
		}
	}
}

// warnOfClear reports who asked for links in clear what that means.
func (c choices) warnOfClear() {
	if c.plan.VM != nil && c.plan.VM.Encryption == plan.EncryptionNone && fabricWanted(c.plan, len(c.infos)) {
		c.journal.Say(core.PhaseJoin, "warning: the guests' network is not encrypted (`encryption: none`): whoever can listen or send on the network between the hosts can read and change what passes there")
	}
}

// enoughMemory refuses guests that together want more memory than a machine, or
// the batch job on it, has for them: before anything is copied or started.
func (c choices) enoughMemory() error {
	if c.plan.VM == nil || c.plan.VM.Memory == 0 || c.plan.VM.HugePages {
		return nil
	}
	guests, has := map[string]int64{}, map[string]driver.Memory{}
	for _, info := range c.infos {
		m := info.Machine
		if guests[m]++; info.Memory.Free > 0 && (has[m].Free == 0 || info.Memory.Free < has[m].Free) {
			has[m] = info.Memory
		}
	}
	for rank, info := range c.infos {
		if err := has[info.Machine].Enough(c.nameOf(rank), guests[info.Machine], c.plan.VM.Memory); err != nil {
			return err
		}
	}
	return nil
}

// members is the table of all nodes. The head's own address is the one by
// which most of the others got through.
func (c choices) members(addrs []string) []peercall.Member {
	votes := map[string]int{}
	best := ""
	if len(addrs) > 0 {
		best = addrs[0]
	}
	for _, info := range c.infos[1:] {
		if votes[info.Reached]++; votes[info.Reached] > votes[best] {
			best = info.Reached
		}
	}
	list := make([]peercall.Member, len(c.infos))
	for rank, info := range c.infos {
		addr := best
		if rank > 0 && len(info.Addrs) > 0 {
			addr = info.Addrs[0]
		}
		slots := c.plan.Slots
		if slots == 0 {
			slots = info.Cores
		}
		list[rank] = peercall.Member{
			Rank: rank, Name: c.nameOf(rank), Addr: addr, IP: peercall.HostOf(addr), Cores: info.Cores, Slots: slots,
			Processors: info.Processors, Machine: info.Machine,
		}
		if c.plan.VM != nil {
			c.inMachine(&list[rank])
		}
	}
	return list
}

// inMachine makes a member what it is inside its virtual machine.
func (c choices) inMachine(m *peercall.Member) {
	sockets, each, threads := c.plan.VM.Topology(m.Cores)
	m.Cores = sockets * each * threads
	if c.plan.Slots == 0 {
		m.Slots = m.Cores
	}
	m.Processors, m.Machine = m.Cores, m.Machine+"/"+strconv.Itoa(m.Rank)
	if fabricWanted(c.plan, len(c.infos)) {
		m.IP = fabric.Address(m.Rank).String()
	}
}

// network is how the nodes reach each other, as far as it is one for all.
func (c choices) network(members []peercall.Member) peercall.Network {
	if c.plan.VM != nil {
		return fabricNetwork(c.plan, len(c.infos))
	}
	if len(c.infos) == 1 {
		return peercall.Network{}
	}
	net := peercall.NetworkOf(members[0].IP)
	for _, info := range c.infos[1:] {
		switch {
		case net.CIDR == "":
			net.CIDR = info.Network.CIDR
		case info.Network.CIDR != "" && !slices.Contains(strings.Split(net.CIDR, ","), info.Network.CIDR):
			net.CIDR += "," + info.Network.CIDR // hosts in several subnets
		}
		if info.Network.Interface != net.Interface {
			net.Interface = ""
		}
	}
	return net
}

// fabricWanted reports whether the guests of so many nodes have a network of their own.
func fabricWanted(p *plan.Plan, size int) bool {
	return size > 1 && p.VM.Fabric != fabric.None
}

// fabricNetwork is the network of the guests, for MPI.
func fabricNetwork(p *plan.Plan, size int) peercall.Network {
	if !fabricWanted(p, size) {
		return peercall.Network{}
	}
	return peercall.Network{CIDR: fabric.Network().String(), Interface: fabric.Interface}
}
