package dir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/store"
)

// victim is a directory of the user's that looks like a checkpoint.
func victim(t *testing.T) (dir string, untouched func()) {
	t.Helper()
	dir = t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, volumeName), 0o700), os.WriteFile(filepath.Join(dir, volumeName, "mine"), []byte("mine"), 0o600), os.WriteFile(filepath.Join(dir, manifestName), []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir, func() {
		t.Helper()
		for name, want := range map[string][]string{dir: {manifestName, volumeName}, filepath.Join(dir, volumeName): {"mine"}} {
			var got []string
			entries, err := os.ReadDir(name)
			for _, e := range entries {
				got = append(got, e.Name())
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s has %v, %v", name, got, err)
			}
		}
		if raw, err := os.ReadFile(filepath.Join(dir, manifestName)); err != nil || string(raw) != "mine" {
			t.Errorf("its file is %q, %v", raw, err)
		}
	}
}

// TestLinksInAStoreLeadNowhere: anyone who may write to it puts links in the place of
// checkpoints and volumes.
func TestLinksInAStoreLeadNowhere(t *testing.T) {
	for name, to := range map[string]string{"3": "", "3/volume": volumeName} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			out, untouched := victim(t)
			link := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(filepath.Join(out, to), link)); err != nil {
				t.Fatal(err)
			}
			_, _, err := Checkpoints(dir).Keep(t.Context(), driver.Generation{Attempt: 3}, "here", store.FetchFunc(func(volume, _ string) error {
				return errors.Join(os.MkdirAll(volume, 0o700), os.WriteFile(filepath.Join(volume, "state"), nil, 0o600))
			}))
			if err == nil {
				t.Error("a checkpoint was kept over a link")
			}
			untouched()
			for i := range 4 { // it makes way as the oldest
				if _, _, err := Checkpoints(dir).Keep(t.Context(), driver.Generation{Attempt: 4 + i}, "here", store.FetchFunc(func(volume, _ string) error {
					return errors.Join(os.MkdirAll(volume, 0o700), os.WriteFile(filepath.Join(volume, "state"), nil, 0o600))
				})); err != nil {
					t.Error(err)
				}
				untouched()
			}
		})
	}
}

// TestAVolumeThatIsALinkIsNotRestored: its manifest fits what it leads to.
func TestAVolumeThatIsALinkIsNotRestored(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, driver.Generation{Attempt: 1}, "first")
	out := filepath.Join(t.TempDir(), "out")
	if err := errors.Join(os.Rename(filepath.Join(dir, "1", volumeName), out), os.Symlink(out, filepath.Join(dir, "1", volumeName))); err != nil {
		t.Fatal(err)
	}
	list, err := Checkpoints(dir).List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := Checkpoints(dir).Restore(context.Background(), list[0], localTree(filepath.Join(t.TempDir(), "to"))); !errors.Is(err, driver.ErrDamaged) {
		t.Errorf("restored: %v", err)
	}
}

// swapping is a sink that does something before it takes a tree.
type swapping struct {
	store.Tree
	swap func() error
}

func (s swapping) Stage(ctx context.Context, from string) error {
	return errors.Join(s.swap(), s.Tree.Stage(ctx, from))
}

// TestALinkThatComesWhileACheckpointIsRestored leads nowhere: what was compared is sent.
func TestALinkThatComesWhileACheckpointIsRestored(t *testing.T) {
	for name, c := range map[string]struct {
		swapped string // below the store
		goes    bool   // what was compared is still reached
	}{"the run": {"", true}, "the checkpoint": {"1", true}, "the volume": {"1/" + volumeName, false}} {
		t.Run(name, func(t *testing.T) {
			dir, aside := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "aside")
			keep(t, dir, driver.Generation{Attempt: 1}, "first")
			out, untouched := victim(t)
			if err := os.MkdirAll(filepath.Join(out, "1", volumeName), 0o700); err != nil {
				t.Fatal(err)
			}
			defer untouched()
			defer os.RemoveAll(filepath.Join(out, "1"))
			list, err := Checkpoints(dir).List(t.Context())
			if err != nil || len(list) != 1 {
				t.Fatalf("%v, %v", list, err)
			}
			to := filepath.Join(t.TempDir(), "to")
			at := filepath.Join(dir, c.swapped)
			err = Checkpoints(dir).Restore(t.Context(), list[0], swapping{store.Tree(to), func() error {
				return errors.Join(os.Rename(at, aside), os.Symlink(filepath.Join(out, c.swapped), at))
			}})
			if (err == nil) != c.goes {
				t.Errorf("restored: %v", err)
			}
			info, serr := os.Lstat(to)
			if _, merr := os.Lstat(filepath.Join(to, "mine")); merr == nil || (serr == nil) != c.goes || c.goes && !info.IsDir() {
				t.Errorf("there is %v, %v", info, serr)
			}
		})
	}
}
