package head

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/testkit"
)

// volumeHead is the head of an attempt on one host whose volume is a directory.
func volumeHead(t *testing.T, paths ...string) (*Head, string) {
	t.Helper()
	dir := t.TempDir()
	p := &plan.Plan{Volume: "/data", Checkpoint: &plan.Checkpoint{Paths: paths, Grace: time.Minute}}
	h, err := New(partsOf(t, plan.Config{Size: 1, Host: core.Host{Name: "h0", Dir: dir}, Plan: p}))
	if err != nil {
		t.Fatal(err)
	}
	return h, plan.VolumeDir(dir)
}

// TestACheckpointAskedTooLate finds no container that `checkpoint.command` could run in.
func TestACheckpointAskedTooLate(t *testing.T) {
	h, _ := volumeHead(t)
	h.plan.Checkpoint.Command = []string{"save"}
	running, ended := context.WithCancel(t.Context())
	ended()
	if _, err := h.snapshots.keepAsked(t.Context(), running); !errors.Is(err, errEnded) || !core.IsKind(err, core.Transient) {
		t.Errorf("got %v", err)
	}
}

// TestACopyOfAVolume has what `paths` name, directories too, as it was while nobody
// wrote to it: without `paths` that is all of it.
func TestACopyOfAVolume(t *testing.T) {
	for name, c := range map[string]struct {
		paths         []string
		busy, removed string // what is written, and removed, before the copy
		waits         bool   // for it
	}{
		"all of it":                    {nil, "log", "", true},
		"all of it, named":             {[]string{"/data/"}, "log", "", true},
		"a file":                       {[]string{"/data/state"}, "state", "", true},
		"a file, and another changes":  {[]string{"/data/state"}, "log", "", false},
		"a directory":                  {[]string{"/data/deep"}, "deep/er/part", "", true},
		"a directory, by a pattern":    {[]string{"/data/de*", "/data/deep/er"}, "deep/er/part", "", true},
		"a directory that lacks one":   {[]string{"/data/deep"}, "", "deep/er/part", true},
		"a volume that lacks one":      {nil, "", "log", true},
		"a directory, another changes": {[]string{"/data/deep"}, "log", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, volume := volumeHead(t, c.paths...)
			want := map[string]string{"state": "1", "log": "l", "deep/er/part": "2", "deep/other": "3"}
			write(t, volume, want)
			testkit.Eventually(t, 10*time.Second, func() error {
				if l, err := h.volumes.trees().Look(volume, []string{snapshot.Whole}); err != nil || l.Busy {
					return errors.Join(err, errRestless)
				}
				return nil
			})
			if c.busy != "" {
				want[c.busy] = "new"
				write(t, volume, map[string]string{c.busy: "new"})
			} else if err := os.Remove(filepath.Join(volume, c.removed)); err != nil {
				t.Fatal(err)
			}
			delete(want, c.removed)
			if whole, err := h.snapshots.copyParts(t.Context(), filepath.Join(t.TempDir(), "parts")); err != nil || whole == c.waits {
				t.Errorf("at once: whole %v, %v", whole, err)
			}
			if err := h.snapshots.copyVolume(t.Context(), 1, time.Minute); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, plan.SnapshotDir(h.config.Host.Dir, 1)); !maps.Equal(got, want) {
				t.Errorf("the copy has %v, want %v", got, want)
			}
		})
	}
}

// TestWhatComesMeanwhileIsNotInACopy: it may be half written.
func TestWhatComesMeanwhileIsNotInACopy(t *testing.T) {
	h, volume := volumeHead(t, "/data/state.*")
	parts, fresh := filepath.Join(t.TempDir(), "parts"), filepath.Join(t.TempDir(), "fresh")
	write(t, volume, map[string]string{"state.2": "half", "state.1": "longer", "log": "l"})
	write(t, parts, map[string]string{"state.1": "1"})
	if err := h.snapshots.addRest(t.Context(), parts, fresh); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, fresh); !maps.Equal(got, map[string]string{"state.1": "1", "log": "l"}) {
		t.Errorf("the copy has %v", got)
	}
}

func TestNothingToCopyYet(t *testing.T) {
	h, volume := volumeHead(t, "/data/state", "/data/deep")
	write(t, volume, map[string]string{"log": "l"})
	if err := os.Mkdir(filepath.Join(volume, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := h.snapshots.copyVolume(t.Context(), 1, time.Minute); !errors.Is(err, errNothingYet) {
		t.Errorf("got %v", err)
	}
}
