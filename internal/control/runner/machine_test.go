package runner

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// guestImages gives another image, or an error, for guests, and counts who asks.
type guestImages struct {
	controltest.Images
	guest core.Image
	err   error
	asked int
}

func (g *guestImages) Resolve(ctx context.Context, job *spec.Job, arch, policy string, report func(string, int64, int64)) (core.Image, error) {
	if job.Name != "guest" {
		return g.Images.Resolve(ctx, job, arch, policy, report)
	}
	if g.asked++; g.err == nil && g.guest.ID == "" {
		return g.Images.Resolve(ctx, job, arch, policy, report)
	}
	return g.guest, g.err
}

// TestMachinesOnDemand: their image is got only where the site's hosts cannot run
// containers, or nobody can tell.
func TestMachinesOnDemand(t *testing.T) {
	unable := &core.Error{Kind: core.Unsupported, Err: errors.New("no namespaces")}
	noTool := &core.Error{Kind: core.Unsupported, Err: errors.New("mmdebstrap is not installed"), Remedy: "Install it."}
	for name, c := range map[string]struct {
		works         string
		cannot, build error
		guest         core.Image
		image         string // of `vm:`
		asked         int
		machines      bool
		decided       bool         // here, not by the nodes
		fails         []string     // what the run's message and remedy have
		event         event.Fields // if any
	}{
		"containers run":                    {works: "rootless", build: noTool},
		"they do not":                       {cannot: unable, asked: 1, machines: true, decided: true, event: event.VMUsed{Cause: event.CauseOf(unable)}},
		"nobody can tell":                   {asked: 1, machines: true},
		"the site does not answer":          {cannot: &core.Error{Kind: core.Transient}, asked: 1, machines: true},
		"nobody can tell, and no image":     {build: noTool, asked: 1, event: event.VMImpossible{}},
		"neither":                           {cannot: unable, build: noTool, asked: 1, fails: []string{"mmdebstrap", "no namespaces", "Install it.", "bee vm image pull"}},
		"an image that is nowhere":          {cannot: unable, image: "mine", build: &core.Error{Kind: core.NotFound, Err: errors.New("no mine")}, asked: 1, fails: []string{"no mine", "bee vm image ls"}},
		"an image that no guest boots from": {image: "debian:12", guest: core.Image{ID: "sha256:y"}, asked: 1, fails: []string{"debian:12", "bee vm image ls"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			images := &guestImages{guest: c.guest, err: c.build}
			w.Images = images
			w.sites["a"].TriesRuntime = func(name string, l driver.Lease) (string, error) {
				if name != "docker" || len(l.Hosts()) != 1 {
					t.Errorf("asked for %q on %v", name, l.Hosts())
				}
				return c.works, c.cannot
			}
			run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Runtime: "docker", Volume: spec.Volume{Path: "/work"}, VM: &spec.VM{When: spec.VMAuto, Image: c.image}})
			got := w.drive(t, run, nil)
			if (got.State == state.Succeeded) != (c.fails == nil) || images.asked != c.asked {
				t.Fatalf("%s: %s %s; the guest image was asked for %d times", got.State, got.Message, got.Remedy, images.asked)
			}
			for _, want := range c.fails {
				if !strings.Contains(got.Message+got.Remedy, want) {
					t.Errorf("%q is in neither %q nor %q", want, got.Message, got.Remedy)
				}
			}
			if c.fails == nil {
				var config protocol.Config
				if err := json.Unmarshal(w.sites["a"].Launched.Config, &config); err != nil || (config.Plan.VM != nil) != c.machines || config.TryRuntime != (c.machines && !c.decided) {
					t.Errorf("the head was told %+v, to try %v, %v", config.Plan.VM, config.TryRuntime, err)
				}
			}
			if list := history(t, w, run.ID); (list != "") != (c.event != nil) || c.event != nil && !happened(t, w, run.ID, c.event) {
				t.Errorf("its history says %s", list)
			}
		})
	}
}

// TestAGuestImageHoldsNoJob: it has nothing of what a job could run.
func TestAGuestImageHoldsNoJob(t *testing.T) {
	w := newWorld(t, "a")
	got := w.drive(t, w.submitJob(t, spec.Job{Name: "j", Image: "guest", Nodes: 1, Volume: spec.Volume{Path: "/work"}}), nil)
	if got.State != state.Failed || got.Kind != core.Invalid.String() || !strings.Contains(got.Remedy, "vm: {image: …}") {
		t.Errorf("%s, %s: %s %s", got.State, got.Kind, got.Message, got.Remedy)
	}
}
