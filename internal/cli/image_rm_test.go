package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/image/build"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestPruneNamesWhatItRemoves: an image is printed with all of its names, and not the one that it came by first alone.
func TestPruneNamesWhatItRemoves(t *testing.T) {
	d := newDesk(t)
	names := []string{testkit.Busybox(t, v1.Config{}), filepath.Join(t.TempDir(), "again.tar")}
	if err := os.Link(names[0], names[1]); err != nil {
		t.Fatal(err)
	}
	for _, asJSON := range []bool{false, true} {
		for _, name := range names {
			if err := d.bee("image", "pull", "docker-archive:"+name); err != nil {
				t.Fatal(err)
			}
		}
		line := []string{"image", "prune"}
		if asJSON {
			line = append(line, "--json")
		}
		if err := d.bee(line...); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.Contains(d.out.String(), name) {
				t.Errorf("%v: %s is not named: %s", line, name, d.out.String())
			}
		}
	}
}

// TestImagesOfRunsThatGoOnAreKept, the job's and the guest's, until the run has ended.
func TestImagesOfRunsThatGoOnAreKept(t *testing.T) {
	d := newDesk(t)
	job, guest := "docker-archive:"+testkit.Busybox(t, v1.Config{}), "docker-archive:"+testkit.Busybox(t, v1.Config{Env: []string{build.Mark + "=1"}})
	built := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{build.Mark + "=2"}}) // for an attempt, not named
	ids := map[string]string{}
	for _, name := range []string{job, guest, built} {
		if err := d.bee("image", "pull", name); err != nil {
			t.Fatal(err)
		}
		ids[name] = strings.TrimSpace(d.out.String())
	}
	raw, err := json.Marshal(submission.Submission{Version: 1, Job: spec.Job{VM: &spec.VM{Image: guest}}})
	if err != nil {
		t.Fatal(err)
	}
	run := state.Run{ID: "aaaa1111", Name: "pi", State: state.Suspended, Image: ids[job], Submission: raw}
	put := func() {
		t.Helper()
		if err := d.store.PutRun(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	put()
	at := state.Attempt{Run: run.ID, N: 1, Site: "rack", Started: time.Now(), Record: state.Record{Guest: ids[built]}}
	if err := d.store.PutAttempt(t.Context(), at, false); err != nil {
		t.Fatal(err)
	}
	for name, id := range ids {
		if err := d.bee("image", "rm", name); fmt.Sprint(err) != "exit 203" || !strings.Contains(d.err.String(), "aaaa1111") {
			t.Errorf("rm %s (%s): %v: %s", name, id, err, d.err.String())
		}
	}
	if err := d.bee("image", "prune"); err != nil || d.out.Len() > 0 {
		t.Errorf("prune: %v, removed %s", err, d.out.String())
	}
	run.State = state.Stopped
	put()
	if err := d.bee("image", "prune"); err != nil || strings.Count(d.out.String(), "\n") != len(ids) {
		t.Errorf("prune after the run: %v, removed %s", err, d.out.String())
	}
}
