package candidate

import (
	"context"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

func TestMountsOnASite(t *testing.T) {
	job := &spec.Job{Mounts: []spec.Mount{{From: "$SCRATCH/x", To: "/x/"}, {From: "project/era5", To: "/data", Write: true}}}
	site := spec.Site{Name: "a", Paths: map[string]string{"project": "/gpfs/$USER"}}
	var asked []driver.Directory
	answer := []string{"/scratch/ann/x", "/gpfs/ann/era5"}
	f := &listing{directories: func(wanted []driver.Directory) ([]string, error) {
		asked = wanted
		return answer, nil
	}}
	got, err := (&Site{Spec: site, Provider: f, Job: job}).Mounts(t.Context())
	if err != nil || len(got) != 2 || got[0].From != answer[0] || got[0].To != "/x" || got[0].Write || got[1].From != answer[1] || got[1].To != "/data" || !got[1].Write {
		t.Errorf("%+v, %v", got, err)
	}
	if len(asked) != 2 || asked[0] != (driver.Directory{Path: "$SCRATCH/x"}) || asked[1] != (driver.Directory{Path: "/gpfs/$USER/era5", Write: true}) {
		t.Errorf("the site was asked for %+v", asked)
	}
	if _, err := (&Site{Spec: spec.Site{Name: "b"}, Provider: f, Job: job}).Mounts(t.Context()); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
		t.Errorf("a site without the name: %v", err)
	}
	answer = answer[:1]
	if _, err := (&Site{Spec: site, Provider: f, Job: job}).Mounts(t.Context()); !core.IsKind(err, core.Lost) {
		t.Errorf("a site that answers something else: %v", err)
	}
	f.directories = func([]driver.Directory) ([]string, error) { t.Error("asked for nothing"); return nil, nil }
	if got, err := (&Site{Spec: site, Provider: f, Job: &spec.Job{}}).Mounts(t.Context()); got != nil || err != nil {
		t.Errorf("no mounts: %v, %v", got, err)
	}
}

// listing is a site that answers where directories are.
type listing struct {
	driver.Provider
	directories func(wanted []driver.Directory) ([]string, error)
}

func (l *listing) Directories(_ context.Context, wanted []driver.Directory) ([]string, error) {
	return l.directories(wanted)
}
