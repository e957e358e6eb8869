package outputs

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestHiddenFilesOfOthersAreNotReplaced by what lies below an output: only those that the
// run itself has made.
func TestHiddenFilesOfOthersAreNotReplaced(t *testing.T) {
	to, run := t.TempDir(), state.Run{ID: "0123456789", Name: "j"}
	var found []event.Fields
	a := &Collector{
		Run: run, Dir: t.TempDir(), Job: &spec.Job{}, Records: noRecords{}, Attempt: &state.Attempt{},
		Site: &transfer.Site{Record: func(_ context.Context, f event.Fields) { found = append(found, f) }},
	}
	testkit.WriteFiles(t, to, map[string]string{"res/.git/hooks/x": "mine", "res/.same": "same", "res/a/.env": "mine", "res/a/.dir/f": "mine", "res/a/log": "old"})
	if err := os.Symlink("/etc", filepath.Join(to, "res/.link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		came, after map[string]string
		users       string
		beside      int
	}{
		{
			name:   "the first attempt",
			came:   map[string]string{".git/hooks/x": "evil", ".git/hooks/y": "evil", ".same": "same", ".link/passwd": "evil", ".new": "1", ".d/.e": "1", "a/.env": "evil", "a/.dir": "evil", "a/log": "1", "b/.env": "1", "b/c/.x/y": "1"},
			after:  map[string]string{".git/hooks/x": "mine", ".git.ID/hooks/x": "evil", ".git.ID/hooks/y": "evil", ".same": "same", ".link.ID/passwd": "evil", ".new": "1", ".d/.e": "1", "a/.env": "mine", "a/.env.ID": "evil", "a/.dir/f": "mine", "a/.dir.ID": "evil", "a/log": "1", "b/.env": "1", "b/c/.x/y": "1"},
			beside: 4,
		},
		{
			name:   "the next, beside a hidden file that its user has made since",
			users:  "b/.user",
			came:   map[string]string{".git/hooks/x": "worse", ".new": "2", ".d/.e": "2", ".d/.f": "2", "b/.env": "2", "b/.user": "2", "b/c/.x/y": "2", "b/c/.x/z": "2"},
			after:  map[string]string{".git/hooks/x": "mine", ".git.ID/hooks/x": "worse", ".git.ID/hooks/y": "evil", ".same": "same", ".link.ID/passwd": "evil", ".new": "2", ".d/.e": "2", ".d/.f": "2", "a/.env": "mine", "a/.env.ID": "evil", "a/.dir/f": "mine", "a/.dir.ID": "evil", "a/log": "1", "b/.env": "2", "b/.user": "mine", "b/.user.ID": "2", "b/c/.x/y": "2", "b/c/.x/z": "2"},
			beside: 2,
		},
	} {
		testkit.WriteFiles(t, filepath.Join(to, "came"), c.came)
		if c.users != "" {
			testkit.WriteFiles(t, filepath.Join(to, "res"), map[string]string{c.users: "mine"})
		}
		if err := a.settle(t.Context(), "came", output{to: to, name: "res", replace: true}); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := os.Remove(filepath.Join(to, "res/.link")); err != nil { // it is still one
			t.Error(err)
		}
		after := map[string]string{}
		for name, text := range c.after {
			after["res/"+strings.ReplaceAll(name, "ID", run.ID)] = text
		}
		if got := testkit.Files(t, to); !maps.Equal(got, after) {
			t.Errorf("%s: got %q, want %q", c.name, got, after)
		}
		if last, is := found[len(found)-1].(event.HiddenRenamed); !is || last.Count != c.beside || last.First == "" {
			t.Errorf("%s: its history: %+v", c.name, found)
		}
		if err := os.Symlink("/etc", filepath.Join(to, "res/.link")); err != nil {
			t.Fatal(err)
		}
	}
}

// noRecords are those of runs that have written nothing.
type noRecords struct{}

func (noRecords) Written(context.Context, string, string) ([]state.Written, error) { return nil, nil }

func (noRecords) PutWritten(context.Context, state.Run, []state.Written) error { return nil }
