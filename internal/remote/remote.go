// Package remote fetches files of web servers and of buckets to this machine, and stores
// files in buckets.
//
// No server is believed. What comes goes to a file beside the one that is wanted, which
// appears once it is whole and has its digest. A connection that breaks, or on which nothing
// comes, is made again, and the rest is asked for. Nothing is fetched from addresses that a
// server on the internet has no business to name.
//
// The package knows nothing of runs and Beefiles.
package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// File is one that can be fetched.
type File struct {
	// URL of a file behind https; "": it is in a bucket.
	URL                       string
	Bucket, Key               string
	Endpoint, Region, Profile string
	// SHA256 is its digest in lower case. It may be "" for an object of a bucket.
	SHA256 string
	// Tag is the version of an object that is wanted; "": any.
	Tag string
	// Signed is what the URL of an object carries that its bucket has signed, called Name: it
	// may be http, and leads nowhere else. The URL is in no message.
	Signed bool
	Name   string
	// Away is set where another machine fetches it than the user's, whose own servers are not
	// that one's.
	Away bool
	// Most bounds its size, in bytes; 0: the disk does.
	Most int64
}

// String names a file in messages.
func (f File) String() string {
	if f.Name != "" {
		return f.Name
	}
	if f.URL != "" {
		return f.URL
	}
	return "s3://" + f.Bucket + "/" + f.Key
}

// How connections that break are dealt with: pauses, how often one may fail of which nothing
// has come, how often one may break in all, and for how long nothing may come.
const (
	firstPause  = 500 * time.Millisecond
	longPause   = 15 * time.Second
	mostFailed  = 10
	mostBroken  = 200
	stalledTime = time.Minute
)

// Fetcher fetches files.
type Fetcher struct {
	// Stalled is for how long nothing may come by a connection; 0: a minute.
	Stalled time.Duration
	// Pause is the first between two tries; 0: half a second.
	Pause time.Duration
	// Failed is how often a try may fail of which nothing has come; 0: ten times.
	Failed int
}

// Got is what was fetched.
type Got struct {
	Size int64
	// Tag is the version of an object; "": not known.
	Tag string
}

// Fetch stores a file at a path whose directory exists and is the caller's. A file that is
// there already was fetched before. Invalid: it is not the one of the digest. NotFound: there
// is none. Transient: it did not come; what has come is used the next time.
func (f *Fetcher) Fetch(ctx context.Context, file File, to string, progress func(done int64)) error {
	if is, err := fsutil.Exists(to); is || err != nil {
		return err
	}
	_, err := f.fetch(ctx, file, to, progress)
	return err
}

func (f *Fetcher) fetch(ctx context.Context, file File, to string, progress func(done int64)) (Got, error) {
	from, err := open(ctx, file)
	if err != nil {
		return Got{}, err
	}
	part, err := openPart(to, file)
	if err != nil {
		return Got{}, err
	}
	defer part.close()
	err = f.fetchPart(ctx, file, from, part, progress)
	return Got{part.size, part.have.Tag}, err
}

func (f *Fetcher) fetchPart(ctx context.Context, file File, from source, part *part, progress func(done int64)) error {
	if progress == nil {
		progress = func(int64) {}
	}
	stalled := f.Stalled
	if stalled == 0 {
		stalled = stalledTime
	}
	t := transfer{file: file, from: from, part: part, progress: progress, stalled: stalled}
	backoff := fsutil.Backoff{First: firstPause, Longest: longPause}
	if f.Pause > 0 {
		backoff.First = f.Pause
	}
	failed, broken, again := 0, 0, false
	for {
		err := t.once(ctx)
		if err == nil {
			if err = t.check(ctx); err == nil {
				return part.finish()
			}
			if !errors.Is(err, errDigest) {
				return err
			}
			if !t.resumed || again {
				return errors.Join(err, part.reset())
			}
			// Two versions may have been joined: a server need not say that it has another.
			again, t.resumed = true, false
			if err := part.reset(); err != nil {
				return err
			}
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !core.IsKind(err, core.Transient) {
			return err
		}
		if failed++; t.came {
			failed = 0
			backoff.Reset()
		}
		if broken++; failed >= cmp.Or(f.Failed, mostFailed) || broken >= mostBroken {
			return err
		}
		if err := backoff.Wait(ctx); err != nil {
			return err
		}
	}
}

// version is what a server says of the content that it sends.
type version struct {
	// Tag is a strong validator, and Modified a date; "": none.
	Tag      string `json:"tag,omitempty"`
	Modified string `json:"modified,omitempty"`
	// Total is its size in bytes; -1: not known.
	Total int64 `json:"total"`
}

// other reports whether content of another version was sent. What is not known is no
// difference.
func (v version) other(w version) bool {
	return v.Tag != "" && w.Tag != "" && v.Tag != w.Tag || v.Total >= 0 && w.Total >= 0 && v.Total != w.Total
}

// answer is what a server sends.
type answer struct {
	body io.ReadCloser
	from int64 // where in the content it begins
	version
}

// source is where a file comes from.
type source interface {
	// open asks for the content from an offset on. It may begin at 0 all the same. errGone:
	// the server has not what follows that offset.
	open(ctx context.Context, from int64, have version) (answer, error)
}

// errGone is the cause where content cannot be continued, and has to be fetched again.
var errGone = errors.New("the server has another content by now")

// errDigest is the cause where something else came than what was wanted.
var errDigest = errors.New("its content is another one")

// transfer is one file on its way.
type transfer struct {
	file     File
	from     source
	part     *part
	progress func(int64)
	stalled  time.Duration
	came     bool // something, by the last connection
	resumed  bool // in the middle of the file
}

// once asks for what is missing, and takes what comes.
func (t *transfer) once(ctx context.Context) error {
	t.came = false
	if t.part.size == t.part.have.Total {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(t.stalled, func() { cancel(t.broke(fmt.Errorf("nothing came for %s", t.stalled))) })
	defer watch.Stop()
	a, err := t.from.open(ctx, t.part.size, t.part.have)
	if errors.Is(err, errGone) {
		return errors.Join(t.broke(err), t.part.reset())
	}
	if err != nil {
		return causeOr(ctx, err)
	}
	defer a.body.Close()
	if a.from > 0 && t.part.have.other(a.version) {
		return errors.Join(t.broke(errGone), t.part.reset())
	}
	if a.from == 0 && t.part.size > 0 {
		if err := t.part.reset(); err != nil {
			return err
		}
	}
	t.resumed = t.resumed || a.from > 0
	if err := t.part.is(a.version); err != nil {
		return err
	}
	for buf := make([]byte, 256<<10); ; {
		n, err := a.body.Read(buf)
		watch.Reset(t.stalled)
		if n > 0 {
			t.came = true
			if total := a.Total; total >= 0 && t.part.size+int64(n) > total {
				return errors.Join(&core.Error{
					Kind: core.Permanent, Op: "fetch", Object: t.file.String(), Err: fmt.Errorf("the server announced %d bytes and sends more", total),
					Remedy: "Its server is not to be trusted: take the file from elsewhere.",
				}, t.part.reset())
			}
			if most := t.file.Most; most > 0 && t.part.size+int64(n) > most {
				return errors.Join(&core.Error{
					Kind: core.Permanent, Op: "fetch", Object: t.file.String(), Err: fmt.Errorf("it has more than the %d bytes for which there is room", most),
					Remedy: "Free some space.",
				}, t.part.reset())
			}
			if werr := t.part.write(buf[:n]); werr != nil {
				return werr
			}
			t.progress(t.part.size)
		}
		switch {
		case errors.Is(err, io.EOF) && a.Total >= 0 && t.part.size < a.Total:
			return t.broke(fmt.Errorf("the server has sent %d of %d bytes", t.part.size, a.Total))
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return causeOr(ctx, t.broke(err))
		}
	}
}

// causeOr is the reason why a connection was ended here, or else its error.
func causeOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); core.IsKind(cause, core.Transient) {
		return cause
	}
	return err
}

