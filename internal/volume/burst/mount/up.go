package mount

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"golang.org/x/sys/unix"
)

// Options of Up.
type Options struct {
	Volumes string // directory of the records
	Remote  string // as the user has written it
	At      remote.Place
	Dir     string // to mount at
	Buffer  string // directory for the journal; "": beside the record
	Room    int64  // 0: half of what is free there, at most MostRoom
	Rate    int64  // bytes per second; 0: no bound
	Protect bool   // what was on the remote before is neither changed nor removed
	Local   []string
	// Shared is whether hosts beside this one use it, by BeginAfar.
	Shared bool
	// Everyone is whether programs of other users can use it, by the permissions of its files.
	// Root alone may want that.
	Everyone bool
	// Relay connects with the submitting machine, which passes requests for the bucket on; nil: they do not pass it.
	Relay func(ctx context.Context) (io.ReadWriteCloser, error)
	// Keys gives the credentials for the bucket that the user has sent, as they are now; nil: none were sent.
	Keys func() *core.BucketKeys
	// Private and Alone are as in burst.Config.
	Private, Alone bool
	Binary         string
	// Owner is the attempt of the run whose volume it is. Run, Globs and Number are as in burst.Config.
	Owner  core.Owner
	Run    string
	Globs  []string
	Number int
}

// MostRoom and LeastRoom bound the room of a journal.
const (
	MostRoom  = 100 << 30
	LeastRoom = 16 << 20
)

func refuse(op, object string, why error, remedy string) error {
	return &core.Error{Kind: core.Invalid, Op: op, Object: object, Err: why, Remedy: remedy}
}

// directory gives the path of a directory without links, which must be there.
func directory(op, name string) (string, error) {
	real, err := filepath.EvalSymlinks(name)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(real)
	}
	if err == nil && !info.IsDir() {
		err = errors.New("it is no directory")
	}
	if err != nil {
		return "", refuse(op, name, err, "Name a directory that is there.")
	}
	return real, nil
}

func within(dir, name string) bool {
	rel, err := filepath.Rel(dir, name)
	return err == nil && filepath.IsLocal(rel)
}

// Up mounts a remote at a directory, and returns when programs can use it. Its processes
// outlive this one, but for the client of a private mount. A remote that had a volume here has the same one again.
func Up(ctx context.Context, o Options) (burst.Config, error) {
	c, _, err := up(ctx, o)
	return c, err
}

func up(ctx context.Context, o Options) (c burst.Config, client *client, err error) {
	if c, err = prepare(ctx, o); err != nil {
		return c, nil, err
	}
	if err := c.Save(); err != nil {
		return c, nil, err
	}
	if o.Relay != nil {
		if err := c.ServeRelay(o.Relay); err != nil {
			return c, nil, err
		}
	}
	peer, err := c.Connect(ctx, o.Binary)
	if err == nil {
		client, err = startClient(ctx, c, o.Binary)
		peer.Close()
	}
	if err == nil {
		return c, client, nil
	}
	// A volume that has nothing leaves nothing. An I/O process that still drains it leaves
	// it, too, and a missing buffer is reported already.
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	if _, cerr := Clean(cctx, c, false); cerr != nil && cctx.Err() == nil && !errors.Is(cerr, fs.ErrNotExist) {
		err = errors.Join(err, cerr)
	}
	return c, nil, err
}

// cleanTime bounds the wait for the I/O process of a volume that could not be mounted.
const cleanTime = 10 * time.Second

