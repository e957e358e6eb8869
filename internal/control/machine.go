package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/core"
	guestimage "github.com/bee-hpc/bee/internal/image/build"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// defaultDisk is what a guest may write outside the volume.
const defaultDisk = 20 << 30

// chooseVM is planVM where the job has virtual machines for certain. Where they are
// for hosts alone that can run no container, their image, which takes minutes to
// get, is got only where the site has such hosts or cannot tell, which its nodes
// find out then. Where it cannot be got, no machines are possible.
func (a *attempt) chooseVM(ctx context.Context) (*protocol.VM, error) {
	if v := a.sub.Job.VM; v == nil || v.When != spec.VMAuto {
		return a.planVM(ctx)
	}
	works, none := a.tryRuntime(ctx)
	if works {
		return nil, nil //nolint:nilnil // there shall be none
	}
	needed := core.IsKind(none, core.Unsupported)
	p, err := a.planVM(ctx)
	switch {
	case err == nil && needed:
		p.OnDemand = false // the nodes need not find it out again
		a.event(ctx, event.VMUsed{Cause: event.CauseOf(none)})
		return p, nil
	case err == nil || ctx.Err() != nil || core.IsKind(err, core.Invalid):
		return p, err
	case needed:
		return nil, fmt.Errorf("%w; and site %s runs no containers without virtual machines: %w", err, a.site.Name, none)
	}
	a.event(ctx, event.VMImpossible{Cause: event.CauseOf(err)})
	return nil, nil //nolint:nilnil // there can be none
}

// tryRuntime asks whether containers run on all hosts of the attempt. Where they
// cannot, an error of kind Unsupported tells why; otherwise nobody can tell.
func (a *attempt) tryRuntime(ctx context.Context) (works bool, err error) {
	name, _, err := a.lease.TryRuntime(ctx, launch.RuntimeFor(&a.sub.Job, a.site))
	return name != "", err
}

// planVM makes sure that there is a guest image, where the job wants virtual
// machines, and gives them as the nodes shall boot them.
func (a *attempt) planVM(ctx context.Context) (*protocol.VM, error) {
	v := a.sub.Job.VM
	if v == nil || v.When == spec.VMNever {
		return nil, nil //nolint:nilnil // there shall be none
	}
	p := &protocol.VM{
		OnDemand: v.When == spec.VMAuto, CPUs: cmp.Or(v.CPUs, a.sub.Job.Cores), Sockets: v.Sockets, Threads: v.Threads, Memory: int64(v.Memory), Disk: int64(v.Disk),
		CPU: v.CPU, Accel: v.Accel, Fabric: v.Fabric, NIC: v.NIC, Encryption: v.Encryption, Share: v.Share, MTU: v.MTU, Bridge: v.Bridge, HugePages: v.HugePages, Pin: v.Pin,
		Volume: launch.First(a.sub.Job.Volume.Kind, spec.VolumeAuto), VolumeSize: int64(a.sub.Job.Volume.Size),
	}
	if from := a.missing().Volume.From; from != "" {
		var err error
		if p.VolumeFrom, err = contentOf(ctx, from); err != nil {
			return nil, err
		}
	}
	for _, d := range v.Disks {
		p.Disks = append(p.Disks, protocol.VMDisk{Size: int64(d.Size), From: d.From, To: d.To})
	}
	if p.Disk == 0 {
		p.Disk = defaultDisk
	}
	if a.saved != nil {
		p.Guest = a.saved.Guest
		// Their network device has to be the same. What was saved before this was
		// noted had sockets, unless the Beefile says otherwise.
		p.NIC = launch.First(a.saved.NIC, v.NIC, spec.NICSockets)
		return p, nil
	}
	arch := launch.WantArch(a.lease.Hosts())
	guest := &spec.Job{Name: "guest", Image: v.Image, Dir: a.sub.Job.Dir}
	if v.Image == "" {
		recipe := guestimage.Recipe(guestimage.Options{Arch: arch, Packages: v.Packages})
		guest.Build = &recipe
	}
	var err error
	report, told := a.c.Progress(core.PhaseImage), false
	p.Guest, err = a.c.Images.Resolve(ctx, guest, arch, a.sub.Pull, func(message string, done, total int64) {
		if !told { // that it takes minutes, once, is no fault of the job's own image
			told = true
			a.c.say(core.PhaseImage, "getting the image that virtual machines boot, which is kept for later runs")
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

// contentOf is the digest of what a data image of the user's holds.
func contentOf(ctx context.Context, file string) (string, error) {
	image, err := dataimage.Tools{}.OpenRecovered(ctx, file)
	if err != nil {
		return "", err
	}
	defer image.Close()
	return image.Digest(ctx)
}