func (t *transfer) broke(err error) error {
	return &core.Error{Kind: core.Transient, Op: "fetch", Object: t.file.String(), Err: err, Remedy: "Does its server answer? Run the job again once it does."}
}

// check compares what has come with its digest.
func (t *transfer) check(ctx context.Context) error {
	if t.file.SHA256 == "" {
		return nil
	}
	got, err := t.part.digest(ctx)
	if err == nil && got != t.file.SHA256 {
		err = &core.Error{
			Kind: core.Invalid, Op: "fetch", Object: t.file.String(), Err: fmt.Errorf("%w: its sha256 is %s, expected %s", errDigest, got, t.file.SHA256),
			Remedy: "The file was changed, or the digest is that of another one. If you trust the new file, write its digest to `sha256:`.",
		}
	}
	return err
}

// part is what has come of a file. It survives the process.
type part struct {
	to   string
	f    *os.File
	size int64
	have version
}

func (p *part) path() string   { return p.to + ".part" }
func (p *part) record() string { return p.to + ".version" }

// openPart opens what has come of a file, or makes it.
func openPart(to string, file File) (*part, error) {
	p := &part{to: to, have: version{Total: -1}}
	raw, err := fsutil.ReadFile(filepath.Dir(to), filepath.Base(p.record()), 1<<16)
	known := err == nil && json.Unmarshal(raw, &p.have) == nil
	if p.f, err = os.OpenFile(p.path(), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if p.size, err = p.f.Seek(0, io.SeekEnd); err == nil && (!known || file.SHA256 == "" && p.have.Tag == "" || p.have.Total >= 0 && p.size > p.have.Total) {
		err = p.reset()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *part) close() { p.f.Close() }

// is records of which version it is a part.
func (p *part) is(v version) error {
	if v == p.have {
		return nil
	}
	raw, err := json.Marshal(v)
	if err == nil {
		err = fsutil.WriteFile(p.record(), raw, 0o600)
	}
	p.have = v
	return err
}

func (p *part) write(data []byte) error {
	n, err := p.f.Write(data)
	p.size += int64(n)
	return err
}

// reset forgets what has come.
func (p *part) reset() error {
	p.size, p.have = 0, version{Total: -1}
	err := p.f.Truncate(0)
	if err == nil {
		_, err = p.f.Seek(0, io.SeekStart)
	}
	if rerr := os.Remove(p.record()); !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

func (p *part) digest(ctx context.Context) (string, error) {
	h := sha256.New()
	in := io.NewSectionReader(p.f, 0, p.size)
	for {
		if _, err := io.CopyN(h, in, 16<<20); errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		} else if err != nil {
			return "", err
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
}

// finish gives the file its name.
func (p *part) finish() error {
	err := p.f.Sync()
	if err == nil {
		err = fsutil.Rename(p.path(), p.to)
	}
	if rerr := os.Remove(p.record()); !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// open finds the way to a file; it does not try it.
func open(ctx context.Context, file File) (source, error) {
	if file.URL != "" {
		return newWeb(file)
	}
	return newObject(ctx, file)
}
