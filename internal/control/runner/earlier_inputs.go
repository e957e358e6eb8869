package runner

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
)

// earlierInputs are the inputs of a job that earlier runs left in their volumes (ADR 96).
type earlierInputs struct {
	st    *staging
	files *inputs.Stager
	// dir, on this machine, is for what comes through it.
	dir string
	// away are those that do not come through this machine, of which the numbers of sources are
	// the keys. here are the others: the directory that each must not leave, by its number
	// among the job's inputs.
	away []awayInput
	here map[int]string
	came []event.RunInput
	// sites are those that have lent volumes, by run.
	sites map[string]*transfer.Site
}

// awayInput is an input that its site has, with what it is.
type awayInput struct {
	*inputs.Earlier
	src submission.Source
}

// newEarlier finds the inputs of a job that earlier runs left, and brings to this machine what
// has to come through it: the job names these as files then. It is to be closed.
func (st *staging) newEarlier(ctx context.Context, files *inputs.Stager, job *spec.Job) (*earlierInputs, error) {
	e := &earlierInputs{
		st: st, files: files, dir: inputs.EarlierDir(st.rec.of.c.Store.RunDir(st.rec.of.run.ID)), here: map[int]string{}, sites: map[string]*transfer.Site{},
	}
	job.Inputs = slices.Clone(job.Inputs)
	for i := range job.Inputs {
		src, is, err := st.rec.of.sub.Source(job.Inputs[i])
		if err == nil && is {
			err = e.find(ctx, job, i, src)
		}
		if err != nil {
			e.close()
			return nil, err
		}
	}
	return e, nil
}

// close ends the connections to the sites, and removes what came through this machine.
func (e *earlierInputs) close() {
	for _, site := range e.sites {
		disconnect(site.Lease)
	}
	fsutil.TryRemoveAll(e.dir) // else the next attempt or `bee rm` does
}

// find finds an input of the job, by its number.
func (e *earlierInputs) find(ctx context.Context, job *spec.Job, i int, src submission.Source) error {
	site, volume, err := e.lent(ctx, src)
	if err != nil {
		return err
	}
	if site == nil {
		return e.collected(ctx, job, i, src)
	}
	in := &inputs.Earlier{Input: job.Inputs[i], From: site, Tree: volume}
	in.Tree.Remote = path.Join(volume.Within, src.Path)
	if err := in.LookAtEarlier(ctx); err != nil {
		return inputOf(src, err)
	}
	if e.files.StaysAway(&e.st.rec.of.sub.Job, in) {
		e.away = append(e.away, awayInput{in, src})
		return nil
	}
	dir := filepath.Join(e.dir, strconv.Itoa(i))
	file, err := e.files.FetchEarlier(ctx, in, dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return inputOf(src, err)
	}
	e.use(job, i, dir, file, event.RunInput{Site: site.Name, Transfer: event.TransferRelayed}, src)
	return nil
}

// collected has the job use what is of an input on this machine.
func (e *earlierInputs) collected(ctx context.Context, job *spec.Job, i int, src submission.Source) error {
	dir, file, is, err := submission.LocalCopy(ctx, e.st.rec.of.c.Store, src)
	if err == nil && !is {
		err = &core.Error{
			Kind: core.NotFound, Err: errors.New("its volume is gone, and no collected output that is still as it was has the path"),
			Remedy: "See `bee show " + src.Run + "`, run it again, and submit this job before it ends.",
		}
	}
	if err != nil {
		return inputOf(src, err)
	}
	e.use(job, i, dir, file, event.RunInput{Transfer: event.TransferCollected}, src)
	return nil
}

func (e *earlierInputs) use(job *spec.Job, i int, dir, file string, came event.RunInput, src submission.Source) {
	job.Inputs[i].From, job.Inputs[i].Earlier = file, spec.RunPath{}
	e.here[i] = dir
	e.came = append(e.came, e.event(came, src))
}

func (e *earlierInputs) event(f event.RunInput, src submission.Source) event.RunInput {
	f.Of, f.Name, f.Path, f.To = src.Run, src.Name, src.Path, e.st.at.site.Name
	return f
}

