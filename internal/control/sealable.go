package control

import (
	"errors"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// CheckTicket refuses jobs of which there can be no ticket, and keys that can be guessed.
func CheckTicket(jobs []submission.Job, key string) error {
	if err := retention.CheckTicketKey(key); err != nil {
		return err
	}
	size := 0
	for _, job := range jobs {
		for i := range job.Runs {
			sub := &job.Runs[i]
			err := sealable(sub)
			if err == nil && len(job.Links) > 0 {
				err = beginsElsewhere(sub)
			}
			if err != nil {
				return err
			}
			bare := bareOf(sub)
			raw, err := bare.Encode()
			if err != nil {
				return err
			}
			size += len(raw)
			if len(job.Links) == 0 {
				size += retention.LeastSealedRun
			}
		}
	}
	return retention.CheckTicketSize(jobs[0].Runs[0].Job.Name, size)
}

// unsealable is the error of a job of which there can be no ticket.
func unsealable(job *spec.Job, why, remedy string) error {
	return &core.Error{Kind: core.Unsupported, Op: "make a ticket of", Object: job.Name, Err: errors.New(why), Remedy: remedy}
}

// beginsElsewhere refuses a job that waits for others, and that only this machine could begin.
func beginsElsewhere(sub *submission.Submission) error {
	job := &sub.Job
	const image = "it waits for another job, and the machine on which it begins may not have "
	switch {
	case job.Build != nil:
		return unsealable(job, image+"what its image is built from", "Push the image to a registry, and name it by `image:`.")
	case spec.IsEngineImage(job.Image):
		return unsealable(job, image+"the image "+job.Image, "Push the image to a registry, or save it beside the Beefile and name it as docker-archive:FILE.")
	case job.VM != nil && (spec.IsLocalImage(job.VM.Image) || spec.IsEngineImage(job.VM.Image)):
		return unsealable(job, image+"the image "+job.VM.Image, "Push the image to a registry.")
	case slices.ContainsFunc(job.Inputs, func(in spec.Input) bool { return in.From == "" }):
		return unsealable(job, "it waits for another job, and takes files from the volume of a run that is on record on this machine", "Leave out --ticket, or pass files by `outputs:` and `inputs: [{from: ./…}]`.")
	case job.Volume.From != "":
		return unsealable(job, image+"the file "+job.Volume.From, "Leave out --ticket, or use `inputs:` instead of `volume: {from: …}`.")
	}
	return nil
}

// CheckTicketSites refuses jobs that wait for others, and that have no site on which another machine
// could begin them.
func (c *Controller) CheckTicketSites(jobs []submission.Job) error {
	for _, job := range jobs {
		if len(job.Links) == 0 { // it is skipped when the site is tried
			continue
		}
		sub := &job.Runs[0]
		if !slices.ContainsFunc(sub.Sites, func(s spec.Site) bool {
			p, err := c.Provider(s)
			return err != nil || p.Foreign() != nil // an error of a site is reported when it is tried
		}) {
			return unsealable(&sub.Job, "no other machine can use its sites: "+strings.Join(submission.SiteNames(sub.Sites), ", "), "Name a site of provider ssh, or of provider slurm with `login`.")
		}
	}
	return nil
}

// sealable refuses jobs of which a ticket would not be all that another machine needs.
func sealable(sub *submission.Submission) error {
	refuse := func(why, remedy string) error { return unsealable(&sub.Job, why, remedy) }
	switch job := &sub.Job; {
	case sub.Input:
		return refuse("its command reads what this process passes", "Leave out -i and -t.")
	case job.Checkpoint != nil && job.Store != "":
		return refuse("its checkpoints are in the store "+job.Store, "Leave out --ticket: `bee resume --from STORE` takes the run over on another machine.")
	case job.SavesVM():
		return refuse("it saves its virtual machines on this machine", "Leave out --ticket, or `vm: {save: …}`.")
	case job.Volume.Kind == spec.VolumeBurst:
		return refuse("the record of its volume is on this machine", "Leave out --ticket, or `volume: burst`.")
	case sub.Array != nil && sub.Array.Pack > 0:
		return refuse("cases of it share a lease, and their records are on this machine", "Leave out --ticket, or `pack:`.")
	}
	return nil
}
