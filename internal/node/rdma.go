package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma"
)

// reportNotes reports to the user what nodes note about their hosts, once for all hosts with
// the same note.
func (h *head) reportNotes(byRank [][]string) {
	var order []string
	ranks := map[string][]int{}
	for rank, notes := range byRank {
		for _, text := range notes {
			if ranks[text] == nil {
				order = append(order, text)
			}
			ranks[text] = append(ranks[text], rank)
		}
	}
	for _, text := range order {
		h.journal.Say(core.PhaseStart, "note: on "+h.hosts.listNames(ranks[text])+": "+core.Printable(text, maxText))
	}
}

// addRDMA adds this host's RDMA devices to a container, as far as the job wants them. What
// keeps programs from them is an error where the job needs them, and a note otherwise.
func (k *maker) addRDMA(ctx context.Context, rt driver.Runtime, b *container, s *driver.ContainerSpec) error {
	if k.plan.VM != nil {
		if k.plan.RDMA == plan.RDMAHost {
			return k.noRDMA(errors.New("a virtual machine cannot use the host's devices"), "Leave `rdma:` or `vm:` out, or choose a site whose hosts run containers themselves.")
		}
		return nil
	}
	host := k.options.RDMA.Look()
	if k.plan.RDMA == plan.RDMANone {
		if host.Empty() || rt.Info().OwnDevices {
			return nil
		}
		return k.noRDMA(fmt.Errorf("with %s, containers have all devices of the host", rt.Info().Name), "Use the runtime rootless, docker or podman, or leave `rdma: none` out.")
	}
	if k.plan.RDMA == plan.RDMAHost || !host.Empty() {
		problems := host.Check(k.verbsLibraries(ctx), rt.Info().OwnLimits)
		if err := rdma.Unusable(problems); err != nil && k.plan.RDMA == plan.RDMAHost {
			return k.noRDMA(err, core.Remedy(err))
		}
		for _, problem := range problems {
			b.notes = append(b.notes, core.Printable("programs may find no usable RDMA device: "+problem.Text+". "+problem.Remedy, maxText))
		}
		b.notes = b.notes[:min(len(b.notes), maxNotes)]
	}
	s.Devices = append(s.Devices, driver.SameDevices(host.Paths())...)
	if b.rdma = host.Report(); core.CheckRDMA(b.rdma) != nil { // no record has room for that
		b.rdma = nil
	}
	return nil
}

// noRDMA is the error of a host that cannot have what the job wants.
func (k *maker) noRDMA(err error, remedy string) error {
	return &core.Error{Kind: core.Unsupported, Op: "use RDMA on", Object: k.config.Host.Name, Err: err, Remedy: remedy}
}

// verbsLibraries are those of the job's image; nil: it has none, or they are not known.
func (k *maker) verbsLibraries(ctx context.Context) *rdma.Libraries {
	tree, release, err := k.images.Tree(ctx, k.plan.Image.ID)
	if err != nil {
		k.options.Log.Warn("look for the image's rdma-core", "err", err)
		return nil
	}
	defer release()
	libraries, err := rdma.LibrariesIn(tree)
	if err != nil {
		k.options.Log.Warn("look for the image's rdma-core", "err", err)
	}
	return libraries
}