func prepare(ctx context.Context, o Options) (c burst.Config, err error) {
	if o.At.Bucket == "" && o.At.Host == "" {
		if o.Remote, err = directory("use remote", o.At.Dir); err != nil {
			return c, err
		}
		o.At.Dir = o.Remote
	}
	if err := dead(o.Dir); err != nil {
		return c, err
	}
	if o.Dir, err = directory("mount at", o.Dir); err != nil {
		return c, err
	}
	here := o.At.Dir // "": elsewhere
	if o.At.Host != "" {
		here = ""
	}
	if here != "" && (within(here, o.Dir) || within(o.Dir, here)) {
		return c, refuse("mount at", o.Dir, fmt.Errorf("it is, contains or is in the remote %s", o.Remote), "Name a directory beside the remote.")
	}
	if at, err := At(o.Dir); err != nil || at != "" {
		return c, errors.Join(err, &core.Error{Kind: core.Busy, Op: "mount at", Object: o.Dir, Err: fmt.Errorf("volume %s is mounted there", at), Remedy: "Unmount it first: `bee volume umount " + o.Dir + "`."})
	}
	if list, err := os.ReadDir(o.Dir); err != nil || len(list) > 0 {
		return c, errors.Join(err, refuse("mount at", o.Dir, errors.New("it is not empty"), "Name an empty directory."))
	}
	all, err := burst.All(o.Volumes)
	if err != nil {
		return c, err
	}
	for _, other := range all {
		if other.At == o.At && !other.Superseded {
			c = other
		}
	}
	isNew := c.ID == ""
	if c.Run != "" && c.Run != o.Run {
		return c, &core.Error{
			Kind: core.Busy, Op: "use remote", Object: o.Remote, Err: fmt.Errorf("volume %s of run %s has it", c.ID, c.Run),
			Remedy: "Wait until that run is over. `bee volume recover " + c.Remote + "` drains what is undrained.",
		}
	}
	if isNew {
		c.ID = burst.NewID()
		c.Dir, c.Remote, c.At = filepath.Join(o.Volumes, c.ID), o.Remote, o.At
		c.Place = filepath.Join(c.Dir, burst.BufferName)
		if o.Buffer != "" {
			c.Place = filepath.Join(o.Buffer, "bee-volume-"+c.ID)
		}
	} else if o.Buffer != "" && filepath.Dir(c.Place) != o.Buffer {
		return c, refuse("use buffer", o.Buffer, fmt.Errorf("volume %s of this remote has its buffer at %s", c.ID, c.Place), "Mount it without --buffer.")
	}
	if c.Mount != "" {
		if err := dead(c.Mount); err != nil {
			return c, err
		}
	}
	at, err := publicAt(ctx, "use remote", c)
	if err != nil {
		return c, err
	}
	if at != "" {
		return c, &core.Error{Kind: core.Busy, Op: "use remote", Object: o.Remote, Err: fmt.Errorf("it is mounted at %s", at), Remedy: "Use it there, or unmount it: `bee volume umount " + at + "`."}
	}
	if within(o.Dir, c.Place) || here != "" && within(here, c.Place) {
		return c, refuse("use buffer", c.Place, errors.New("it is in the volume itself"), "Name another directory by --buffer.")
	}
	c.Of, c.Installation, c.Attempt = o.Owner.Run, o.Owner.User, o.Owner.Attempt
	c.Keys, c.Sent, c.Relay = newest(o.Keys), o.Keys != nil, o.Relay != nil
	c.Run, c.Globs, c.Number = o.Run, o.Globs, o.Number
	c.Mount, c.Rate, c.Protect, c.Local, c.Everyone, c.Private, c.Alone, c.Shared = o.Dir, o.Rate, o.Protect, o.Local, o.Everyone, o.Private, o.Alone, o.Shared
	if c.Room, err = room(c.Place, o.Room); err != nil {
		return c, err
	}
	if isNew { // a missing buffer of an older volume is a disk that is not mounted
		err = fsutil.OwnDir(c.Place)
	}
	return c, err
}

// dead unmounts a directory whose client was killed.
func dead(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if at, err := At(dir); err != nil || at == "" {
		return err
	}
	if _, err := os.Stat(dir); err == nil || !gone(err) {
		return nil
	}
	return Unmount(context.Background(), dir)
}

