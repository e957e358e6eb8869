package benchcmd

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/spf13/cobra"
)

func (a *Commands) newBenchResumeCommand() *cobra.Command {
	var o benchOptions
	c := &cobra.Command{
		Use: "resume DIR", Short: "Continue a study that was interrupted", Args: cobra.ExactArgs(1),
		Example: "  bee bench resume bench-layers-20261126-101500",
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			j, err := record.Open(dir)
			if err != nil {
				return err
			}
			s, err := study.Parse(record.PlanFile, []byte(j.Plan.File), j.Plan.Dir)
			if err != nil {
				return errors.Join(err, j.Close())
			}
			session, err := a.OpenQuietly(c.Context())
			if err != nil {
				return errors.Join(err, j.Close())
			}
			defer session.Close()
			o.site = j.Plan.Site
			mapSites(s, j.Plan.Mapped)
			if err := a.giveAgain(c.Context(), s, &j.Plan); err != nil {
				return errors.Join(err, j.Close())
			}
			b := a.newBench(session, s, o)
			defer b.end()
			if err := b.alone(c.Context(), s.Name); err != nil {
				return errors.Join(err, j.Close())
			}
			if err := b.heldBefore(j.Dir); err != nil {
				return errors.Join(err, j.Close())
			}
			if err := b.hosts.require(b.taker, &j.Plan); err != nil {
				return errors.Join(err, j.Close())
			}
			if err := b.same(c.Context(), &j.Plan); err != nil {
				return errors.Join(err, j.Close())
			}
			if err := b.waitUntilQuiet(c.Context(), j); err != nil {
				return errors.Join(err, j.Close())
			}
			return b.measure(c.Context(), j)
		},
	}
	o.series(c.Flags())
	return c
}

// heldBefore notes the hosts that an earlier process has held for the study.
func (b *bench) heldBefore(dir string) error {
	h, err := record.ReadHosts(dir)
	if err != nil {
		return &core.Error{Kind: core.Invalid, Op: "continue study in", Object: dir, Err: err, Remedy: "Remove " + record.HostsFile + ": `bee sweep` releases the hosts that it names."}
	}
	b.hosts.before, b.hosts.allocations = map[string]string{}, map[string]string{}
	for _, x := range h.Held {
		b.hosts.allocations[x.Site] = x.Allocation
		if x.Owner != "" && !x.Released {
			b.hosts.before[x.Site] = x.Owner
		}
	}
	return nil
}

// same refuses to continue a study whose jobs or images are others now.
func (b *bench) same(ctx context.Context, p *record.Plan) error {
	refuse := func(err error) error {
		return &core.Error{Kind: core.Invalid, Op: "continue study", Object: p.Study, Err: err, Remedy: "New figures cannot be compared with those before. Start again by `bee bench run`."}
	}
	jobs, err := jobsDigest(p, b.taker)
	if err != nil {
		return err
	}
	if p.Jobs != "" && jobs != p.Jobs {
		changed, err := b.changed(p)
		if err != nil {
			return err
		}
		return refuse(errors.New(changed))
	}
	for _, e := range p.Environments {
		if e.Dropped != "" || e.Image == "" {
			continue
		}
		i := slices.IndexFunc(p.Points, func(x record.Point) bool { return slices.Contains(x.Environments, e.Name) })
		if i < 0 {
			continue
		}
		now, err := b.app.tryEnvironment(ctx, b.taker, p.Points[i], e.Name)
		if err != nil {
			return err
		}
		if now.Image != "" && now.Image != e.Image {
			return refuse(fmt.Errorf("the image of %s is %s now, and was %s", e.Name, now.Image, e.Image))
		}
	}
	return nil
}

// changed returns what differs between the jobs of a plan and those of now.
func (b *bench) changed(p *record.Plan) (string, error) {
	for _, e := range p.Environments {
		now, err := keyDigests(p, b.taker, e.Name)
		if err != nil {
			return "", err
		}
		if keys := record.OtherKeys(e.Keys, now); len(keys) > 0 && len(e.Keys) > 0 {
			return fmt.Sprintf("the job of %s has changed since the study began: %s", e.Name, strings.Join(keys, ", ")), nil
		}
	}
	return "the job has changed since the study began", nil
}
