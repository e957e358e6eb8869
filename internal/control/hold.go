package control

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Held are hosts of a site that several runs of this process use one after the other. Its
// owner has no run: the sweep releases it once no process has its lock.
type Held struct {
	// Site is the site with the allocation, for submissions.
	Site  spec.Site
	Owner core.Owner

	lease driver.Lease
	state *state.Store
	lock  *state.Lock
	beat  func() // ends the signs of use
	once  sync.Once
}

// Pauses of a hold. A site releases hosts that nobody seems to use, which takes minutes.
const (
	heldBeat    = 2 * time.Minute
	heldRelease = time.Minute
	heldLook    = 200 * time.Millisecond
	heldLookMax = 5 * time.Second
	heldFile    = "held"
)

// Holds acquires hosts for several runs, which use them one after the other.
type Holds struct{ c *Controller }

// Holds returns what acquires hosts for several runs of this process.
func (c *Controller) Holds() Holds { return Holds{c} }

// Acquire acquires hosts of a site with a queue, and waits for them. Report gets what the site
// waits for. Unsupported: the site grants no allocation that runs can share.
func (o Holds) Acquire(ctx context.Context, site spec.Site, r driver.Request, report func(reason string)) (*Held, error) {
	h, p, err := o.open(site, state.NewID())
	if err != nil {
		return nil, err
	}
	if err := o.c.Store.Forget(ctx, h.Owner.Run, ""); err != nil { // on record first: a sweep may release it
		return nil, errors.Join(err, h.forget())
	}
	r.Owner, r.Binary = h.Owner, o.c.Binary
	if h.lease, err = p.Acquire(ctx, r); err == nil {
		err = h.await(ctx, report)
	}
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), heldRelease)
		defer cancel()
		return nil, errors.Join(err, driver.ReleaseOwned(undo, p, h.Owner, h.Owner.User), h.forget())
	}
	h.keep(o.c.Log)
	return h, nil
}

// Recover returns hosts that another process has held, and which has ended. NotFound: the
// site has them no more.
func (o Holds) Recover(ctx context.Context, site spec.Site, id string) (*Held, error) {
	gone := &core.Error{Kind: core.NotFound, Op: "find hosts of site", Object: site.Name, Err: errors.New("they were released"), Remedy: "Give the command again: it acquires others."}
	if !state.IsID(id) {
		return nil, gone
	}
	if known, err := o.c.Store.Forgotten(ctx, id); err != nil || !known.Known {
		return nil, errors.Join(err, gone)
	}
	h, p, err := o.open(site, id)
	if err != nil {
		return nil, err
	}
	handles, err := driver.Owned(ctx, p, h.Owner)
	if err == nil && len(handles) == 0 {
		err = gone
	}
	if err == nil {
		h.lease, err = p.Recover(ctx, handles[0])
	}
	if err == nil {
		err = h.Live(ctx)
	}
	if err == nil {
		err = h.await(ctx, func(string) {})
	}
	if err != nil {
		return nil, errors.Join(err, driver.ReleaseOwned(ctx, p, h.Owner, h.Owner.User), h.forget())
	}
	h.keep(o.c.Log)
	return h, nil
}

// open locks a hold for this process, which may have hosts of the site already.
func (o Holds) open(site spec.Site, id string) (*Held, driver.Provider, error) {
	lock, err := o.c.Store.Locks().Acquire(id)
	if err != nil {
		return nil, nil, err
	}
	h := &Held{Site: site, Owner: core.Owner{User: o.c.Store.User(), Run: id, Attempt: 1}, state: o.c.Store, lock: lock, beat: func() {}}
	p, err := o.c.Provider(site)
	if err != nil {
		return nil, nil, errors.Join(err, h.forget())
	}
	return h, p, nil
}

// await waits until the site has granted the hosts.
func (h *Held) await(ctx context.Context, report func(reason string)) error {
	q := h.lease.Queue()
	if q == nil {
		return h.shared()
	}
	pause := fsutil.Backoff{First: heldLook, Longest: heldLookMax}
	for last := ""; ; {
		w, err := candidate.Ready(ctx, q)
		switch {
		case err != nil && !core.IsKind(err, core.Transient):
			return err
		case err == nil && w.Ready && w.Allocation == "":
			return h.shared()
		case err == nil && w.Ready:
			own := spec.Slurm{}
			if h.Site.Slurm != nil {
				own = *h.Site.Slurm
			}
			own.Job = w.Allocation
			h.Site.Slurm = &own
			return nil
		case w.Reason != "" && w.Reason != last:
			last = w.Reason
			report(w.Reason)
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

func (h *Held) shared() error {
	return &core.Error{Kind: core.Unsupported, Op: "hold hosts of site", Object: h.Site.Name, Err: errors.New("it grants no allocation that runs can share"), Remedy: "Name an allocation of yours: `slurm: {job: NUMBER}`."}
}

// keep shows the site now and then that the hosts are in use.
func (h *Held) keep(log *slog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	h.beat = func() { cancel(); <-done }
	go func() {
		defer close(done)
		for {
			if err := h.show(ctx); err != nil && ctx.Err() == nil {
				log.Warn("show a site that its hosts are in use", "site", h.Site.Name, "err", err)
			}
			if core.Sleep(ctx, heldBeat) != nil {
				return
			}
		}
	}()
}

// show changes a file in the directory of the first host, which its agent looks at.
func (h *Held) show(ctx context.Context) error {
	hosts := h.lease.Hosts()
	if len(hosts) == 0 {
		return nil
	}
	file := filepath.Join(h.state.RunDir(h.Owner.Run), heldFile)
	if err := fsutil.WriteFile(file, []byte(time.Now().Format(time.RFC3339Nano)+"\n"), 0o600); err != nil {
		return err
	}
	return h.lease.Stage(ctx, driver.Transfer{Local: file, Remote: filepath.Join(hosts[0].Dir, heldFile)})
}

// Hosts are those that the site has granted.
func (h *Held) Hosts() []core.Host { return slices.Clone(h.lease.Hosts()) }

// Deadline is when the site takes the hosts back; zero: never.
func (h *Held) Deadline() time.Time { return h.lease.Deadline() }

// Live returns an error of kind Lost where the site has taken the hosts back.
func (h *Held) Live(ctx context.Context) error {
	st, err := h.lease.Status(ctx)
	if err == nil && !st.Live {
		err = &core.Error{Kind: core.Lost, Op: "use hosts of site", Object: h.Site.Name, Err: errors.New(st.Reason), Remedy: core.RemedyAgain}
	}
	return err
}

// Release releases the hosts. Idempotent.
func (h *Held) Release(ctx context.Context) (err error) {
	h.once.Do(func() {
		h.beat()
		if err = h.lease.Release(ctx); err == nil {
			err = h.forget()
		} else {
			err = errors.Join(err, h.lock.Unlock()) // the sweep finds it
		}
	})
	return err
}

// forget removes the directory of the hold's lock.
func (h *Held) forget() error {
	err := fsutil.RemoveAll(h.state.RunDir(h.Owner.Run))
	return errors.Join(err, h.lock.Unlock())
}
