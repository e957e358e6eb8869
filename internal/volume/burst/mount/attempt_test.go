package mount

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// ofRun makes the record of a run's volume whose remote is a new directory.
func ofRun(t *testing.T) burst.Config {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	far := filepath.Join(dir, "far")
	c := burst.Config{ID: "1a2b3c4d", Remote: far, At: remote.Place{Dir: far}, Run: "run", Room: LeastRoom, Dir: filepath.Join(dir, "volumes", "1a2b3c4d"), Mount: filepath.Join(dir, "near")}
	c.Place = filepath.Join(c.Dir, "buffer")
	if err := errors.Join(os.Mkdir(far, 0o755), os.Mkdir(c.Mount, 0o755), fsutil.OwnDir(c.Dir), fsutil.OwnDir(c.Place), c.Save()); err != nil {
		t.Fatal(err)
	}
	return c
}

func serveIO(t *testing.T, c burst.Config) (ended <-chan error) {
	ready, end := make(chan struct{}), make(chan error, 1)
	go func() {
		end <- burst.Serve(context.Background(), c, nil, slog.New(slog.DiscardHandler), func() { close(ready) })
	}()
	select {
	case <-ready:
	case err := <-end:
		t.Fatal(err)
	}
	return end
}

// TestTheEndOfARun: its checkpoints leave the remote once that has everything, and not before.
func TestTheEndOfARun(t *testing.T) {
	c := ofRun(t)
	ended := serveIO(t, c)
	a := &Attempt{config: c}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.End(over, Ending{Succeeded: true}); err == nil {
		t.Error("nothing was waited for")
	}
	if now, err := burst.Load(c.Dir); err != nil || now.Over {
		t.Errorf("before it is drained: %+v, %v", now, err)
	}
	if err := os.Mkdir(c.Mount, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := a.End(t.Context(), Ending{Succeeded: true}); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(c.Remote); err != nil || len(list) > 0 {
		t.Errorf("the remote has %v, %v", list, err)
	}
}

// TestConflictsOfEarlierAttempts: what a lost attempt's volume found changed on the remote is reported at the
// end of the next attempt, whose start removes that volume.
func TestConflictsOfEarlierAttempts(t *testing.T) {
	c := ofRun(t)
	raw, err := meta.Change{Do: meta.DoGeneration, Ino: meta.Root, Number: 1, Found: []meta.Conflict{{Path: "f", As: "f.bee-conflict"}}, Time: 1}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	log, err := buffer.Open(c.Place, buffer.Options{})
	if err == nil {
		err = errors.Join(log.Append(&buffer.Record{Kind: buffer.Change, Payload: raw}), log.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := serveIO(t, c)
	list, err := clearEarlier(t.Context(), Options{Volumes: filepath.Dir(c.Dir), At: c.At, Run: c.Run})
	if err != nil || len(list) != 1 || len(list[0].Conflicts) != 1 || list[0].Conflicts[0].Path != "f" {
		t.Errorf("cleared: %+v, %v", list, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the volume is left: %v", err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := (&Attempt{config: burst.Config{Dir: c.Dir, Run: c.Run, Mount: c.Mount}, earlier: list}).End(over, Ending{Over: true})
	if err == nil || len(s.Conflicts) != 1 {
		t.Errorf("the end of the next attempt: %+v, %v", s.Conflicts, err)
	}
}

// TestTheVolumeOfARunIsNoOthers: nobody mounts it as another one, and forgetting it leaves the run's record.
func TestTheVolumeOfARunIsNoOthers(t *testing.T) {
	c := ofRun(t)
	record := filepath.Join(c.Remote, remote.RecordName)
	if err := errors.Join(os.Mkdir(filepath.Dir(record), 0o755), os.WriteFile(record, []byte(`{"id":"1a2b3c4d","run":"run","epoch":1}`), 0o644)); err != nil {
		t.Fatal(err)
	}
	o := Options{Volumes: filepath.Dir(c.Dir), Remote: c.Remote, At: c.At, Dir: c.Mount}
	if _, err := prepare(t.Context(), o); !core.IsKind(err, core.Busy) {
		t.Errorf("mounted without its run: %v", err)
	}
	if err := os.RemoveAll(c.Place); err != nil {
		t.Fatal(err)
	}
	if err := Forget(t.Context(), c, nil, false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(record); err != nil {
		t.Error(err)
	}
}

// TestForgettingASupersededVolume: what its buffer alone has, or may have, is deleted only by force.
func TestForgettingASupersededVolume(t *testing.T) {
	mode, at := uint32(0o644), int64(1)
	made, err := meta.Change{Do: meta.DoCreate, Ino: meta.Root + 1, Dir: meta.Root, Name: "f", Kind: remote.File, Mode: &mode, Mtime: &at, Time: at}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, fill := range map[string]func(c burst.Config) error{
		"undrained": func(c burst.Config) error {
			log, err := buffer.Open(c.Place, buffer.Options{})
			if err != nil {
				return err
			}
			return errors.Join(log.Append(&buffer.Record{Kind: buffer.Change, Payload: made}), log.Close())
		},
		"damaged": func(c burst.Config) error { return os.WriteFile(filepath.Join(c.Place, "segment-x"), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			c := ofRun(t)
			c.Superseded = true
			if err := errors.Join(fill(c), c.Save()); err != nil {
				t.Fatal(err)
			}
			if err := Forget(t.Context(), c, nil, false); !core.IsKind(err, core.Busy) {
				t.Errorf("without force: %v", err)
			}
			if _, err := os.Stat(c.Place); err != nil {
				t.Fatal(err)
			}
			if err := Forget(t.Context(), c, nil, true); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(c.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("its buffer is left: %v", err)
			}
		})
	}
}
