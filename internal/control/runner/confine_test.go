package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestAStrangersDirectoryIsReplacedLater: by a link, once its job has been looked at, and
// before it reads its inputs or its outputs come.
func TestAStrangersDirectoryIsReplacedLater(t *testing.T) {
	for name, replaced := range map[string]string{"the outputs' directory": "results", "the job's directory": "."} {
		for _, lost := range []bool{false, true} {
			w, top := newWorld(t, "a"), t.TempDir()
			dir, home := filepath.Join(top, "theirs"), filepath.Join(top, "home")
			testkit.WriteFiles(t, dir, map[string]string{"results/mine": "mine"})
			testkit.WriteFiles(t, home, map[string]string{"key": "mine", "results/key": "mine"})
			w.ending(t, 0, map[string]string{"volume/key": "evil"}, protocol.OutputMatch{Path: "volume/key"})
			if lost {
				w.sites["a"].Head = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
			}
			s := submission.Submission{
				Job:   spec.Job{Name: "j", Nodes: 1, Dir: dir, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/k*", To: filepath.Join(dir, "results")}}},
				Sites: []spec.Site{{Name: "a", Provider: "fake"}},
			}
			if err := s.Confine(dir, s.Job.Reaches(dir)); err != nil || s.Within == "" {
				t.Fatalf("confined to %q, %v", s.Within, err)
			}
			run, lock, err := submission.Submit(t.Context(), w.Store, s)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { lock.Unlock() })
			link := filepath.Join(dir, replaced)
			if err := os.Rename(link, filepath.Join(top, "was")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(home, link); err != nil {
				t.Fatal(err)
			}
			if got, err := w.Drive(t.Context(), run.ID, nil); err == nil || got.State == state.Succeeded {
				t.Errorf("%s: %+v", name, got)
			}
			if got, want := testkit.Files(t, home), map[string]string{"key": "mine", "results/key": "mine"}; !same(got, want) {
				t.Errorf("%s: at home there is %q, want %q", name, got, want)
			}
		}
	}
}

// TestAStrangersInputIsReplacedLater is not sent.
func TestAStrangersInputIsReplacedLater(t *testing.T) {
	w, dir := newWorld(t, "a"), t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	testkit.WriteFiles(t, filepath.Dir(secret), map[string]string{"secret": "mine"})
	testkit.WriteFiles(t, dir, map[string]string{"in": "theirs"})
	s := submission.Submission{
		Job:   spec.Job{Name: "j", Nodes: 1, Dir: dir, Volume: spec.Volume{Path: "/work"}, Inputs: []spec.Input{{From: filepath.Join(dir, "in"), To: "/work/in"}}},
		Sites: []spec.Site{{Name: "a", Provider: "fake"}},
	}
	if err := s.Confine(dir, s.Job.Reaches(dir)); err != nil {
		t.Fatal(err)
	}
	run, lock, err := submission.Submit(t.Context(), w.Store, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Unlock() })
	if err := os.Remove(filepath.Join(dir, "in")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "in")); err != nil {
		t.Fatal(err)
	}
	got := w.drive(t, run, nil)
	if got.State != state.Failed || got.Kind != core.Invalid.String() || w.sites["a"].Staged.Local != "" {
		t.Errorf("%+v, sent %+v", got, w.sites["a"].Staged)
	}
}

// TestAStrangersDockerfileIsReplacedLater: no image is built of a Dockerfile that names an
// image outside of the job's directory by now.
func TestAStrangersDockerfileIsReplacedLater(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want state.RunState
	}{
		"unchanged": {"FROM debian:12\n", state.Succeeded},
		"replaced":  {"FROM docker-archive:/home/ann/secret.tar\n", state.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			w, dir := newWorld(t, "a"), t.TempDir()
			w.ending(t, 0, nil)
			testkit.WriteFiles(t, dir, map[string]string{"context/Dockerfile": "FROM debian:12\n"})
			s := submission.Submission{
				Job:   spec.Job{Name: "j", Nodes: 1, Dir: dir, Build: &spec.Build{Context: filepath.Join(dir, "context")}, Volume: spec.Volume{Path: "/work"}},
				Sites: []spec.Site{{Name: "a", Provider: "fake"}},
			}
			if err := s.Confine(dir, s.Job.Reaches(dir)); err != nil || s.Within == "" {
				t.Fatalf("confined to %q, %v", s.Within, err)
			}
			run, lock, err := submission.Submit(t.Context(), w.Store, s)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { lock.Unlock() })
			testkit.WriteFiles(t, dir, map[string]string{"context/Dockerfile": c.text})
			got := w.drive(t, run, nil)
			if got.State != c.want || c.want == state.Failed && got.Kind != core.Invalid.String() {
				t.Errorf("%+v, want it %s", got, c.want)
			}
		})
	}
}
