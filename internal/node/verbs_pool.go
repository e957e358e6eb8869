package node

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma/broker/relay"
	"github.com/bee-hpc/bee/internal/rdma/broker/socket"
	"github.com/bee-hpc/bee/internal/rdma/library"
	rdmapool "github.com/bee-hpc/bee/internal/rdma/pool"
)

// pooled reports whether the guests of a host share memory: if the job asks for that, and some host has several. Their nodes
// then have brokers, as those of containers have; in all other runs each guest has its own. All nodes of a run come to
// the same answer.
func pooled(p plan.Plan, members []peercall.Member) bool {
	if p.VM == nil || p.RDMA != plan.RDMABee || p.RDMAPath != plan.RDMADirect || runtime.GOARCH != "amd64" {
		return false
	}
	machines := map[string]bool{}
	for _, m := range members {
		id, _, _ := strings.Cut(m.Machine, "/")
		if id != "" && machines[id] {
			return true
		}
		machines[id] = true
	}
	return false
}

// Sizes of a pool.
const (
	// defaultShare is how much memory the programs of a guest may have in it that takes what its host leaves.
	defaultShare = 1 << 30
	// ringsShare is room for the rings and tables of a guest's programs, which take little of it.
	ringsShare = 256 << 20
)

// share is how much of the host's memory the programs of a guest may have in a pool, in bytes.
func share(p plan.Plan) int64 { return cmp.Or(p.RDMAMemory, p.VM.Memory/2, defaultShare) }

// newPool makes the pool of the guests of this machine; nil: they share no memory.
func (v *verbs) newPool(guests int) (*rdmapool.Pool, error) {
	job, members, _ := v.known.all()
	if !pooled(job, members) {
		return nil, nil // there is none, and nothing is wrong
	}
	return rdmapool.New(int64(guests) * (share(job) + ringsShare))
}

// poolFor returns the memory that the programs of this node's guest share with others, and the way to their broker.
func (v *verbs) poolFor(ctx context.Context) (*driver.VerbsPool, error) {
	if err := v.start(ctx); err != nil {
		return nil, err
	}
	verbs, err := library.Get()
	if err != nil {
		return nil, err
	}
	path := plan.VerbsSocket(v.config.Host.Dir, v.config.Rank)
	file, bytes, err := relay.Pool(path, verbs.Build)
	if err != nil {
		return nil, fmt.Errorf("get the memory that virtual machines share: %w", err)
	}
	_, members, _ := v.known.all()
	guests := int64(len(sameMachine(v.config, members)))
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shared = append(v.shared, file)
	return &driver.VerbsPool{
		File: file, Bytes: bytes, Share: (bytes + guests - 1) / guests, Base: rdmapool.Data,
		Program: func(ctx context.Context, stream net.Conn) error {
			broker, err := socket.Dial(path)
			if err != nil {
				stream.Close()
				return err
			}
			return relay.Host(ctx, stream, broker, file)
		},
	}, nil
}
