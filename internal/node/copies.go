package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
	"golang.org/x/sys/unix"
)

// Copies of the volume of a job that goes on.

// takeSnapshots keeps one every so often, for the controller to bring home: so that
// a lost host costs little. Why there is none is told once, until it is another reason.
func (h *head) takeSnapshots(ctx context.Context) {
	c := h.plan.Checkpoint
	if c == nil || c.Every == 0 {
		return
	}
	told := ""
	for {
		select {
		case <-time.After(c.Every):
		case <-ctx.Done():
			return
		}
		bounded, cancel := context.WithTimeout(ctx, c.Grace+c.Every)
		_, err := h.keepSnapshot(bounded, c.Grace+c.Every)
		cancel()
		text := ""
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errNothingYet):
			text = "no checkpoint to keep: " + err.Error()
		case err != nil:
			text = "warning: no checkpoint was kept: " + err.Error()
		}
		if text != "" && text != told {
			h.journal.remark(protocol.PhaseRun, text)
		}
		told = text
	}
}

// goesOn tells whether a checkpoint can be taken of the job while it runs: the machines
// around it are saved, or what is copied is written by a command, or now and then by the
// job itself, as `every:` says.
func (h *head) goesOn() bool {
	c := h.plan.Checkpoint
	return h.plan.SavesVM() || len(c.Command) > 0 || c.Every > 0
}

// keepOnWish keeps a copy as the run's user wants it, while the job runs.
func (h *head) keepOnWish(ctx, running context.Context) (int, error) {
	h.n.serving.Add(1)
	defer h.n.serving.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(running, func() { cancel(errEnded) })
	defer stop()
	grace := h.plan.Checkpoint.Grace
	if h.plan.SavesVM() { // they stand still meanwhile
		bounded, done := context.WithTimeoutCause(ctx, grace, fmt.Errorf("it took longer than `checkpoint.grace`, %v", grace))
		defer done()
		ctx = bounded
	}
	n, err := h.keepSnapshot(ctx, grace)
	if err == nil {
		return n, nil
	}
	e := &core.Error{Kind: core.KindOf(err), Op: "take a checkpoint", Err: err, Remedy: "The job goes on. `bee logs --node 0 " + h.n.config.Owner.Run + "` may tell more."}
	if cause := context.Cause(ctx); cause != nil {
		e.Err = cause
	}
	if errors.Is(err, errNothingYet) || errors.Is(err, errRestless) {
		e.Kind, e.Remedy = core.Transient, "The job goes on. Try again later; `bee move "+h.n.config.Owner.Run+"` asks it to save itself and to end, and has it go on from there."
	}
	if running.Err() != nil { // it may have been why
		e.Kind, e.Err, e.Remedy = core.Transient, errEnded, "`bee show "+h.n.config.Owner.Run+"` tells how it has ended."
	}
	return 0, e
}

// keepSnapshot keeps one copy, and tells its number. Patience is for how long a command
// may write it, and for how long then a moment at which nobody does is waited for.
func (h *head) keepSnapshot(ctx context.Context, patience time.Duration) (int, error) {
	h.saving.Lock()
	defer h.saving.Unlock()
	begun, n := time.Now(), h.taken+1
	var err error
	if h.plan.SavesVM() {
		err = h.snapshotMachines(ctx, n, true)
	} else {
		err = h.snapshotVolume(ctx, n, patience)
	}
	if err != nil {
		return 0, err
	}
	h.taken = n
	message := fmt.Sprintf("kept checkpoint %d in %s", n, time.Since(begun).Round(time.Millisecond))
	count, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	bytes := countBytes(count, protocol.SnapshotDir(h.n.config.Host.Dir, n))
	h.journal.add(protocol.Event{Phase: protocol.PhaseRun, Rank: -1, Snapshot: n, Bytes: bytes, Message: message})
	h.kept.makeWay(n) //nolint:errcheck // the next attempt removes all
	return n, nil
}