// room gives the room of a journal.
func room(place string, asked int64) (int64, error) {
	dir := place
	for {
		if there, err := fsutil.Exists(dir); err != nil || there {
			break
		}
		dir = filepath.Dir(dir)
	}
	free, err := free(dir)
	if err != nil {
		return 0, err
	}
	switch {
	case asked == 0 && free/2 < LeastRoom, asked > free:
		return 0, &core.Error{Kind: core.Busy, Op: "use buffer", Object: place, Err: fmt.Errorf("its file system has %d MiB free", free>>20), Remedy: "Free some, or name another directory by --buffer."}
	case asked == 0:
		return min(free/2, MostRoom), nil
	case asked < LeastRoom:
		return 0, refuse("read --disk", fmt.Sprintf("%d bytes", asked), fmt.Errorf("less than %d MiB", LeastRoom>>20), "Give at least 16M.")
	}
	return asked, nil
}

// Down unmounts a volume, and waits for its client to end.
func Down(ctx context.Context, c burst.Config) error {
	at, err := publicAt(ctx, "unmount volume", c)
	if err != nil || at == "" {
		return err
	}
	return Unmount(ctx, at)
}

// Find gives the volume that a word means: its directory, its remote, or its id.
func Find(volumes, word string) (burst.Config, error) {
	all, err := burst.All(volumes)
	if err != nil {
		return burst.Config{}, err
	}
	path, err := filepath.Abs(word)
	if err != nil {
		return burst.Config{}, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path // where the client was killed nothing can be looked at
	}
	names := []string{word, path, real}
	for _, superseded := range []bool{false, true} { // such a volume comes last
		for _, c := range all {
			if c.Superseded == superseded && (c.ID == word || slices.Contains(names[1:], c.Mount) || slices.Contains(names, c.Remote)) {
				return c, nil
			}
		}
	}
	return burst.Config{}, &core.Error{Kind: core.NotFound, Op: "find volume", Object: fmt.Sprintf("%q", word), Err: errors.New("no volume of yours on this host is mounted there, or has that remote"), Remedy: "`bee volume status` lists them."}
}

// Recover gives the volume of a dead attempt: its directory, its remote, its id, or the directory of
// its buffer, of whatever installation that was. A volume that a living client has mounted is Busy. One that is Sent needs
// credentials of this process.
func Recover(ctx context.Context, volumes, word string) (burst.Config, error) {
	c, err := Find(volumes, word)
	if core.IsKind(err, core.NotFound) {
		return left(volumes, word, err)
	}
	if err != nil {
		return c, err
	}
	at, err := publicAt(ctx, "recover volume", c)
	if err != nil {
		return c, err
	}
	if at != "" {
		if err := unusedAt(ctx, c, at); err != nil {
			return c, err
		}
	}
	if !c.Relay {
		return c, nil
	}
	now, err := burst.Load(c.Dir) // its I/O process may have changed it meanwhile
	if err != nil {
		return c, err
	}
	now.Relay, now.Sent = false, true // its node has gone
	return now, now.Save()
}

// unusedAt unmounts a volume whose client is dead. One that is alive is Busy.
func unusedAt(ctx context.Context, c burst.Config, at string) error {
	if _, err := os.Stat(at); err == nil || !gone(err) {
		return &core.Error{Kind: core.Busy, Op: "recover volume", Object: c.Remote, Err: fmt.Errorf("it is in use at %s", at), Remedy: "Nothing of it is dead: `bee volume drain " + at + "` waits until it is drained."}
	}
	return Unmount(ctx, at)
}

// left makes a volume of this installation of the buffer in a directory. otherwise is the error where
// none is there.
func left(volumes, dir string, otherwise error) (burst.Config, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return burst.Config{}, otherwise
	}
	place, err := directory("recover volume", dir)
	if err != nil {
		return burst.Config{}, err
	}
	c, err := burst.Left(place)
	if errors.Is(err, fs.ErrNotExist) {
		err = refuse("recover volume", place, errors.New("it is no buffer of a volume"), "Name the directory of a buffer, such as bee-volume-1a2b3c4d: `bee volume ls` prints where buffers are.")
	}
	if err != nil {
		return c, err
	}
	all, err := burst.All(volumes)
	if err != nil {
		return c, err
	}
	for _, known := range all {
		if known.ID != c.ID {
			continue
		}
		if there, err := fsutil.Exists(known.Place); err != nil || there && known.Place != place {
			return c, errors.Join(err, &core.Error{Kind: core.Busy, Op: "recover volume", Object: place, Err: fmt.Errorf("volume %s has its buffer at %s", c.ID, known.Place), Remedy: "This one is a copy. Keep it until `bee volume drain " + known.Remote + "` has succeeded."})
		}
	}
	if _, err := burst.Inspect(place); err != nil { // a process of the other installation may have it open
		return c, err
	}
	c.Dir = filepath.Join(volumes, c.ID)
	return c, c.Save()
}