// lent returns the site that has lent a source's volume, and the volume there; nil: none has.
func (e *earlierInputs) lent(ctx context.Context, src submission.Source) (*transfer.Site, driver.Transfer, error) {
	c := e.st.rec.of.c
	at, is, err := submission.Lends(ctx, c.Store, src.Run)
	if err != nil || !is || at.Lease == nil {
		return nil, driver.Transfer{}, err
	}
	run, err := c.Store.Run(ctx, src.Run)
	if err != nil {
		return nil, driver.Transfer{}, err
	}
	sub, err := submission.Of(run)
	if err != nil {
		return nil, driver.Transfer{}, err
	}
	site := e.sites[src.Run]
	if site == nil {
		of, err := sub.Site(at.Site)
		if err != nil {
			return nil, driver.Transfer{}, err
		}
		provider, err := c.Provider(of)
		if err != nil {
			return nil, driver.Transfer{}, err
		}
		lease, err := lentLease(ctx, provider, *at.Lease)
		if core.IsKind(err, core.NotFound) { // with all that was there
			return nil, driver.Transfer{}, nil
		}
		if err != nil {
			return nil, driver.Transfer{}, inputOf(src, err)
		}
		own := e.st.at.transfers()
		site = &transfer.Site{Name: at.Site, Lease: lease, Routes: c.Routes, Breaks: &transfer.Breaks{}, Progress: c.toward, Record: own.Record, RecordRoute: own.RecordRoute}
		e.sites[src.Run] = site
	}
	return site, driver.Transfer{Within: lentTo(site.Lease.Hosts()[0]), Seen: sub.Job.Volume.Path}, nil
}

// lentLease returns a lease that has lent its volume, and knows where that is. The controller of
// its run may have died before all hosts were released.
func lentLease(ctx context.Context, provider driver.Provider, h core.Handle) (driver.Lease, error) {
	lease, err := provider.Recover(ctx, h)
	if err != nil {
		return nil, err
	}
	reuse := lease.VolumeReuse()
	if reuse == nil {
		err = &core.Error{Kind: core.NotFound, Op: "read the volume of", Object: h.Owner.String(), Err: errors.New("its site keeps none"), Remedy: core.RemedyShow}
	} else if err = reuse.LendVolume(ctx); err == nil && len(lease.Hosts()) == 0 {
		err = &core.Error{Kind: core.NotFound, Op: "read the volume of", Object: h.Owner.String(), Err: errors.New("its hosts are gone"), Remedy: core.RemedyShow}
	}
	if err != nil {
		disconnect(lease)
		return nil, err
	}
	return lease, nil
}

// inputOf is the error of an input. That of its site is none of the site that wants it.
func inputOf(src submission.Source, err error) error {
	kind := core.KindOf(err)
	if kind == core.Unsupported || kind == core.Busy {
		kind = core.Permanent
	}
	return &core.Error{Kind: kind, Op: "bring input", Object: fmt.Sprintf("%q of run %s (%s)", src.Path, src.Run, src.Name), Err: err, Remedy: core.Remedy(err)}
}

// confine has copies of what came from runs not leave its directory, and parts them from those
// of the user's own inputs, in which links are followed.
func (e *earlierInputs) confine(copies []inputs.Copy) (own, passed []inputs.Copy) {
	for _, c := range copies {
		if dir, is := e.here[c.Input]; is {
			c.Within = dir
			passed = append(passed, c)
		} else {
			own = append(own, c)
		}
	}
	return own, passed
}

// bring brings to their places what does not come through this machine, and records how all came.
func (e *earlierInputs) bring(ctx context.Context, head core.Host) error {
	for i, in := range e.away {
		by, err := e.files.BringEarlier(ctx, head, &e.st.rec.of.sub.Job, in.Earlier, filepath.Join(e.dir, "away", strconv.Itoa(i)))
		if err != nil {
			return inputOf(in.src, err)
		}
		e.came = append(e.came, e.event(event.RunInput{Site: in.From.Name, Transfer: by}, in.src))
	}
	for _, f := range e.came {
		e.st.rec.event(ctx, f)
	}
	return nil
}
