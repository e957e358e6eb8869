package benchcmd

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/spec"
)

// claimsOf are the claims of a study for the points of a plan. Those of sites that others
// stand in for are not judged.
func claimsOf(s *study.Study, points []study.Point, mapped map[string]string) []record.Claim {
	ids := map[string]bool{}
	for i := range points {
		ids[points[i].ID(s.Variables)] = true
	}
	bound := func(x float64) *float64 {
		if math.IsInf(x, 0) {
			return nil
		}
		return &x
	}
	var all []record.Claim
	for i := range s.Claims {
		c := &s.Claims[i]
		interval := c.Interval(float64(s.Method.Margin))
		r := record.Claim{
			Environment: c.Environment, Metric: c.Metric, Key: string(c.At["key"]), Against: cmp.Or(c.Against, s.Baseline), AgainstMetric: cmp.Or(c.AgainstMetric, c.Metric),
			Low: bound(interval.Low), High: bound(interval.High), Text: c.Text(), From: c.From, StandIn: s.StandsIn(), Spread: c.Says == study.Steady || c.Says == study.Steadier, Own: c.Says == study.Steady,
		}
		if c.Against == "" && (c.AgainstMetric != "" || len(c.AgainstAt) > 0) {
			r.Against = c.Environment
		}
		for _, name := range slices.Sorted(maps.Keys(mapped)) {
			if to := mapped[name]; s.Environments[r.Environment].Site == to || s.Environments[r.Against].Site == to {
				r.StandIn = strings.TrimPrefix(r.StandIn+"; on "+to+" in place of "+name, "; ")
			}
		}
		for j := range points {
			p := &points[j]
			other := c.Other(p)
			if pair := (record.PointPair{Point: p.ID(s.Variables), Against: other.ID(s.Variables)}); c.Holds(p) && ids[pair.Against] {
				r.Points = append(r.Points, pair)
			}
		}
		all = append(all, r)
	}
	return all
}

// scalesOf are the comparisons of a study along variables.
func scalesOf(s *study.Study, points []study.Point) []record.Scale {
	var all []record.Scale
	for _, c := range s.Contrasts {
		if c.Vary == study.EnvironmentVariable {
			continue
		}
		scale := record.Scale{Variable: c.Vary, Against: string(c.Against)}
		for _, pair := range s.Along(points, c) {
			scale.Points = append(scale.Points, record.PointPair{Point: pair[0].ID(s.Variables), Against: pair[1].ID(s.Variables)})
		}
		all = append(all, scale)
	}
	return all
}

// emulates reports whether the processor of a job's machines is emulated, or may be: only a
// machine that surely uses KVM is none.
func emulates(job *spec.Job) bool {
	if job.VM == nil || job.VM.Accel == "kvm" {
		return false
	}
	accel, _, err := catalog.KnownAccel()
	return err != nil || accel != "kvm" || job.VM.Accel == "tcg"
}

// tryEnvironment finds out whether an environment works here.
func (a *Commands) tryEnvironment(ctx context.Context, taker *measure.Taker, at record.Point, name string) (record.Environment, error) {
	e := record.Environment{Name: name}
	job, err := taker.Job(at, name, "")
	if err != nil {
		return e, err
	}
	a.benchStep("trying " + name)
	outcome, err := taker.Try(ctx, at, name)
	if program := taker.Study.Environments[name].Bee; program != "" && err == nil && outcome.Failed == "" {
		if e.Bee, err = programVersion(ctx, program); err != nil {
			return e, err
		}
	}
	if err == nil && outcome.Failed == "" {
		for _, why := range taker.NoEnergy(outcome) {
			a.benchStep(name + ": " + output.Printable(why))
		}
	}
	e.TrialSeconds = (outcome.Start + outcome.Compute).Seconds()
	e.Image, e.Dropped, e.Remedy, e.Emulated = outcome.Image, outcome.Failed, outcome.Remedy, emulates(job)
	e.HostPrograms, e.OtherBinaries = job.Runtime == spec.HostRuntime, taker.Study.Environments[name].OtherBinaries
	return e, err
}