// Clean removes what a drained volume has left on this host: its record and its buffer.
// It reports whether that was so. One with conflicts stays unless they were reported.
func Clean(ctx context.Context, c burst.Config, reported bool) (bool, error) {
	lock, err := fsutil.LockFile(ctx, c.LockPath())
	if c.Alone && errors.Is(err, fs.ErrNotExist) {
		return true, nil // its I/O process has done so
	}
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	now, err := burst.Load(c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a removal that was broken off has deleted it first
		return false, err
	}
	if err == nil && now.Owner() != c.Owner() {
		return false, &core.Error{Kind: core.Busy, Op: "remove buffer", Object: c.Dir, Err: fmt.Errorf("attempt %s has it now", now.Owner()), Remedy: core.RemedyShow}
	}
	if there, err := fsutil.Exists(c.Place); c.Alone && err == nil && !there {
		return true, fsutil.RemoveAll(c.Dir)
	}
	s, err := burst.Inspect(c.Place)
	if err != nil || !s.Drained || len(s.Conflicts) > 0 && !reported {
		return false, err
	}
	return true, c.Remove()
}

// Forget removes the record of a volume whose buffer is missing, as another installation has recovered
// it, or its disk is lost. The remote then has no record of the volume, either, unless a run has its
// checkpoints there. Of a superseded volume, the buffer is removed, too; where that has the only copy of
// something, only by force.
func Forget(ctx context.Context, c burst.Config, far remote.Opener, force bool) error {
	refused := func(why string) error {
		return &core.Error{Kind: core.Busy, Op: "forget volume", Object: c.Remote, Err: errors.New(why), Remedy: "Drain it: `bee volume umount " + c.Remote + "`."}
	}
	if at, err := usedAt(ctx, c); err != nil {
		return err
	} else if at != "" {
		return refused("it is mounted at " + at)
	}
	lock, err := c.Lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	there, err := fsutil.Exists(c.Place)
	if err != nil {
		return err
	}
	if c.Superseded { // the remote is another volume's
		if there && !force {
			s, err := burst.Inspect(c.Place)
			if err == nil && !s.Drained {
				err = fmt.Errorf("%d changes in its buffer are nowhere else", s.Changes)
			}
			if err != nil {
				return &core.Error{
					Kind: core.Busy, Op: "forget volume", Object: c.ID, Err: err,
					Remedy: "`bee volume export " + c.ID + " DIRECTORY` saves its files. `bee volume forget --force " + c.ID + "` deletes them.",
				}
			}
		}
		return errors.Join(c.Forget(), fsutil.RemoveAll(c.Place), fsutil.RemoveAll(c.Dir))
	}
	if there {
		return refused("its buffer is at " + c.Place)
	}
	if c.Run != "" && !c.Over { // its checkpoints are on the remote, and its next attempt takes the record over
		return errors.Join(c.Forget(), fsutil.RemoveAll(c.Dir))
	}
	r, err := c.OpenRemote(far)
	if err != nil {
		return err
	}
	defer r.Close()
	defer context.AfterFunc(ctx, r.Stop)()
	if err := burst.Leave(r, c); err != nil {
		return err
	}
	return errors.Join(c.Forget(), fsutil.RemoveAll(c.Dir))
}

// gone reports whether the client of a mount has died.
func gone(err error) bool { return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED) }

func free(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, nil // less than 2^63 bytes
}
