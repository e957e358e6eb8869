package placement

import (
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// CheckFacts returns an error where a site cannot be used, or has fewer hosts than a job
// needs. Transient: the site may be usable later. Unsupported: another site may be.
func CheckFacts(site string, facts driver.Facts, hosts int) error {
	if !facts.Usable {
		kind := core.Unsupported
		if facts.Passing {
			kind = core.Transient
		}
		return &core.Error{Kind: kind, Op: "use site", Object: site, Err: errors.New(facts.Reason), Remedy: facts.Remedy}
	}
	if facts.Hosts > 0 && facts.Hosts < hosts {
		return &core.Error{
			Kind: core.Unsupported, Op: "use site", Object: site,
			Err:    fmt.Errorf("the job wants %d hosts, the site has %d", hosts, facts.Hosts),
			Remedy: fmt.Sprintf("Lower `nodes:` in the Beefile, or give the site more hosts in the sites file, whose path `bee info` prints. To try it here, `sites: [{name: lab, provider: local, hosts: %d}]` in it has emulated ones.", hosts),
		}
	}
	return nil
}

// CheckSize returns an error where a site is known, without asking it, to be too small for a job.
// Unsupported: another site may be large enough.
func CheckSize(site spec.Site, job *spec.Job) error {
	why := site.TooSmall(job)
	if why == "" {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use site", Object: site.Name, Err: errors.New(why),
		Remedy: "Lower `nodes:` or `cores:` in the Beefile, or raise `hosts` or `slots` at the site in the sites file, whose path `bee info` prints.",
	}
}

// CheckVolume returns an error where a job needs one volume for all hosts, or a burst buffer,
// and a site is known to have none. Unsupported: another site may have one.
func CheckVolume(site spec.Site, job *spec.Job) error {
	if job.Volume.Kind == spec.VolumeBurst {
		if err := checkBurst(site); err != nil {
			return err
		}
	}
	machines := job.VM != nil && job.VM.When == spec.VMAlways && job.Volume.Kind != spec.VolumeVirtio && job.VM.Fabric != "none"
	if !job.NeedsShared() || machines || !site.PrivateScratch {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use site", Object: site.Name, Err: errors.New("its hosts have a scratch each (`private_scratch`), and the job has `volume: {shared: required}`"),
		Remedy: "Name a site whose hosts share a file system.",
	}
}

// checkBurst returns an error where a site's hosts have no burst buffers.
func checkBurst(site spec.Site) error {
	switch site.Provider {
	case "local", "ssh", "slurm":
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use site", Object: site.Name, Err: errors.New("its hosts have no burst buffers yet, and the job has `volume: {kind: burst}`"),
		Remedy: "Name a site with provider local, ssh or slurm.",
	}
}

// CheckMounts returns an error where a job needs a burst buffer, and a site has found out that its hosts cannot
// mount one.
func CheckMounts(site string, job *spec.Job, facts driver.Facts) error {
	if job.Volume.Kind != spec.VolumeBurst || facts.BurstNeeds == "" {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use site", Object: site, Err: errors.New("you cannot mount burst buffers there, and the job has `volume: {kind: burst}`"), Remedy: facts.BurstNeeds,
	}
}

// Passable reports whether an error of one site is no reason against the next.
func Passable(err error) bool {
	switch core.KindOf(err) {
	case core.Unsupported, core.Transient, core.Busy, core.Lost:
		return true
	}
	return false
}
