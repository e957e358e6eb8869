package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma"
)

// addRDMA adds this host's RDMA devices to a container, as far as the job wants them. What
// keeps programs from them is an error where the job needs them, and a note otherwise.
func (k *maker) addRDMA(ctx context.Context, rt driver.Runtime, b *container.Container, s *driver.ContainerSpec) error {
	if k.plan.VM != nil && k.plan.RDMA == plan.RDMABee {
		k.verbs.addToGuest(b, s)
		return nil
	}
	if k.plan.VM != nil {
		return k.checkGuestRDMA(ctx)
	}
	if k.plan.RDMA == plan.RDMABee {
		return k.verbs.addTo(ctx, rt, b, s)
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
			b.Notes = append(b.Notes, core.Printable("programs may find no usable RDMA device: "+problem.Text+". "+problem.Remedy, peercall.MaxText))
		}
		b.Notes = b.Notes[:min(len(b.Notes), peercall.MaxNotes)]
	}
	s.Devices = append(s.Devices, driver.SameDevices(host.Paths())...)
	if b.RDMA = host.Report(); core.CheckRDMA(b.RDMA) != nil { // no record has room for that
		b.RDMA = nil
	}
	return nil
}

// checkGuestRDMA refuses devices that this node's guest cannot have, or the image cannot use.
func (k *maker) checkGuestRDMA(ctx context.Context) error {
	switch {
	case k.plan.RDMA == plan.RDMAHost && k.plan.PCI == "":
		return k.noRDMA(errors.New("a virtual machine cannot use the host's devices as containers do"), "Leave `rdma:` or `vm:` out, or choose a site whose hosts run containers themselves.")
	case k.plan.RDMA == plan.RDMASoft:
		if problem := k.verbsLibraries(ctx).Lack(rdma.Soft()); problem != nil {
			return k.noRDMA(errors.New(problem.Text), problem.Remedy)
		}
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
