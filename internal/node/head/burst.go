package head

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// Burst is a burst buffer that is mounted on this host. Its processes outlive the node.
type Burst interface {
	// Dir is where it is mounted.
	Dir() string
	// ID is that of the volume.
	ID() string
	// Join joins a connection with its I/O process, and returns once one of them has ended. ready is called
	// before something passes.
	Join(ctx context.Context, conn io.ReadWriteCloser, ready func() error) error
	// Checkpoint takes a checkpoint of what was written so far, and returns its number once the remote has
	// it. It is refused, as Busy, while some of it was changed just before. also are names that belong to
	// it, beside those that match its patterns.
	Checkpoint(ctx context.Context, also []string) (int, error)
	// Prefetch copies files that patterns match from the remote into the buffer.
	Prefetch(ctx context.Context, globs []string) (BurstPrefetched, error)
	// UseKeys has it use other credentials for its bucket from now on.
	UseKeys(ctx context.Context, keys core.BucketKeys) error
	// Abort has everything on it fail, so that no program waits for it any more.
	Abort()
	// Refused is why the remote refuses changes now. The error is about its I/O process.
	Refused(ctx context.Context) (BurstRefusal, error)
	// End unmounts it, and returns once the remote has everything, with the newest checkpoint there and
	// notes on what others have changed. What is undrained when ctx ends is an error, and stays in the
	// buffer.
	End(ctx context.Context, e BurstEnd) (checkpoint int, notes []string, err error)
}

// BurstPrefetched counts files that were copied into a burst buffer.
type BurstPrefetched struct {
	Files int
	Bytes int64
	Left  int // files for which there was no room
}

// BurstEnd is what becomes of a burst buffer.
type BurstEnd struct {
	// Checkpoint has the last thing that the remote gets be a checkpoint, to which the names Also belong, too.
	Checkpoint bool
	Also       []string
	// Over is whether the run needs its checkpoints no more. They are removed from the remote.
	Over bool
	// Succeeded is whether that is so once the remote has everything.
	Succeeded bool
}

// burstVolume is the run's volume, where that is a burst buffer.
type burstVolume struct {
	config  plan.Config
	plan    *plan.Plan
	journal *journal.Journal
	end     *ending
	node    Node
	volumes *volumes
	hosts   *hosts

	mu      sync.Mutex
	mounted Burst // nil: it is not; changed by the head alone

	prefetching sync.WaitGroup
	enough      context.CancelFunc // ends it; nil: it has not begun

	watching sync.WaitGroup
	seen     context.CancelFunc // ends it; nil: it has not begun
}

// mount mounts the run's volume, where that is a burst buffer, with what was staged. Then
// VolumeDir is empty, and gets the outputs in the end.
func (v *burstVolume) mount(ctx context.Context) error {
	if v.plan.Burst == nil {
		return nil
	}
	o := *v.plan.Burst
	o.Shared = v.config.Size > 1
	if o.Checkpoints = v.plan.Checkpoint != nil; o.Checkpoints {
		var err error
		if o.Number, err = v.continued(); err != nil {
			return err
		}
		if len(v.plan.Checkpoint.Paths) > 0 {
			o.Globs = checkpointGlobs(v.plan)
		}
	}
	b, err := v.node.MountBurst(ctx, o)
	if err != nil {
		return err
	}
	v.set(b)
	v.watch(b)
	if o.Number > 0 {
		v.journal.Say(core.PhaseStart, "the volume continues from its newest checkpoint on the remote, and fetches what is read")
	}
	v.journal.Say(core.PhaseStart, fmt.Sprintf("the volume is a burst buffer on this host's disk, and drained to %s", v.plan.Burst.Remote))
	if err := fill(ctx, plan.VolumeDir(v.config.Host.Dir), b.Dir()); err != nil {
		return err
	}
	v.prefetch(b)
	return nil
}

func (v *burstVolume) set(b Burst) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mounted = b
}

