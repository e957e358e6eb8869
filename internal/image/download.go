package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/image/source"
	"github.com/bee-hpc/bee/internal/image/unpack"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"golang.org/x/sys/unix"
)

const (
	// maxTries is how often a transfer is taken up again without a byte gained.
	maxTries   = 6
	firstPause = 200 * time.Millisecond
	lastPause  = 10 * time.Second
)

// errDamaged is the cause where a layer is not what its digest says.
var errDamaged = errors.New("its content does not have that digest")

// download is a layer that comes into blobs. It can be read while it comes.
type download struct {
	dir      directory
	log      *slog.Logger
	layer    source.Layer
	progress func(int64)

	mu    sync.Mutex
	more  sync.Cond
	file  *os.File
	have  int64
	over  bool // nothing more comes
	old   bool // the cache had it: whether it is what its digest says was not looked at
	err   error
	ended chan struct{}
}

func newDownload(dir directory, log *slog.Logger, l source.Layer, progress func(int64)) *download {
	d := &download{dir: dir, log: log, layer: l, progress: progress, ended: make(chan struct{})}
	d.more.L = &d.mu
	return d
}

// run brings the layer. Readers see what has come so far; the digest is known
// to be right when run gives nil.
func (d *download) run(ctx context.Context) error {
	err := d.bring(ctx)
	d.mu.Lock()
	d.over, d.err = true, err
	d.more.Broadcast()
	d.mu.Unlock()
	close(d.ended)
	return err
}

func (d *download) set(f *os.File, have int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.file, d.have = f, have
	d.more.Broadcast()
}

