package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	guestimage "github.com/bee-hpc/bee/internal/image/build"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// Guests are the virtual machines of an attempt, as its nodes boot them.
type Guests struct {
	Lease      driver.Lease
	Site       spec.Site
	Job        *spec.Job
	VolumeFrom string          // a data image of the user's, of which the volume begins; "": none
	Saved      *protocol.Saved // where they continue from a checkpoint
	Pull       string          // when to ask for their image again
	Images     Images
	Progress   func(what string, done, total int64) // of their image
	Say        func(p core.Phase, message string)
	Record     func(ctx context.Context, f event.Fields)
}

// Images is what launching needs of the image cache.
type Images interface {
	// Resolve makes sure that the job's image is in the cache, for a GOARCH.
	// The policy is when to ask its source again: missing, always or never.
	Resolve(ctx context.Context, job *spec.Job, arch, policy string, report func(message string, done, total int64)) (core.Image, error)
}

// defaultDisk is what a guest may write outside the volume.
const defaultDisk = 20 << 30

// emulatedMTU is Ethernet's, which emulated network cards have.
const emulatedMTU = 1500

// Choose is Plan where the job has virtual machines for certain. Where they are
// for hosts alone that can run no container, their image, which takes minutes to
// get, is got only where the site has such hosts or does not know that, which its nodes
// find out then. Where it cannot be got, no machines are possible.
func (g *Guests) Choose(ctx context.Context) (*protocol.VM, error) {
	if v := g.Job.VM; v == nil || v.When != spec.VMAuto {
		return g.Plan(ctx)
	}
	works, none := g.tryRuntime(ctx)
	if works {
		return nil, nil // there shall be none
	}
	needed := core.IsKind(none, core.Unsupported)
	p, err := g.Plan(ctx)
	switch {
	case err == nil && needed:
		p.OnDemand = false // the nodes need not find it out again
		g.Record(ctx, event.VMUsed{Cause: event.CauseOf(none)})
		return p, nil
	case err == nil || ctx.Err() != nil || core.IsKind(err, core.Invalid):
		return p, err
	case needed:
		return nil, fmt.Errorf("%w; and site %s runs no containers without virtual machines: %w", err, g.Site.Name, none)
	}
	g.Record(ctx, event.VMImpossible{Cause: event.CauseOf(err)})
	return nil, nil // there can be none
}

// tryRuntime asks whether containers run on all hosts of the attempt. Where they
// cannot, an error of kind Unsupported has the reason; another error means that it is not
// known.
func (g *Guests) tryRuntime(ctx context.Context) (works bool, err error) {
	name, _, err := g.Lease.TryRuntime(ctx, RuntimeFor(g.Job, g.Site))
	return name != "", err
}

// Plan makes sure that there is a guest image, where the job wants virtual
// machines, and gives them as the nodes shall boot them.
func (g *Guests) Plan(ctx context.Context) (*protocol.VM, error) {
	v := g.Job.VM
	if v == nil || v.When == spec.VMNever {
		return nil, nil // there shall be none
	}
	p := &protocol.VM{
		OnDemand: v.When == spec.VMAuto, CPUs: cmp.Or(v.CPUs, g.Job.Cores), Sockets: v.Sockets, Threads: v.Threads, Memory: int64(v.Memory), Disk: int64(v.Disk),
		CPU: v.CPU, Accel: v.Accel, Fabric: v.Fabric, NIC: v.NIC, Encryption: v.Encryption, Share: v.Share, MTU: v.MTU, Bridge: v.Bridge, HugePages: v.HugePages, Pin: v.Pin, Bare: bare(g.Job),
		Volume: First(g.Job.Volume.Kind, spec.VolumeAuto), VolumeSize: int64(g.Job.Volume.Size),
	}
	if from := g.VolumeFrom; from != "" {
		var err error
		if p.VolumeFrom, err = contentOf(ctx, from); err != nil {
			return nil, err
		}
	}
	if p.Emulated = v.Devices == spec.DevicesEmulated; p.Emulated {
		p.NIC, p.MTU, p.Volume = spec.NICSockets, cmp.Or(v.MTU, emulatedMTU), protocol.VolumeImage
	}
	for _, d := range v.Disks {
		p.Disks = append(p.Disks, protocol.VMDisk{Size: int64(d.Size), From: d.From, To: d.To})
	}
	if p.Disk == 0 {
		p.Disk = defaultDisk
	}
	if g.Saved != nil {
		p.Guest = g.Saved.Guest
		// Their network device has to be the same. What was saved before this was
		// noted had sockets, unless the Beefile says otherwise.
		p.NIC = First(g.Saved.NIC, v.NIC, spec.NICSockets)
		return p, nil
	}
	arch := WantArch(g.Lease.Hosts())
	guest := &spec.Job{Name: "guest", Image: v.Image, Dir: g.Job.Dir}
	if v.Image == "" {
		recipe := guestimage.Recipe(guestimage.Options{Arch: arch, Packages: v.Packages, Emulated: p.Emulated})
		guest.Build = &recipe
	}
	var err error
	report, noted := g.Progress, false
	p.Guest, err = g.Images.Resolve(ctx, guest, arch, g.Pull, func(message string, done, total int64) {
		if !noted { // that it takes minutes, once, is no fault of the job's own image
			noted = true
			g.Say(core.PhaseImage, "getting the image that virtual machines boot, which is kept for later runs")
		}
		report(message, done, total)
	})
	switch {
	case err == nil && !guestimage.Is(p.Guest.Config.Env):
		err = &core.Error{
			Kind: core.Invalid, Op: "boot virtual machines from", Object: v.Image, Err: errors.New("it is no guest image"),
			Remedy: "Name one that `bee vm image ls` shows, or leave `image` out of `vm:`; the job's own image is the Beefile's `image:`.",
		}
	case err != nil && ctx.Err() == nil && v.Image != "":
		err = &core.Error{
			Kind: core.KindOf(err), Op: "get the image that virtual machines boot", Err: err,
			Remedy: strings.TrimSpace(core.Remedy(err) + " `bee vm image ls` lists the guest images that are here, by the names that `vm: {image: …}` takes."),
		}
	case err != nil && guest.Build != nil && core.IsKind(err, core.Unsupported):
		err = &core.Error{
			Kind: core.Unsupported, Op: "build the image that virtual machines boot", Err: err,
			Remedy: core.Remedy(err) + " Or bring one that was built elsewhere (`bee vm image pull`), and name it: `vm: {image: …}`.",
		}
	}
	return p, err
}

// bare reports whether a job's programs run in its virtual machines without a container.
// Only a study has such jobs.
func bare(job *spec.Job) bool { return job.VM != nil && job.Runtime == spec.NativeRuntime }

// contentOf is the digest of what a data image of the user's holds.
func contentOf(ctx context.Context, file string) (string, error) {
	image, err := dataimage.Tools{}.OpenRecovered(ctx, file)
	if err != nil {
		return "", err
	}
	defer image.Close()
	return image.Digest(ctx)
}
