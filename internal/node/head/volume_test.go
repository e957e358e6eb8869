package head

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

func TestSizeOfADataImage(t *testing.T) {
	dir := t.TempDir()
	if size, err := imageSize(dir, 0); err != nil || size < dataimage.LeastSize || size > defaultImage {
		t.Errorf("by default: %d, %v", size, err)
	}
	if size, err := imageSize(dir, 100<<20); err != nil || size != 100<<20 {
		t.Errorf("as wanted: %d, %v", size, err)
	}
	_, err := imageSize(dir, 1<<60)
	if core.KindOf(err) != core.Invalid || !strings.Contains(core.Remedy(err), "volume: {size: …}") {
		t.Errorf("more than there is: %v, %q", err, core.Remedy(err))
	}
}

func TestWhichVolumeGuestsHave(t *testing.T) {
	two := []peercall.JoinRequest{{}, {}}
	for name, c := range map[string]struct {
		infos         []peercall.JoinRequest
		shared        bool
		fabric, asked string
		want          string
	}{
		"one host":                 {infos: two[:1], asked: plan.VolumeAuto, want: plan.VolumeHosts},
		"hosts that share":         {infos: two, shared: true, asked: plan.VolumeAuto, want: plan.VolumeHosts},
		"nothing shared, no way":   {infos: two, fabric: "none", asked: plan.VolumeAuto, want: plan.VolumeHosts},
		"as told":                  {infos: two, asked: plan.VolumeHosts, want: plan.VolumeHosts},
		"nothing shared, a fabric": {infos: two, fabric: "switch", asked: plan.VolumeAuto, want: plan.VolumeImage},
	} {
		if got := volumeFor(&plan.VM{Volume: c.asked, Fabric: c.fabric}, c.shared || len(c.infos) == 1, len(c.infos)); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// imageHead is a head whose volume is a data image, with nothing that would
// need a virtual machine.
func imageHead(t *testing.T) (*Head, string) {
	t.Helper()
	testkit.RequireTool(t, "e2fsck")
	dir := t.TempDir()
	p := &plan.Plan{Volume: "/data", VM: &plan.VM{Volume: plan.VolumeImage, VolumeSize: 128 << 20}, Outputs: []string{"/data/out*"}}
	return assemble(partsOf(t, plan.Config{Host: core.Host{Name: "h0", Dir: dir}, Size: 1, Plan: p}), nil, nil), dir
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		files[rel] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A data image is made of the volume's directory, and emptied into it: all of
// it for the next attempt, or where the outputs name nothing that is there; else
// the outputs alone at the end of a run. Where there are none it stays as it was.
func TestADataImageThereAndBack(t *testing.T) {
	for name, c := range map[string]struct {
		saved   bool
		halted  bool // and saved with its machine
		outputs []string
		want    map[string]string
	}{
		"saved":                    {true, false, []string{"/data/out*"}, map[string]string{"in": "new", "deep/state": "2", "out.log": "log"}},
		"ended":                    {false, false, []string{"/data/out*"}, map[string]string{"out.log": "log"}},
		"ended, nothing matched":   {false, false, []string{"/data/uot*"}, map[string]string{"in": "new", "deep/state": "2", "out.log": "log"}},
		"ended, one of two did":    {false, false, []string{"/data/uot*", "/data/deep"}, map[string]string{"deep/state": "2"}},
		"ended, nothing was asked": {false, false, nil, map[string]string{"in": "old", "gone": "x"}},
		"saved with its machine":   {true, true, []string{"/data/out*"}, map[string]string{"in": "old", "gone": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, dir := imageHead(t)
			h.plan.Outputs = c.outputs
			if h.saver.saved = c.saved; c.saved {
				h.plan.Checkpoint = &plan.Checkpoint{VM: c.halted}
			}
			if c.halted {
				h.saver.snapshot = 1
			}
			write(t, plan.VolumeDir(dir), map[string]string{"in": "old", "gone": "x"})
			if err := h.image.make(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := dataimage.Lock(plan.VolumeImagePath(dir)); core.KindOf(err) != core.Busy {
				t.Errorf("others may use it: %v", err)
			}
			inside := t.TempDir() // as the guest would leave it
			write(t, inside, map[string]string{"in": "new", "deep/state": "2", "out.log": "log"})
			if err := (dataimage.Tools{}).Make(t.Context(), plan.VolumeImagePath(dir), inside, 128<<20); err != nil {
				t.Fatal(err)
			}
			if err := h.image.unload(h.saver.snapshot > 0, h.saver.wantsVolume(), h.volumeGlobs()); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, plan.VolumeDir(dir)); !maps.Equal(got, c.want) {
				t.Errorf("the volume has %v", got)
			}
			if _, err := os.Stat(plan.VolumeImagePath(dir)); err == nil {
				t.Error("the image is still there")
			}
		})
	}
}

func TestAVolumeTooLargeForItsImage(t *testing.T) {
	h, dir := imageHead(t)
	write(t, plan.VolumeDir(dir), map[string]string{"large": strings.Repeat("x", 130<<20)})
	err := h.image.make(t.Context())
	if core.KindOf(err) != core.Invalid || !strings.Contains(core.Remedy(err), "`volume: {size: …}`") {
		t.Errorf("%v, %q", err, core.Remedy(err))
	}
}

// server stands in for a container whose machine has the volume.
type server struct {
	driver.Container
	frozen, times int
}

// serving is its machine.
type serving struct {
	driver.Guest
	s *server
}

func (s *server) Guest() driver.Guest           { return serving{s: s} }
func (s *server) Memory() driver.MemoryLimit    { return nil }
func (g serving) VolumeDisk() driver.VolumeDisk { return g.s }

func (s *server) Freeze(context.Context) (func(), error) {
	s.frozen++
	s.times++
	return func() { s.frozen-- }, nil
}
func (s *server) Full(context.Context) (bool, error) { return false, nil }

// A copy of the volume is taken while nobody writes, and not before the
// checkpoint's files have rested for a second.
func TestACopyOfADataImage(t *testing.T) {
	h, dir := imageHead(t)
	s := &server{}
	h.current.Set(&container.Container{Container: s})
	h.plan.Checkpoint = &plan.Checkpoint{Paths: []string{"/data/state*"}, Grace: time.Minute}
	write(t, plan.VolumeDir(dir), map[string]string{"other": "o"})
	if err := h.image.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.snapshots.copyVolume(t.Context(), 1, time.Minute); !errors.Is(err, errNothingYet) {
		t.Errorf("before the job has written anything: %v", err)
	}
	write(t, plan.VolumeDir(dir), map[string]string{"state": "1"})
	if err := h.image.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.snapshots.copyVolume(t.Context(), 2, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, plan.SnapshotDir(dir, 2)); !maps.Equal(got, map[string]string{"other": "o", "state": "1"}) {
		t.Errorf("the copy has %v", got)
	}
	if s.frozen != 0 || s.times < 2 {
		t.Errorf("frozen %d times, %d times left so", s.times, s.frozen)
	}
}

// What a data image of the user's holds goes into the volume, below the inputs. One
// that holds anything else than on the submitting machine is refused.
func TestAVolumeOfADataImage(t *testing.T) {
	h, dir := imageHead(t)
	inside := t.TempDir()
	write(t, inside, map[string]string{"in": "image's", "deep/er/state": "1", "shut/file": "kept"})
	if err := os.Chmod(filepath.Join(inside, "shut"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := (dataimage.Tools{}).Make(t.Context(), plan.VolumeSourcePath(dir), inside, 200<<20); err != nil {
		t.Fatal(err)
	}
	write(t, plan.VolumeDir(dir), map[string]string{"in": "input's", "deep/more": "2"})
	h.plan.VM.VolumeSize, h.plan.VM.VolumeFrom = 0, "sha256:other"
	if err := h.image.make(t.Context()); err == nil || !strings.Contains(err.Error(), "sha256:other") {
		t.Fatalf("another digest: %v", err)
	}
	var err error
	if h.plan.VM.VolumeFrom, err = dataimage.DigestOf(t.Context(), inside); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time as one that continues after the first was killed
		if err := h.image.make(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.image.unlock()
	}
	want := map[string]string{"in": "input's", "deep/er/state": "1", "deep/more": "2", "shut/file": "kept"}
	if got := contents(t, plan.VolumeDir(dir)); !maps.Equal(got, want) {
		t.Errorf("the volume has %v", got)
	}
	if info, err := os.Stat(filepath.Join(plan.VolumeDir(dir), "shut")); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("a directory that may not be written to: %v, %v", info, err)
	}
	for _, in := range []string{inside, plan.VolumeDir(dir)} {
		if err := os.Chmod(filepath.Join(in, "shut"), 0o700); err != nil { // so that it can be removed
			t.Error(err)
		}
	}
	if _, err := os.Stat(plan.VolumeSourcePath(dir)); err == nil {
		t.Error("the user's image still takes space")
	}
}