var (
	errNothingYet = errors.New("nothing is there yet of what a checkpoint consists of (`checkpoint.paths`)")                                                                                   //nolint:gochecknoglobals // a constant
	errRestless   = errors.New("the files of a checkpoint do not stop changing: name in `checkpoint.paths` only what the job needs to go on, and have it write that now and then, not always") //nolint:gochecknoglobals // a constant
	errEnded      = errors.New("the attempt has come to its end meanwhile")                                                                                                                    //nolint:gochecknoglobals // a constant
)

// steady is how long the files of a checkpoint must not have changed to count
// as whole.
const steady = time.Second

// snapshotVolume copies the volume as it is, with the files of a checkpoint, of all
// hosts, as they were at one moment at which nobody wrote to them. They are copied
// first: what a job appends to besides may be longer than its checkpoint says, never
// shorter.
func (h *head) snapshotVolume(ctx context.Context, n int, patience time.Duration) error {
	if len(h.plan.Checkpoint.Command) > 0 {
		writing, cancel := context.WithTimeout(ctx, patience)
		err := h.saveCommand(writing)
		cancel()
		if err != nil {
			return err
		}
	}
	calm, cancel := context.WithTimeout(ctx, patience+3*steady)
	defer cancel()
	target := protocol.SnapshotDir(h.n.config.Host.Dir, n)
	fresh, parts := target+".new", target+".parts"
	defer fsutil.RemoveAll(parts)
	if err := fsutil.RemoveAll(fresh); err != nil {
		return err
	}
	try := func() (bool, error) { return h.copyParts(ctx, parts) }
	if h.hasVolumeImage() {
		s, err := h.server()
		if err != nil {
			return err
		}
		try = func() (bool, error) { return h.tryImage(ctx, s, fresh) }
	}
	for {
		whole, err := try()
		if err != nil {
			return err
		}
		if whole {
			break
		}
		select {
		case <-time.After(steady):
		case <-calm.Done():
			return errRestless
		}
	}
	if !h.hasVolumeImage() {
		if err := h.addRest(ctx, parts, fresh); err != nil {
			return err
		}
	}
	return fsutil.Rename(fresh, target)
}

// wholeVolume is the pattern of all that is in it.
const wholeVolume = "."

// checkpointGlobs are what a checkpoint consists of, relative to the volume.
func (h *head) checkpointGlobs() []string {
	var globs []string
	for _, p := range h.plan.Checkpoint.Paths {
		p = path.Clean(p)
		if p == path.Clean(h.plan.Volume) {
			return []string{wholeVolume}
		}
		if rel, is := h.plan.InVolume(p); is {
			globs = append(globs, rel)
		}
	}
	if len(h.plan.Checkpoint.Paths) == 0 {
		return []string{wholeVolume}
	}
	return globs
}

// copyParts copies the files of a checkpoint, and tells whether nobody wrote to any of
// them meanwhile or shortly before.
func (h *head) copyParts(ctx context.Context, to string) (whole bool, err error) {
	globs := h.checkpointGlobs()
	before, err := h.look(ctx, globs)
	if err != nil {
		return false, err
	}
	if !slices.ContainsFunc(before, func(l look) bool { return l.Files > 0 }) {
		return false, errNothingYet
	}
	if slices.ContainsFunc(before, func(l look) bool { return l.Busy }) {
		return false, nil
	}
	if err := h.copyMatches(ctx, globs, to); err != nil {
		return false, err
	}
	if err := h.gatherAll(ctx, globs, to); err != nil {
		return false, err
	}
	after, err := h.look(ctx, globs)
	return slices.Equal(before, after), err
}

// addRest makes a copy of the whole volume of the files of a checkpoint and what else is
// there. What belongs to a checkpoint and has come since is not taken along.
func (h *head) addRest(ctx context.Context, parts, fresh string) error {
	globs, outputs := h.checkpointGlobs(), h.globsOf(h.plan.Outputs)
	if slices.Contains(globs, wholeVolume) {
		return fsutil.Rename(parts, fresh)
	}
	if err := treesync.Copy(ctx, protocol.VolumeDir(h.n.config.Host.Dir), fresh, nil); err != nil {
		return err
	}
	if err := h.gatherAll(ctx, outputs, fresh); err != nil {
		return err
	}
	return h.n.replaceMatches(globs, parts, fresh)
}

