package head

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// private is a directory of the user's, with a file that no job may reach.
func private(t *testing.T) (dir string, untouched func()) {
	t.Helper()
	dir = t.TempDir()
	write(t, dir, map[string]string{"state": "private", "STOP": "private"})
	return dir, func() {
		t.Helper()
		if got := contents(t, dir); !maps.Equal(got, map[string]string{"state": "private", "STOP": "private"}) {
			t.Errorf("outside of the volume is now %v", got)
		}
	}
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// TestACheckpointOverALink: the files of a checkpoint were copied when their directory
// was one, and it is a link when the rest is.
func TestACheckpointOverALink(t *testing.T) {
	for name, to := range map[string]string{"out": "", "up": "../..", "in": "other", "to nothing": "none", "to itself": "ckpt"} {
		t.Run(name, func(t *testing.T) {
			outside, untouched := private(t)
			if to == "" {
				to = outside
			}
			h, volume := volumeHead(t, "/data/ckpt/state", "/data/ckpt/*/part")
			parts, fresh := filepath.Join(t.TempDir(), "parts"), filepath.Join(t.TempDir(), "fresh")
			write(t, volume, map[string]string{"other/log": "l"})
			write(t, parts, map[string]string{"ckpt/state": "1", "ckpt/1/part": "p"})
			link(t, to, filepath.Join(volume, "ckpt"))
			if err := h.snapshots.addRest(t.Context(), parts, fresh); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, filepath.Join(fresh, "ckpt")); got["state"] != "1" || got["1/part"] != "p" {
				t.Errorf("the copy has %v", got)
			}
			untouched()
		})
	}
}

// TestAJobThatSwapsLinksWhileItIsCopied ends with a whole copy, or an error.
func TestAJobThatSwapsLinksWhileItIsCopied(t *testing.T) {
	outside, untouched := private(t)
	h, volume := volumeHead(t, "/data/ckpt/state", "/data/sub/deep/*", "/data/x/deep/*")
	write(t, volume, map[string]string{"ckpt/state": "1", "sub/deep/a": "2", "x/deep/a": "3", "log": "l"})
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, name := range []string{"ckpt", "sub", "x/deep"} {
		all.Go(func() {
			at := filepath.Join(volume, name)
			for ctx.Err() == nil {
				os.Rename(at, at+".was") //nolint:errcheck // a job that fails at this does no harm
				os.Symlink(outside, at)  //nolint:errcheck // see above
				os.Remove(at)
				os.Rename(at+".was", at) //nolint:errcheck // see above
			}
		})
	}
	for i := range 200 {
		parts, fresh := filepath.Join(t.TempDir(), "parts"), filepath.Join(t.TempDir(), "fresh")
		if err := h.volumes.trees().Copy(t.Context(), volume, checkpointGlobs(h.plan), parts); err != nil {
			continue // it changed its kind, which is reported
		}
		if err := h.snapshots.addRest(t.Context(), parts, fresh); err != nil {
			continue
		}
		for _, f := range []string{"ckpt/state", "sub/deep/state", "x/deep/state"} {
			name := filepath.Join(fresh, f)
			if info, err := os.Lstat(filepath.Dir(name)); err != nil || !info.IsDir() {
				continue
			}
			if raw, err := os.ReadFile(name); err == nil && string(raw) == "private" {
				t.Fatalf("copy %d has a file from outside", i)
			}
		}
	}
	stop()
	all.Wait()
	untouched()
}

// TestAStopFileThatIsALink is made in place of the link, and removed alone.
func TestAStopFileThatIsALink(t *testing.T) {
	outside, untouched := private(t)
	for name, c := range map[string]struct {
		file  string
		links map[string]string // in the volume
		fails bool
	}{
		"the file":          {"/data/STOP", map[string]string{"STOP": filepath.Join(outside, "STOP")}, false},
		"its directory":     {"/data/sub/STOP", map[string]string{"sub": outside}, true},
		"up":                {"/data/sub/STOP", map[string]string{"sub": "../../.."}, true},
		"a directory in it": {"/data/sub/STOP", map[string]string{"sub": "real"}, false},
		"an absolute one":   {"/data/sub/STOP", map[string]string{"sub": "/data/real"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, volume := volumeHead(t)
			h.plan.Checkpoint.File = c.file
			write(t, volume, map[string]string{"real/log": "l"})
			for at, to := range c.links {
				link(t, to, filepath.Join(volume, at))
			}
			if err := h.saver.writeStopFile(t.Context()); (err != nil) != c.fails {
				t.Error(err)
			}
			untouched()
			at := filepath.Join(volume, filepath.Base(c.file))
			if filepath.Dir(c.file) != "/data" {
				at = filepath.Join(volume, "real", "STOP")
			}
			if info, err := os.Lstat(at); !c.fails && (err != nil || !info.Mode().IsRegular()) {
				t.Errorf("the stop file: %v, %v", info, err)
			}
			h.saver.forgetStopFile()
			untouched()
			if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is still there: %v", err)
			}
		})
	}
}

// TestALookOverLinks sees nothing outside.
func TestALookOverLinks(t *testing.T) {
	outside, _ := private(t)
	h, volume := volumeHead(t)
	write(t, volume, map[string]string{"real/a": "1"})
	link(t, outside, filepath.Join(volume, "out"))
	before, err := h.volumes.trees().Look(volume, []string{"*/*"})
	if err != nil || before.Files != 1 {
		t.Fatalf("%+v, %v", before, err)
	}
	write(t, outside, map[string]string{"new": ""})
	if err := os.Chtimes(filepath.Join(outside, "state"), time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if after, err := h.volumes.trees().Look(volume, []string{"*/*"}); err != nil || after.Digest != before.Digest {
		t.Errorf("%+v, %v", after, err)
	}
}
