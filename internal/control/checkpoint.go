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
	"slices"
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

// A checkpoint is the run's volume at home, below checkpoints/ of the run's
// directory: as an attempt left it, or as the head kept it while the job ran. It
// counts once its manifest is there, which is written last: a directory without
// one is a copy that was cut short. The last two are kept.
const (
	checkpointsDir = "checkpoints"
	manifestName   = "manifest.json"
	volumeName     = "volume"
	kept           = 2
)

// manifest holds what a checkpoint consists of, to find damage.
type manifest struct {
	Attempt int               `json:"attempt"`
	Site    string            `json:"site,omitempty"`
	Taken   time.Time         `json:"taken"`
	Took    time.Duration     `json:"took,omitempty"` // to bring it home
	Files   map[string]string `json:"files"`          // path to SHA-256
	Bytes   int64             `json:"bytes"`
}

// generation is one checkpoint of a run.
type generation struct {
	attempt int
	// snapshot counts those that were kept while the attempt ran; 0 is the one
	// that it left at its end.
	snapshot int
}

// name is that of the directory: N, or N.K for a snapshot.
func (g generation) name() string {
	if g.snapshot == 0 {
		return strconv.Itoa(g.attempt)
	}
	return strconv.Itoa(g.attempt) + "." + strconv.Itoa(g.snapshot)
}

func generationNamed(name string) (generation, bool) {
	number, snapshot, is := strings.Cut(name, ".")
	var g generation
	var err1, err2 error
	g.attempt, err1 = strconv.Atoi(number)
	if is {
		g.snapshot, err2 = strconv.Atoi(snapshot)
	}
	return g, err1 == nil && err2 == nil && g.name() == name
}

// compare orders generations by age.
func (g generation) compare(o generation) int {
	switch {
	case g.attempt != o.attempt:
		return g.attempt - o.attempt
	case g.snapshot == 0 || o.snapshot == 0: // an attempt's end is its last
		return o.snapshot - g.snapshot
	}
	return g.snapshot - o.snapshot
}

func (a *attempt) checkpointDir(g generation) string {
	return filepath.Join(a.c.Store.RunDir(a.run.ID), checkpointsDir, g.name())
}

// keep brings the volume of an attempt home as a checkpoint.
func (a *attempt) keep(ctx context.Context) error {
	return a.keepAs(ctx, generation{attempt: a.rec.N}, protocol.VolumeDir(a.lease.Hosts()[0].Dir))
}

// keepSnapshot does the same with what the head has kept meanwhile.
func (a *attempt) keepSnapshot(ctx context.Context, n int) error {
	return a.keepAs(ctx, generation{a.rec.N, n}, protocol.SnapshotDir(a.lease.Hosts()[0].Dir, n))
}

