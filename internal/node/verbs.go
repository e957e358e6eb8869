package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/server"
	"github.com/bee-hpc/bee/internal/rdma/library"
)

// Where containers have the parts of bee_0.
const (
	insideVerbs  = "/.bee/verbs.so"
	insideSocket = "/.bee/rdma.sock"
	// insideNode is the character device without which UCX takes no device for one.
	insideNode = "/dev/infiniband/uverbs0"
)

// verbs is BEE's own verbs device, bee_0, of this node's container. The nodes of one machine
// have one broker, in the node with the lowest rank: whenever a node dies, the attempt ends.
type verbs struct {
	config plan.Config
	log    *slog.Logger
	life   context.Context // the node's
	known  *known
	pool   *pool

	mu     sync.Mutex
	ready  bool // the library is written and leader known; if that is this node, ports listen
	leader int
	ports  map[int]*server.Port // by rank
	server *server.Server
	far    *verbsLinks  // nil: all nodes are on this machine, or another node runs the broker
	guest  *guestBroker // runs the broker; nil: no guest does
	shared []io.Closer  // memory of guests
}

// start makes the device, or waits for the node that does, as long as the start may take.
func (v *verbs) start(ctx context.Context) error {
	c := v.config
	lead, err := v.lead()
	if err != nil || lead == c.Rank {
		return err
	}
	if err := server.Wait(ctx, plan.VerbsSocket(c.Host.Dir, c.Rank)); err != nil {
		return fmt.Errorf("wait for the device bee_0 of node %d, which runs the broker of this machine: %w", lead, err)
	}
	return nil
}

// lead returns the rank of the node that runs the broker, once it does if that is this one.
func (v *verbs) lead() (rank int, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c := v.config
	job, members, _ := v.known.all()
	switch {
	case v.guest != nil: // each guest is a machine
		return c.Rank, nil
	case job.VM != nil && !pooled(job, members): // there is none yet
		return 0, errNoVerbs()
	case v.ready:
		return v.leader, nil
	}
	verbs, err := library.Get()
	if err != nil {
		return 0, err
	}
	if err := os.WriteFile(plan.VerbsLibrary(c.Host.Dir, c.Rank), verbs.File, 0o755); err != nil {
		return 0, fmt.Errorf("write the library for verbs: %w", err)
	}
	ranks := []int{c.Rank}
	if job.RDMAPath != plan.RDMAForward {
		ranks = sameMachine(c, members)
	}
	if v.leader = ranks[0]; v.leader != c.Rank {
		v.ready = true
		return v.leader, nil
	}
	p, err := v.newPool(len(ranks))
	if err != nil {
		return 0, err
	}
	memory := job.RDMAMemory
	if p != nil {
		memory = share(job)
		v.shared = append(v.shared, p)
	}
	s := server.New(verbs.Build, v.log, p)
	v.ports = map[int]*server.Port{}
	if err := v.open(s, ranks, memory, verbs.Build); err != nil {
		return 0, errors.Join(err, s.Close(), v.closePorts())
	}
	v.server, v.ready = s, true
	return v.leader, nil
}

// open makes the ports of the nodes of this machine, and connects them with others. memory is how much of it the
// programs of a node may have with remote rights, in bytes; 0: as is by default.
func (v *verbs) open(s *server.Server, ranks []int, memory int64, build string) error {
	c := v.config
	job, members, _ := v.known.all()
	var d verbsDomain
	if job.RDMADomain != "" {
		var err error
		if d, err = v.claimDomain(job.RDMADomain, ranks, build); err != nil {
			return err
		}
	}
	for _, rank := range ranks {
		a := verbsAddress(c.Owner.Run, rank)
		a.IPs = verbsIPs(members, rank)
		d.adds(&a)
		p, err := s.Listen(plan.VerbsSocket(c.Host.Dir, rank), a, server.Limits(memory, job.RDMAQPs))
		if err != nil {
			return errors.Join(err, d.close())
		}
		v.ports[rank] = p
	}
	if d.place != nil {
		return s.Enter(d.place, d.addresses, d.network)
	}
	return v.linkTo(s, ranks)
}

// close ends the device. Programs with it have ended, or lose it.
func (v *verbs) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	var err error
	if v.server != nil {
		err = v.server.Close()
	}
	err = errors.Join(err, v.closePorts())
	for _, m := range v.shared {
		err = errors.Join(err, m.Close())
	}
	v.shared = nil
	if err != nil {
		v.log.Warn("end the device bee_0", "err", err)
	}
}

