package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// A checkpoint is the run's volume as an attempt left it, at home, below
// checkpoints/N of the run's directory, N being the attempt. It counts once
// its manifest is there, which is written last: a directory without one is a
// copy that was cut short. The last two are kept.
const (
	checkpointsDir = "checkpoints"
	manifestName   = "manifest.json"
	volumeName     = "volume"
	kept           = 2
)

// manifest holds what a checkpoint consists of, to find damage.
type manifest struct {
	Attempt int               `json:"attempt"`
	Taken   time.Time         `json:"taken"`
	Files   map[string]string `json:"files"` // path to SHA-256
	Bytes   int64             `json:"bytes"`
}

func (a *attempt) checkpointDir(n int) string {
	return filepath.Join(a.c.Store.RunDir(a.run.ID), checkpointsDir, strconv.Itoa(n))
}

// keep brings the volume of an attempt home as a checkpoint.
func (a *attempt) keep(ctx context.Context) error {
	dir := a.checkpointDir(a.rec.N)
	if _, err := readManifest(dir); err == nil { // an earlier controller came as far
		return nil
	}
	if err := filestream.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	volume := filepath.Join(dir, volumeName)
	if err := a.fetch(ctx, protocol.VolumeDir(a.lease.Hosts()[0].Dir), volume); err != nil {
		return err
	}
	m := manifest{Attempt: a.rec.N, Taken: time.Now()}
	var err error
	if m.Files, m.Bytes, err = sums(volume); err != nil {
		return err
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	// All of it has to be on the disk before the old site's copy goes.
	if err := syncTree(dir); err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(dir, manifestName), raw, 0o600); err != nil {
		return err
	}
	a.c.say(protocol.PhaseFetch, fmt.Sprintf("checkpoint of attempt %d is at home: %d files", a.rec.N, len(m.Files)))
	return a.forgetOld()
}

// forgetOld removes all checkpoints but the last ones.
func (a *attempt) forgetOld() error {
	generations, err := a.generations()
	if err != nil {
		return err
	}
	for len(generations) > kept {
		if err := filestream.RemoveAll(a.checkpointDir(generations[0])); err != nil {
			return err
		}
		generations = generations[1:]
	}
	return nil
}

// generations lists the attempts that left a whole checkpoint, oldest first.
func (a *attempt) generations() ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(a.c.Store.RunDir(a.run.ID), checkpointsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []int
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if _, err := readManifest(a.checkpointDir(n)); err == nil {
			list = append(list, n)
		}
	}
	sort.Ints(list)
	return list, nil
}

// latest gives the volume of the newest checkpoint that is undamaged, or "".
func (a *attempt) latest() (string, error) {
	generations, err := a.generations()
	if err != nil {
		return "", err
	}
	for i := len(generations) - 1; i >= 0; i-- {
		dir := a.checkpointDir(generations[i])
		m, err := readManifest(dir)
		if err != nil {
			return "", err
		}
		volume := filepath.Join(dir, volumeName)
		files, _, err := sums(volume)
		if err == nil && same(files, m.Files) {
			return volume, nil
		}
		a.c.say(protocol.PhaseStage, fmt.Sprintf("warning: the checkpoint of attempt %d is damaged; the one before it is used", m.Attempt))
	}
	return "", nil
}

// progressed tells whether the newest checkpoint differs from the one before
// it in what a checkpoint consists of. A job that only writes the same again
// would go round for ever.
func (a *attempt) progressed() (bool, error) {
	generations, err := a.generations()
	if err != nil || len(generations) < 2 {
		return true, err
	}
	var sides [2]map[string]string
	for i, n := range generations[len(generations)-2:] {
		m, err := readManifest(a.checkpointDir(n))
		if err != nil {
			return false, err
		}
		sides[i] = only(m.Files, &a.sub.Job)
	}
	return !same(sides[0], sides[1]), nil
}

// only picks the files that the job's `checkpoint.paths` name.
func only(files map[string]string, job *spec.Job) map[string]string {
	if len(job.Checkpoint.Paths) == 0 {
		return files
	}
	picked := map[string]string{}
	for name, sum := range files {
		inside := path.Join(job.Volume, name)
		for _, pattern := range job.Checkpoint.Paths {
			if ok, err := path.Match(pattern, inside); err == nil && ok || strings.HasPrefix(inside, strings.TrimSuffix(pattern, "/")+"/") || inside == pattern {
				picked[name] = sum
			}
		}
	}
	return picked
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, sum := range a {
		if b[name] != sum {
			return false
		}
	}
	return true
}

func readManifest(dir string) (manifest, error) {
	var m manifest
	raw, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	return m, err
}

// sums gives the digest of every file and link below a directory.
func sums(root string) (map[string]string, int64, error) {
	files, total := map[string]string{}, int64(0)
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		h := sha256.New()
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			io.WriteString(h, to) //nolint:errcheck // a hash takes all
		case e.Type().IsRegular():
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			n, err := io.Copy(h, f)
			if err != nil {
				return err
			}
			total += n
		}
		files[rel] = hex.EncodeToString(h.Sum(nil))
		return nil
	})
	return files, total, err
}

// syncTree has everything on the disk's file system written out.
func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// moved is the outcome of an attempt whose checkpoint is at home.
func (a *attempt) moved(r *protocol.Result) (outcome, bool, error) {
	if a.sub.Job.Checkpoint == nil || a.stopAsked() {
		return outcome{}, false, nil
	}
	if r.Continue {
		further, err := a.progressed()
		if err != nil {
			return outcome{}, false, err
		}
		if !further {
			return outcome{state: state.Failed, err: &core.Error{Kind: core.Permanent, Op: "go on from the checkpoint of run", Object: a.run.ID,
				Err:    errors.New("the last attempt changed nothing in it"),
				Remedy: "Does the job write its checkpoint on the signal, within `checkpoint.grace`, and does `resume:` read it? Is the site's slot long enough?"}}, true, nil
		}
		return outcome{moved: true, err: errors.New("the job has saved itself; the run goes on from its checkpoint")}, true, nil
	}
	if core.KindNamed(r.Kind) != core.Lost || r.Exit != nil {
		return outcome{}, false, nil
	}
	generations, err := a.generations()
	if err != nil || len(generations) == 0 {
		return outcome{}, false, err
	}
	return outcome{moved: true, err: errors.New(r.Message + "; the run goes on from its last checkpoint")}, true, nil
}

// stageCheckpoint brings a checkpoint to the head as its volume.
func (a *attempt) stageCheckpoint(ctx context.Context, head core.Host, volume string) error {
	return a.lease.Stage(ctx, driver.Transfer{Local: volume, Remote: protocol.VolumeDir(head.Dir), Progress: func(done int64) {
		a.progress(protocol.PhaseStage)("bringing the checkpoint", done, 0)
	}})
}