// copyMatches copies what patterns match in the volume to the same places below a new
// directory.
func (h *head) copyMatches(ctx context.Context, globs []string, to string) error {
	volume := protocol.VolumeDir(h.n.config.Host.Dir)
	tree, err := h.n.openTree(volume)
	if err != nil {
		return err
	}
	defer tree.Close()
	parts, err := partsOf(tree, globs)
	if err = errors.Join(err, fsutil.RemoveAll(to), fsutil.MkdirAll(to, 0o700)); err != nil {
		return err
	}
	if slices.Contains(parts, wholeVolume) {
		return treesync.Copy(ctx, volume, to, nil)
	}
	return treesync.CopyMany(ctx, volume, parts, to)
}

// replaceMatches puts the files of a checkpoint into a copy of the volume, in place of
// what the patterns match there.
func (n *node) replaceMatches(globs []string, parts, fresh string) error {
	into, err := n.openTree(fresh)
	if err != nil {
		return err
	}
	defer into.Close()
	from, err := n.openTree(parts)
	if err != nil {
		return err
	}
	defer from.Close()
	since, err := partsOf(into, globs)
	if err != nil {
		return err
	}
	for _, name := range since {
		if err := into.RemoveAll(name); err != nil {
			return err
		}
	}
	return layOver(from, into, ".")
}

// look is what the files of a checkpoint are like on one host at one moment.
type look struct {
	Files int `json:"files"`
	// Digest changes with every change of a file, and with what is there.
	Digest string `json:"digest"`
	// Busy tells that one was changed just before.
	Busy bool `json:"busy"`
}

// lookAt looks at what patterns match in a copy of the volume. Directories count, too: a
// file that was removed to be written anew has changed its directory.
func (n *node) lookAt(volume string, globs []string) (look, error) {
	tree, err := n.openTree(volume)
	if err != nil {
		return look{}, err
	}
	defer tree.Close()
	parts, err := partsOf(tree, globs)
	if err != nil {
		return look{}, err
	}
	var l look
	all := sha256.New()
	for _, rel := range parts {
		err := tree.Walk(rel, func(name string, info fs.FileInfo, err error) error {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) { // it is gone just now
				l.Busy = true
				return nil
			}
			if err != nil {
				return err
			}
			st, is := info.Sys().(*syscall.Stat_t)
			if !is {
				return errors.ErrUnsupported
			}
			if !info.IsDir() {
				l.Files++
			}
			// The time of the last change of its inode: that of its content can be set.
			l.Busy = l.Busy || time.Since(time.Unix(st.Ctim.Unix())) < steady
			fmt.Fprintf(all, "%q %d %d %d %d\n", name, st.Mode, st.Size, st.Ino, st.Ctim.Nano()) //nolint:errcheck // a hash takes all
			return nil
		})
		if err != nil {
			return look{}, err
		}
	}
	l.Digest = hex.EncodeToString(all.Sum(nil))
	return l, nil
}

// look looks at the files of a checkpoint in the volumes of all hosts, by rank.
func (h *head) look(ctx context.Context, list []string) ([]look, error) {
	looks, errs := make([]look, h.n.config.Size), make([]error, h.n.config.Size)
	h.each(func(rank int, p *rpc.Peer) {
		if rank == 0 {
			looks[0], errs[0] = h.n.lookAt(protocol.VolumeDir(h.n.config.Host.Dir), list)
		} else if h.ownVolume(rank) {
			looks[rank], errs[rank] = rpc.Call(ctx, p, callLook, globs{list})
		}
	})
	return looks, errors.Join(errs...)
}

// gatherAll brings what patterns match on other hosts to where what this one has of
// it is.
func (h *head) gatherAll(ctx context.Context, globs []string, into string) error {
	if len(globs) == 0 {
		return nil
	}
	for rank := 1; rank < h.n.config.Size; rank++ {
		if !h.ownVolume(rank) {
			continue
		}
		if err := h.gather(ctx, rank, globs, into); err != nil {
			return h.n.failed("copy the files of a checkpoint of", fmt.Errorf("%s: %w", h.nameOf(rank), err))
		}
	}
	return nil
}