// mountOthers mounts the volume on the other hosts. Their clients have the I/O process of this one.
func (v *burstVolume) mountOthers(ctx context.Context) error {
	if v.mounted == nil || v.config.Size == 1 {
		return nil
	}
	r := peercall.MountRequest{ID: v.mounted.ID()}
	return v.hosts.all(func(_ int, p *rpc.Peer) error {
		_, err := rpc.Call(ctx, p, peercall.CallMount, r)
		return err
	})
}

// carry joins a node with the I/O process of the volume.
func (v *burstVolume) carry(ctx context.Context, _ rpc.Caller, _ rpc.None, a rpc.Answer[rpc.None]) error {
	v.mu.Lock()
	b := v.mounted
	v.mu.Unlock()
	if b == nil {
		return peercall.Refused(peercall.CallVolume.Name, errors.New("no burst buffer is mounted"))
	}
	return b.Join(ctx, a, func() error { return a.Reply(rpc.None{}) })
}

// continued removes the record of the checkpoint from which the attempt continues from what was staged, and
// gives the number of that checkpoint; 0: there is none.
func (v *burstVolume) continued() (int, error) {
	staged, err := fsutil.OpenRoot(plan.VolumeDir(v.config.Host.Dir))
	if err != nil {
		return 0, err
	}
	defer staged.Close()
	raw, err := staged.ReadFile(plan.BurstRecord, mostBurstRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	var c plan.BurstCheckpoint
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err == nil && (c.Number <= 0 || c.Remote != v.plan.Burst.Remote) {
		err = fmt.Errorf("it is number %d of %q", c.Number, c.Remote)
	}
	if err != nil {
		return 0, &core.Error{
			Kind: core.Permanent, Op: "continue from the checkpoint in", Object: v.plan.Burst.Remote, Err: err,
			Remedy: "A run continues with the `remote:` of its volume with which it was begun.",
		}
	}
	return c.Number, staged.RemoveAll(plan.BurstDir)
}

// mostBurstRecord bounds the record of a checkpoint, in bytes.
const mostBurstRecord = 1 << 16

// keep takes a checkpoint of the volume while the job runs, and leaves its record in a directory.
func (v *burstVolume) keep(ctx context.Context, into string) error {
	also, files, err := v.files(ctx)
	if err != nil {
		return err
	}
	number, err := v.mounted.Checkpoint(ctx, also)
	if err != nil {
		return err
	}
	return v.record(into, number, files)
}

// record leaves the record of a checkpoint in a new directory, or an empty one.
func (v *burstVolume) record(into string, number int, files string) error {
	raw, err := json.Marshal(plan.BurstCheckpoint{Remote: v.plan.Burst.Remote, Number: number})
	if err != nil {
		return err
	}
	if err := fsutil.MkdirAll(into, 0o700); err != nil {
		return err
	}
	dir, err := fsutil.OpenRoot(into)
	if err != nil {
		return err
	}
	defer dir.Close()
	if files == "" { // what changed is not known: something may have
		files = fmt.Sprintln(number)
	}
	return errors.Join(dir.MkdirAll(plan.BurstDir, 0o700), dir.WriteFile(plan.BurstRecord, raw, 0o600), dir.WriteFile(plan.BurstFiles, []byte(files), 0o600))
}

// files lists the files of `checkpoint.paths`, with what changes when they do; "" without these. also are
// names to which only links lead. What programs have written to maps of these files is in the buffer then.
func (v *burstVolume) files(ctx context.Context) (also []string, list string, err error) {
	if len(v.plan.Checkpoint.Paths) == 0 {
		return nil, "", nil
	}
	tree, err := v.volumes.trees().Open(v.mounted.Dir())
	if err != nil {
		return nil, "", err
	}
	defer tree.Close()
	globs := checkpointGlobs(v.plan)
	parts, err := snapshot.Parts(tree, globs)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.New()
	for _, part := range parts {
		if !snapshot.Named(part, globs) {
			also = append(also, part)
		}
		if err := tree.Sync(ctx, part); err != nil {
			return nil, "", err
		}
		err := tree.Walk(part, func(name string, info fs.FileInfo, err error) error {
			if err == nil && !info.IsDir() {
				fmt.Fprintf(sum, "%q %v %d %d\n", name, info.Mode(), info.Size(), info.ModTime().UnixNano())
			}
			return err
		})
		if err != nil {
			return nil, "", err
		}
	}
	return also, hex.EncodeToString(sum.Sum(nil)) + "\n", nil
}

// fill moves what was staged into a volume, in the place of files of the same names. What else is in
// the volume stays.
func fill(ctx context.Context, staged, volume string) error {
	from, err := fsutil.OpenRoot(staged)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := fsutil.OpenRoot(volume)
	if err != nil {
		return err
	}
	defer to.Close()
	err = from.Walk(".", func(name string, info fs.FileInfo, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case info.IsDir():
			return to.MkdirAll(name, info.Mode().Perm())
		}
		if err := to.Unlink(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		switch {
		case info.Mode().IsRegular():
			return fillFile(from, to, name, info)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := from.Readlink(name)
			if err != nil {
				return err
			}
			return to.Symlink(target, name)
		}
		return nil
	})
	if err != nil {
		return peercall.FailedOn("this host", "copy inputs into the volume of", err)
	}
	names, err := from.ReadDir(".")
	for _, name := range names {
		err = errors.Join(err, from.RemoveAll(name))
	}
	return err
}

func fillFile(from, to *fsutil.Root, name string, info fs.FileInfo) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.Create(name, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return to.SetTime(name, info.ModTime())
}

// dir is the directory of this host that containers have as the run's volume.
func (v *burstVolume) dir() string {
	if v.mounted != nil {
		return v.mounted.Dir()
	}
	return plan.VolumeDir(v.config.Host.Dir)
}

// unmount copies what patterns match from the burst buffer to VolumeDir, unmounts it, and waits until
// it is drained: as long as nobody asks the attempt to end, and then for its grace. Where the job has
// written its checkpoint, unmount leaves the record of that in VolumeDir instead.
func (v *burstVolume) unmount(globs []string, e BurstEnd) error {
	if v.mounted == nil {
		return nil
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer context.AfterFunc(v.end.over, func() {
		time.AfterFunc(v.plan.Grace, func() { cancel(context.Cause(v.end.over)) })
	})()
	defer context.AfterFunc(ctx, v.mounted.Abort)() // so that nothing here waits for a client which hangs
	v.endPrefetch()
	files := ""
	var cerr error
	if e.Checkpoint {
		e.Also, files, cerr = v.files(ctx)
	} else {
		cerr = v.takeOutputs(ctx, globs)
	}
	e.Succeeded = e.Succeeded && cerr == nil
	v.journal.Enter(core.PhaseDrain)
	v.journal.Say(core.PhaseDrain, "draining the volume to "+v.plan.Burst.Remote)
	number, notes, err := v.mounted.End(ctx, e)
	v.endWatch()
	v.journal.End(core.PhaseDrain)
	for _, note := range notes {
		v.journal.Remark(core.PhaseRun, note)
	}
	v.set(nil)
	if err = errors.Join(err, cerr); err == nil && e.Checkpoint {
		err = v.record(plan.VolumeDir(v.config.Host.Dir), number, files)
	}
	return err
}

func (v *burstVolume) takeOutputs(ctx context.Context, globs []string) error {
	volume := v.mounted.Dir()
	tree, err := v.volumes.trees().Open(volume)
	if err != nil {
		return err
	}
	defer tree.Close()
	parts, err := snapshot.Parts(tree, globs)
	if err != nil {
		return err
	}
	if len(parts) == 1 && parts[0] == snapshot.Whole {
		if parts, err = tree.ReadDir("."); err != nil {
			return err
		}
	}
	return treesync.CopyMany(ctx, volume, parts, plan.VolumeDir(v.config.Host.Dir))
}
