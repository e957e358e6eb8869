package mount

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/wire"
)

// AfarOptions are those of BeginAfar.
type AfarOptions struct {
	// ID is that of the volume, Remote what it is drained to, and Owner the attempt whose it is.
	ID, Remote string
	Owner      core.Owner
	// Record is the directory of the client's record, and Dir the one to mount at. Both are made.
	Record, Dir string
	// Everyone and Private are as in burst.Config.
	Everyone, Private bool
	Binary            string
	// Dial connects with the I/O process, on its host.
	Dial func(ctx context.Context) (io.ReadWriteCloser, error)
}

// Afar is a volume that is mounted on this host, and whose I/O process is on another one.
type Afar struct {
	config   burst.Config
	client   *client
	lock     *fsutil.Lock // of the record: a sweep leaves it alone
	listener net.Listener
	cancel   context.CancelFunc
	joins    atomic.Int32 // connections of the client with the I/O process
}

// BeginAfar mounts a volume whose I/O process is on another host. Its client connects through this process,
// which has the way there, and fails for good a while after this process has ended.
func BeginAfar(ctx context.Context, o AfarOptions) (*Afar, error) {
	if err := errors.Join(fsutil.OwnDir(filepath.Dir(o.Dir)), fsutil.OwnDir(filepath.Dir(o.Record))); err != nil {
		return nil, err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(o.Dir))
	if err != nil {
		return nil, err
	}
	o.Dir = filepath.Join(parent, filepath.Base(o.Dir))
	if err := Unmount(ctx, o.Dir); err != nil { // of an attempt before
		return nil, err
	}
	lock, err := clearedRecord(ctx, o.Record)
	if err != nil {
		return nil, err
	}
	if err := fsutil.OwnDir(o.Dir); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &Afar{
		config: burst.Config{
			ID: o.ID, Remote: o.Remote, Mount: o.Dir, Everyone: o.Everyone, Private: o.Private, Shared: true, Afar: true, Dir: o.Record,
			Of: o.Owner.Run, Installation: o.Owner.User, Attempt: o.Owner.Attempt,
		}, lock: lock, cancel: cancel,
	}
	if err = a.config.Save(); err == nil {
		a.listener, err = a.config.Listen()
	}
	if err == nil {
		go new(wire.Gate).Serve(a.listener, func(conn net.Conn, known func() bool) {
			if known() { // the socket is in a directory of its user's own
				a.joins.Add(1)
				defer a.joins.Add(-1)
				join(life, conn, o.Dial)
			}
		})
		a.client, err = startClient(ctx, a.config, o.Binary)
	}
	if err != nil {
		a.close()
		lock.Unlock()
		fsutil.TryRemove(o.Dir) // it is empty, and no reason of the failure
		return nil, err
	}
	return a, nil
}

// clearedRecord makes the directory of a client's record, which an attempt before may have left, and locks that.
func clearedRecord(ctx context.Context, dir string) (*fsutil.Lock, error) {
	if err := fsutil.OwnDir(dir); err != nil {
		return nil, err
	}
	most, cancel := context.WithTimeout(ctx, mostLeaving)
	defer cancel()
	c := burst.Config{Dir: dir}
	lock, err := fsutil.LockFile(most, c.LockPath())
	if err != nil && most.Err() != nil && ctx.Err() == nil {
		err = &core.Error{Kind: core.Busy, Op: "mount volume", Object: dir, Err: errors.New("the node of an attempt before runs, and has this record"), Remedy: core.RemedyShow}
	}
	if err != nil {
		return nil, err
	}
	names, err := os.ReadDir(dir)
	for _, name := range names {
		if path := filepath.Join(dir, name.Name()); path != c.LockPath() {
			err = errors.Join(err, fsutil.RemoveAll(path))
		}
	}
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return lock, nil
}

// join joins a connection of the client with the I/O process. One that fails is lost, and the client tries again.
func join(ctx context.Context, conn net.Conn, dial func(ctx context.Context) (io.ReadWriteCloser, error)) {
	far, err := dial(ctx)
	if err != nil {
		conn.Close()
		return
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	core.BestEffort(wire.Splice(conn, far)) // both ends notice its end
}

// Dir is the directory at which the volume is mounted.
func (a *Afar) Dir() string { return a.config.Mount }

// Abort is as that of an Attempt.
func (a *Afar) Abort() { a.client.end() }

// End unmounts the volume. What has returned to programs is with the I/O process.
func (a *Afar) End(ctx context.Context) error {
	if err := unmounted(ctx, a.config.Mount); err != nil {
		return err
	}
	a.left(ctx)
	a.Abort() // it has ended, unless it hangs
	a.close()
	return errors.Join(fsutil.RemoveAll(a.config.Dir), a.lock.Unlock())
}

// goneTime bounds the wait for the end of a client's session.
const goneTime = 5 * time.Second

// left waits until the client has ended its session: else the I/O process expects it back.
func (a *Afar) left(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, goneTime)
	defer cancel()
	pause := fsutil.Backoff{First: 5 * time.Millisecond, Longest: 100 * time.Millisecond}
	for a.joins.Load() > 0 && pause.Wait(ctx) == nil {
	}
}

func (a *Afar) close() {
	a.cancel()
	if a.listener != nil {
		a.listener.Close()
	}
}
