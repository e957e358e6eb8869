package control

import (
	"context"

	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/vm/guestimage"
)

// defaultDisk is what a guest may write outside the volume.
const defaultDisk = 20 << 30

// planVM makes sure that there is a guest image, where the job wants virtual
// machines, and gives them as the nodes shall boot them.
func (a *attempt) planVM(ctx context.Context) (*protocol.VM, error) {
	v := a.sub.Job.VM
	if v == nil || v.When == spec.VMNever {
		return nil, nil //nolint:nilnil // there shall be none
	}
	p := &protocol.VM{OnDemand: v.When == spec.VMAuto, CPUs: v.CPUs, Sockets: v.Sockets, Threads: v.Threads, Memory: int64(v.Memory), Disk: int64(v.Disk),
		CPU: v.CPU, Accel: v.Accel, Fabric: v.Fabric, NIC: firstOf(v.NIC, spec.NICRings), Share: v.Share, MTU: v.MTU, Bridge: v.Bridge, HugePages: v.HugePages, Pin: v.Pin,
		Volume: firstOf(a.sub.Job.Volume.Kind, spec.VolumeAuto), VolumeSize: int64(a.sub.Job.Volume.Size)}
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
		p.NIC = firstOf(a.saved.NIC, v.NIC, spec.NICSockets)
		return p, nil
	}
	arch := wantArch(a.lease.Hosts())
	guest := &spec.Job{Name: "guest", Image: v.Image, Dir: a.sub.Job.Dir}
	if v.Image == "" {
		recipe := guestimage.Recipe(guestimage.Options{Arch: arch, Packages: v.Packages})
		guest.Build = &recipe
	}
	var err error
	report, told := a.c.Progress(protocol.PhaseImage), false
	p.Guest, err = a.c.Images.Resolve(ctx, guest, arch, a.sub.Pull, func(message string, done, total int64) {
		if !told { // that it takes minutes, once, is no fault of the job's own image
			told = true
			a.c.say(protocol.PhaseImage, "getting the image that virtual machines boot, which is kept for later runs")
		}
		report(message, done, total)
	})
	return p, err
}