func (d *download) bring(ctx context.Context) error {
	final := d.dir.path("blobs", d.layer.Digest)
	if d.isThere(final) {
		return nil
	}
	part := d.dir.path("partial", d.layer.Digest)
	// A part is locked by who brings it; others wait, and then have it.
	f, err := lockFile(ctx, part, unix.LOCK_EX)
	if err != nil {
		return err
	}
	if d.isThere(final) {
		f.Close()
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err == nil && st.Nlink == 0 {
		f.Close() // its last holder removed it
		return d.bring(ctx)
	}
	sum := sha256.New()
	have, err := io.Copy(sum, f)
	if err != nil {
		f.Close()
		return err
	}
	if have > d.layer.Size {
		have = 0
		sum.Reset()
		if err := f.Truncate(0); err != nil {
			f.Close()
			return err
		}
	}
	d.set(f, have)
	d.progress(have)
	if err := d.transfer(ctx, f, sum); err != nil {
		return err
	}
	if digestOf(sum) != d.layer.Digest {
		fsutil.TryRemove(part) // who brings it next finds it damaged, then
		return d.damaged()
	}
	return os.Rename(part, final)
}

// isThere opens the layer if the cache has it: open, it stays readable even
// if another process removes it. One of another size is brought again.
func (d *download) isThere(final string) bool {
	f, err := os.Open(final)
	if err != nil {
		return false
	}
	if info, err := f.Stat(); err != nil || info.Size() != d.layer.Size {
		f.Close()
		return false
	}
	d.mu.Lock()
	d.old = true
	d.mu.Unlock()
	d.set(f, d.layer.Size)
	d.progress(d.layer.Size)
	return true
}

// blame finds out whether an error of unpacking is the layer's own, or comes
// from content that is not what the digest says, which is known at its end.
func (d *download) blame(ctx context.Context, err error) error {
	d.mu.Lock()
	coming := !d.over && !d.old
	d.mu.Unlock()
	if _, certain := errors.AsType[*core.Error](err); certain && coming {
		return err
	}
	select {
	case <-d.ended:
	case <-ctx.Done():
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case d.err != nil:
		return d.err
	case d.old && !d.sound():
		fsutil.TryRemove(d.dir.path("blobs", d.layer.Digest)) // the next try shows it
		return d.damaged()
	}
	return broken(d.layer, err)
}

// sound reports whether a layer that the cache had is what its digest says: power
// that failed may have left it without its content.
func (d *download) sound() bool {
	sum := sha256.New()
	_, err := io.Copy(sum, io.NewSectionReader(d.file, 0, d.layer.Size))
	return err == nil && digestOf(sum) == d.layer.Digest
}

func digestOf(sum hash.Hash) string { return "sha256:" + hex.EncodeToString(sum.Sum(nil)) }

func (d *download) damaged() error {
	return &core.Error{Kind: core.Transient, Op: "fetch layer", Object: d.layer.Digest, Err: errDamaged, Remedy: "Pull again; should it stay so, the registry has a damaged layer."}
}

// transfer brings what is missing, from where it stopped, with pauses between
// the tries that grow as long as nothing comes.
func (d *download) transfer(ctx context.Context, f *os.File, sum hash.Hash) error {
	backoff := fsutil.Backoff{First: firstPause, Longest: lastPause}
	for tries := 0; d.have < d.layer.Size; tries++ {
		before := d.have
		err := d.stretch(ctx, f, sum)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if d.have > before {
			tries = 0
			backoff.Reset()
		}
		if tries+1 >= maxTries || !passing(err) {
			return fmt.Errorf("fetch layer %s: %w", d.layer.Digest, err)
		}
		d.log.Debug("layer came only in part", "layer", d.layer.Digest, "have", d.have, "of", d.layer.Size, "err", err)
		if err := backoff.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stretch is one transfer, from what we have to wherever it ends.
func (d *download) stretch(ctx context.Context, f *os.File, sum hash.Hash) error {
	r, err := d.layer.Open(ctx, d.have)
	if r != nil {
		defer r.Close()
	}
	if errors.Is(err, source.ErrFromStart) {
		_, err = io.CopyN(io.Discard, r, d.have)
	}
	if err != nil {
		return err
	}
	buf := make([]byte, 256<<10)
	for d.have < d.layer.Size {
		n, err := r.Read(buf[:min(int64(len(buf)), d.layer.Size-d.have)])
		if n > 0 {
			if _, err := f.WriteAt(buf[:n], d.have); err != nil {
				return &core.Error{Kind: core.Permanent, Op: "store layer", Object: d.layer.Digest, Err: err, Remedy: unpack.RemedyFull}
			}
			sum.Write(buf[:n])
			d.set(f, d.have+int64(n))
			d.progress(int64(n))
		}
		if err != nil && d.have < d.layer.Size {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// passing reports whether trying again may help.
func passing(err error) bool {
	if t, ok := errors.AsType[*transport.Error](err); ok {
		return t.StatusCode >= 500 || t.StatusCode == http.StatusTooManyRequests || t.StatusCode == http.StatusRequestTimeout || t.StatusCode == http.StatusUnauthorized
	}
	_, ours := errors.AsType[*core.Error](err)
	return !ours
}

// reader reads the layer from its start, waiting for what has not come yet.
func (d *download) reader(ctx context.Context) io.ReadCloser {
	r := &follower{d: d}
	r.stop = context.AfterFunc(ctx, func() { r.Close() })
	return r
}

type follower struct {
	d      *download
	at     int64
	closed bool
	stop   func() bool
}

func (r *follower) Read(b []byte) (int, error) {
	d := r.d
	d.mu.Lock()
	for !r.closed && r.at >= d.have && !d.over {
		d.more.Wait()
	}
	f, have, over, err, closed := d.file, d.have, d.over, d.err, r.closed
	d.mu.Unlock()
	switch {
	case closed:
		return 0, fs.ErrClosed
	case r.at < have:
		n, err := f.ReadAt(b[:min(int64(len(b)), have-r.at)], r.at)
		r.at += int64(n)
		return n, err
	case err != nil:
		return 0, err
	case over:
		return 0, io.EOF
	}
	return 0, io.ErrNoProgress
}

// Close ends a Read that waits.
func (r *follower) Close() error {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.closed = true
	r.d.more.Broadcast()
	return nil
}

// end closes the file; a part of it stays for the next pull.
func (d *download) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.file != nil {
		d.file.Close()
	}
}