func (v *verbs) closePorts() error {
	var errs []error
	for _, p := range v.ports {
		errs = append(errs, p.Close())
	}
	v.ports = nil
	return errors.Join(errs...)
}

// sameMachine are the ranks of the nodes on this machine whose directories this node sees,
// in their order, and its own among them. The others see its directory likewise.
func sameMachine(c plan.Config, members []peercall.Member) []int {
	own := peercall.Member{Machine: machine()}
	var ranks []int
	for _, m := range members {
		if m.Rank != c.Rank {
			info, err := os.Stat(plan.NodeDir(c.Host.Dir, m.Rank))
			if !together(own, m) || err != nil || !info.IsDir() {
				continue
			}
		}
		ranks = append(ranks, m.Rank)
	}
	if len(ranks) == 0 {
		return []int{c.Rank}
	}
	return ranks
}

// together reports whether two nodes run on one machine; false: that is not known.
func together(a, b peercall.Member) bool {
	one, _, _ := strings.Cut(a.Machine, "/")
	other, _, _ := strings.Cut(b.Machine, "/")
	return one != "" && one == other
}

// verbsAddress is that of a node's port. LIDs of verbs begin at 1.
func verbsAddress(run string, rank int) broker.Address {
	a := broker.Address{LID: uint16(rank + 1), GID: [16]byte{0xfe, 0x80}}
	sum := sha256.Sum256([]byte(run))
	copy(a.GID[8:], sum[:6])
	a.GID[8] = a.GID[8]&^1 | 2 // local, as no maker has it
	a.GID[14], a.GID[15] = byte((rank+1)>>8), byte(rank+1)
	return a
}

// verbsIPs are those by which other containers reach that of a node. A lone one has none.
func verbsIPs(members []peercall.Member, rank int) []netip.Addr {
	for _, m := range members {
		if ip := memberIP(m); ip.IsValid() && m.Rank == rank {
			return []netip.Addr{ip}
		}
	}
	return nil
}

// memberIP is the address of a node in the run; not valid: it has none.
func memberIP(m peercall.Member) netip.Addr {
	ip, err := netip.ParseAddr(m.IP)
	if err != nil {
		return netip.Addr{}
	}
	return ip.Unmap().WithZone("")
}

// addressable reports whether each node of the run has an address.
func (v *verbs) addressable() error {
	if most := 0xbfff; v.config.Size >= most {
		return &core.Error{Kind: core.Unsupported, Op: "make device", Object: "bee_0", Err: fmt.Errorf("%d nodes have no addresses", v.config.Size), Remedy: fmt.Sprintf("Use fewer than %d nodes.", most)}
	}
	return nil
}

// addTo adds the device to a container.
func (v *verbs) addTo(ctx context.Context, rt driver.Runtime, b *container.Container, s *driver.ContainerSpec) error {
	c := v.config
	if err := v.addressable(); err != nil {
		return err
	}
	if err := v.start(ctx); err != nil {
		return err
	}
	s.Mounts = append(s.Mounts,
		driver.Mount{Source: plan.VerbsLibrary(c.Host.Dir, c.Rank), Target: insideVerbs, ReadOnly: true},
		driver.Mount{Source: plan.VerbsSocket(c.Host.Dir, c.Rank), Target: insideSocket})
	s.Faults = true
	s.Devices = append(s.Devices, driver.Device{Source: "/dev/null", Target: insideNode})
	b.Env, s.Env = preload(b.Env), preload(s.Env)
	b.RDMA = []core.RDMADevice{rdma.OwnDevice()}
	if !rt.Info().OwnDevices {
		b.Notes = append(b.Notes, "UCX does not use bee_0 with "+rt.Info().Name+", whose containers have no "+insideNode+" for it. The runtimes rootless, docker and podman have it.")
	}
	return nil
}

// preload has programs load our library before all others, also those of the user.
func preload(env []string) []string {
	const key = "LD_PRELOAD="
	var out []string
	value := insideVerbs
	for _, e := range env {
		if others, is := strings.CutPrefix(e, key); !is {
			out = append(out, e)
		} else if others != "" {
			value += ":" + others
		}
	}
	return append(out, key+value)
}