func (a *attempt) keepAs(ctx context.Context, g generation, remote string) error {
	a.keeping.Lock()
	defer a.keeping.Unlock()
	dir, begun := a.checkpointDir(g), time.Now()
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
	if err := a.fetch(ctx, remote, volume); err != nil {
		return err
	}
	m := manifest{Attempt: a.rec.N, Site: a.site.Name, Taken: time.Now()}
	var err error
	if m.Files, m.Bytes, err = sums(volume); err != nil {
		return err
	}
	// All of it has to be on the disk before the old site's copy goes.
	if err := syncTree(dir); err != nil {
		return err
	}
	m.Took = time.Since(begun)
	raw, err := json.Marshal(m)
	if err != nil {
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
	list, err := a.generations()
	if err != nil {
		return err
	}
	for ; len(list) > kept; list = list[1:] {
		if err := filestream.RemoveAll(a.checkpointDir(list[0])); err != nil {
			return err
		}
	}
	return nil
}

// generations lists the whole checkpoints, oldest first.
func (a *attempt) generations() ([]generation, error) {
	return generationsIn(a.c.Store.RunDir(a.run.ID))
}

func generationsIn(runDir string) ([]generation, error) {
	entries, err := os.ReadDir(filepath.Join(runDir, checkpointsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []generation
	for _, e := range entries {
		g, ok := generationNamed(e.Name())
		if !ok {
			continue
		}
		if _, err := readManifest(filepath.Join(runDir, checkpointsDir, e.Name())); err == nil {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, generation.compare)
	return list, nil
}

// Checkpoint is one that a run has at home, for people.
type Checkpoint struct {
	Attempt int       `json:"attempt"`
	Site    string    `json:"site"`
	Taken   time.Time `json:"taken"`
	// Seconds is how long it took to bring it home.
	Seconds float64 `json:"seconds"`
	Files   int     `json:"files"`
	Bytes   int64   `json:"bytes"`
	Path    string  `json:"path"`
}

// Checkpoints lists those that a run has at home, oldest first.
func (c *Controller) Checkpoints(run string) ([]Checkpoint, error) {
	list, err := generationsIn(c.Store.RunDir(run))
	if err != nil {
		return nil, err
	}
	var out []Checkpoint
	for _, g := range list {
		dir := filepath.Join(c.Store.RunDir(run), checkpointsDir, g.name())
		m, err := readManifest(dir)
		if err != nil {
			continue // gone just now
		}
		out = append(out, Checkpoint{m.Attempt, m.Site, m.Taken, m.Took.Seconds(), len(m.Files), m.Bytes, filepath.Join(dir, volumeName)})
	}
	return out, nil
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

// progressed tells whether this attempt's checkpoint differs from the newest of
// the attempts before it in what a checkpoint consists of. A job that only
// writes the same again would go round for ever.
func (a *attempt) progressed() (bool, error) {
	list, err := a.generations()
	if err != nil {
		return true, err
	}
	before := slices.DeleteFunc(slices.Clone(list), func(g generation) bool { return g.attempt >= a.rec.N })
	if len(before) == 0 {
		return true, nil
	}
	var sides [2]map[string]string
	for i, g := range []generation{before[len(before)-1], list[len(list)-1]} {
		m, err := readManifest(a.checkpointDir(g))
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

// lostInARow is how many attempts may be lost without a new checkpoint before a
// run waits for its user: something is wrong with the sites, or with the job.
const lostInARow = 10

// moved is the outcome of an attempt whose checkpoint is at home.
func (a *attempt) moved(ctx context.Context, r *protocol.Result) (outcome, bool, error) {
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
	list, err := a.generations()
	if err != nil || len(list) == 0 {
		return outcome{}, false, err
	}
	lost, err := a.launchedSince(ctx, list[len(list)-1].attempt)
	if err != nil {
		return outcome{}, false, err
	}
	if lost > lostInARow {
		return outcome{state: state.Suspended, err: &core.Error{Kind: core.Lost, Op: "go on from the checkpoint of run", Object: a.run.ID,
			Err:    fmt.Errorf("%d attempts were lost since, the last one so: %s", lostInARow, r.Message),
			Remedy: "Its checkpoint is at home. `bee show " + a.run.ID + "` tells how each was lost; `bee resume " + a.run.ID + "` goes on."}}, true, nil
	}
	return outcome{moved: true, err: errors.New(r.Message + "; the run goes on from its last checkpoint")}, true, nil
}

// launchedSince counts the attempts after one that got as far as their hosts;
// those that a site did not take say nothing.
func (a *attempt) launchedSince(ctx context.Context, n int) (int, error) {
	attempts, err := a.c.Store.Attempts(ctx, a.run.ID)
	count := 0
	for _, rec := range attempts {
		if rec.N > n && rec.Launched {
			count++
		}
	}
	return count, err
}

// lastSnapshot brings home what the head of a lost attempt has kept last, where
// it can still be reached.
func (a *attempt) lastSnapshot(ctx context.Context) {
	if c := a.sub.Job.Checkpoint; c == nil || c.Every == 0 || len(a.lease.Hosts()) == 0 {
		return
	}
	newest := 0
	a.journalled(ctx, func(e protocol.Event) bool { //nolint:errcheck // then there is none
		newest = max(newest, e.Snapshot)
		return false
	})
	if newest == 0 {
		return
	}
	if err := a.keepSnapshot(ctx, newest); err != nil {
		a.c.say(protocol.PhaseFetch, fmt.Sprintf("the last checkpoint that site %s has kept cannot be had: %v", a.site.Name, err))
	}
}

// stageCheckpoint brings a checkpoint to the head as its volume.
func (a *attempt) stageCheckpoint(ctx context.Context, head core.Host, volume string) error {
	return a.lease.Stage(ctx, driver.Transfer{Local: volume, Remote: protocol.VolumeDir(head.Dir), Progress: func(done int64) {
		a.progress(protocol.PhaseStage)("bringing the checkpoint", done, 0)
	}})
}
