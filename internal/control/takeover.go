package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TakeOver takes over, from a store, a run that another installation of bee has
// begun, whose machine is gone. It is given by its id or its name, and comes as a
// suspended run of this one: see Resume. The other installation is kept from
// going on with it.
func (c *Controller) TakeOver(ctx context.Context, store, word string, sites []spec.Site) (state.Run, error) {
	place, err := c.Place(store)
	if err != nil {
		return state.Run{}, err
	}
	defer place.Close()
	name, r, err := findIn(ctx, place, word)
	if err != nil {
		return state.Run{}, err
	}
	run := r.Run
	if _, err := c.Store.Run(ctx, run.ID); !core.IsKind(err, core.NotFound) {
		return run, errors.Join(err, &core.Error{
			Kind: core.Invalid, Op: "take over run", Object: run.ID, Err: errors.New("it is known here already"),
			Remedy: "`bee resume " + run.ID + "` goes on with it.",
		})
	}
	list, err := place.Run(name).List(ctx)
	if err != nil {
		return run, err
	}
	if len(list) == 0 {
		return run, &core.Error{
			Kind: core.NotFound, Op: "take over run", Object: run.ID, Err: errors.New("it has no checkpoint in " + store),
			Remedy: "Submit its Beefile again.",
		}
	}
	sub, err := SubmissionOf(run)
	if err != nil {
		return run, err
	}
	sub.Job.Store, sub.StoreName, sub.Sites, sub.SitesFile = store, name, sites, "" // that was another machine's
	if run.Submission, err = json.Marshal(sub); err != nil {
		return run, err
	}
	run.State, run.StopAsked = state.Suspended, false
	run.Kind, run.Message, run.Remedy = core.Lost.String(), "taken over from "+store, ""
	if err := c.enter(ctx, &drive{c: c, run: run, sub: sub, where: place}, r.Attempts, list); err != nil {
		return run, errors.Join(err, c.forgetHere(context.WithoutCancel(ctx), run))
	}
	return run, nil
}

// enter records a run that is taken over, here and then in its store, which makes
// it this installation's.
func (c *Controller) enter(ctx context.Context, d *drive, attempts []state.Attempt, list []checkpoint.Kept) error {
	if err := c.Store.PutRun(ctx, d.run); err != nil {
		return err
	}
	for _, a := range attempts {
		if !a.Released {
			d.note(ctx, leftByOther(a))
		}
		// What it may still hold somewhere is not ours to give back.
		a.Lease, a.Released, a.Launched = nil, true, false
		a.Fetched, a.GivenUp = false, false // it goes on, however that one ended
		a.Moved = a.Moved || a.N == list[len(list)-1].Attempt
		if err := c.Store.PutAttempt(ctx, a, false); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.Store.RunDir(d.run.ID), 0o700); err != nil {
		return err
	}
	if err := d.remember(list); err != nil {
		return err
	}
	store, err := d.store()
	if err != nil {
		return err
	}
	return d.noteRun(ctx, store)
}

// leftByOther tells what becomes of the hosts of an attempt that another installation
// has made, and had not given back when it last wrote to the store.
func leftByOther(a state.Attempt) string {
	does := "may have been asked for"
	if a.Lease != nil {
		does = "may still be held"
	}
	if a.Launched && !a.Over {
		does += ", and compute,"
	}
	return fmt.Sprintf("taken over: %s of site %s %s by attempt %d of the other installation; they are not this one's to give back. "+
		"That one gives them back when it runs again; if it is gone for good, end and remove there by hand what has %s in its name",
		firstOf(hostNames(a.Hosts), "hosts"), a.Site, does, a.N, a.Run)
}

// findIn finds the run that a user means among those in a store.
func findIn(ctx context.Context, place checkpoint.Place, word string) (string, record, error) {
	names, err := place.Runs(ctx)
	if err != nil {
		return "", record{}, err
	}
	var (
		found []record
		at    []string
		known []string
	)
	for _, name := range names {
		raw, err := place.Run(name).Noted(ctx)
		if err != nil {
			return "", record{}, err
		}
		var r record
		if raw == nil || json.Unmarshal(raw, &r) != nil {
			continue
		}
		if r.Version != recordVersion {
			return "", record{}, &core.Error{
				Kind: core.Unsupported, Op: "read the record of", Object: name, Err: fmt.Errorf("it has version %d, this bee knows %d", r.Version, recordVersion),
				Remedy: "Use the version of bee that wrote it.",
			}
		}
		known = append(known, r.Run.ID+" ("+r.Run.Name+")")
		if r.Run.ID == word || r.Run.Name == word {
			found, at = append(found, r), append(at, name)
		}
	}
	switch len(found) {
	case 1:
		return at[0], found[0], nil
	case 0:
		return "", record{}, &core.Error{
			Kind: core.NotFound, Op: "find run", Object: word, Err: errors.New("it is not in " + place.String()),
			Remedy: "There are: " + strings.Join(append(known, "no others"), ", ") + ".",
		}
	}
	return "", record{}, &core.Error{
		Kind: core.Invalid, Op: "find run", Object: word, Err: errors.New("several in " + place.String() + " have that name"),
		Remedy: "Give its id: " + strings.Join(known, ", ") + ".",
	}
}
