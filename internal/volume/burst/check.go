package burst

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/digest"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"golang.org/x/sync/errgroup"
)

// mostIndexed bounds the files of one answer of Index.
const mostIndexed = 2000

// Index gives published files with their digests, by number, after one number on. Of those without a
// digest, and of those with undrained changes, it gives how many there are, with the first answer.
func (v *Volume) Index(q calls.IndexRequest) calls.IndexReply {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	var inos []uint64
	r := calls.IndexReply{}
	v.journal.state.Nodes(func(n *meta.Node) {
		switch {
		case n.Kind != remote.File || !n.Linked() || n.Stays:
		case !n.Clean():
			r.Undrained++
		case n.Sum == "":
			r.Unknown++
		case n.Ino > q.After:
			inos = append(inos, n.Ino)
		}
	})
	slices.Sort(inos)
	r.More = len(inos) > mostIndexed
	for _, ino := range inos[:min(len(inos), mostIndexed)] {
		n := v.journal.state.Node(ino)
		if where, there := v.journal.state.RemotePath(n); there && v.names.moving(n) == nil {
			r.Files = append(r.Files, calls.Indexed{Ino: ino, Path: where, Version: n.Version, Sum: n.Sum})
		}
		r.Last = ino
	}
	return r
}

// Finding is what is wrong with a file on the remote.
type Finding string

// Findings.
const (
	// Missing is a file that is no longer there.
	Missing Finding = "missing"
	// Changed is a file that another program has changed.
	Changed Finding = "changed"
	// Damaged is a file of the size and time that was sent, with another content.
	Damaged Finding = "damaged"
)

// Checked is the result of a check.
type Checked struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// Undrained files have changes that the remote lacks, and Unknown ones were not written through
	// the volume: neither is compared.
	Undrained int64   `json:"undrained"`
	Unknown   int64   `json:"unknown"`
	Wrong     []Wrong `json:"wrong"`
}

// Wrong is a finding about a file.
type Wrong struct {
	Path    string  `json:"path"`
	Finding Finding `json:"finding"`
}

const (
	checkedAtOnce = 8
	// checkTimeout is how long a check retries a request to a remote that is away.
	checkTimeout = 2 * time.Minute
)

// Check reads all files of a remote of which the volume has a digest, and compares. peer is its I/O
// process, and report is called after each file.
func Check(ctx context.Context, peer *rpc.Peer, r remote.Remote, report func(Checked)) (Checked, error) {
	c := Checked{Wrong: []Wrong{}}
	results := make(chan func())
	var g errgroup.Group
	done := make(chan struct{})
	go func() {
		defer close(done)
		for f := range results {
			f()
			report(c)
		}
	}()
	var after uint64
	var err error
	g.SetLimit(checkedAtOnce)
	for first := true; ctx.Err() == nil; first = false {
		var page calls.IndexReply
		if page, err = rpc.Call(ctx, peer, calls.IndexCall, calls.IndexRequest{After: after}); err != nil {
			break
		}
		if first {
			c.Undrained, c.Unknown = page.Undrained, page.Unknown
		}
		for _, f := range page.Files {
			g.Go(func() error {
				finding, err := checkFile(ctx, peer, r, f)
				if err == nil {
					results <- func() {
						c.Files++
						c.Bytes += f.Version.Size
						if finding != "" {
							c.Wrong = append(c.Wrong, Wrong{f.Path, finding})
						}
					}
				}
				return err
			})
		}
		if after = page.Last; !page.More {
			break
		}
	}
	err = errors.Join(err, g.Wait(), ctx.Err())
	close(results)
	<-done
	slices.SortFunc(c.Wrong, func(a, b Wrong) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	})
	return c, err
}

// checkFile compares a file with its digest; "": nothing is wrong. What is not as the index has it may
// have been changed by a program that uses the volume: the index is asked again.
func checkFile(ctx context.Context, peer *rpc.Peer, r remote.Remote, f calls.Indexed) (Finding, error) {
	finding, err := compare(ctx, r, f)
	if finding == "" || err != nil {
		return "", err
	}
	again, err := rpc.Call(ctx, peer, calls.IndexCall, calls.IndexRequest{After: f.Ino - 1})
	if err != nil {
		return "", err
	}
	if len(again.Files) == 0 || again.Files[0] != f {
		return "", nil
	}
	return finding, nil
}

func compare(ctx context.Context, r remote.Remote, f calls.Indexed) (Finding, error) {
	var s remote.Source
	err := waited(ctx, func() (err error) { s, err = r.Open(f.Path); return err })
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fsutil.ErrNotPlain), errors.Is(err, fsutil.ErrOutside):
		return Missing, nil
	case err != nil:
		return "", fmt.Errorf("check %q: %w", f.Path, err)
	}
	defer s.Close()
	if s.Version() != f.Version {
		return Changed, nil
	}
	sum, err := digest.Of(ctx, f.Version.Size, nil, func(p []byte, off int64) error {
		for len(p) > 0 {
			n := 0
			err := waited(ctx, func() (err error) { n, err = s.Read(ctx, p, off); return err })
			if err == nil && n == 0 {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return err
			}
			p, off = p[n:], off+int64(n)
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrClosed), errors.Is(err, io.ErrUnexpectedEOF):
		return Changed, nil
	case err != nil:
		return "", fmt.Errorf("check %q: %w", f.Path, err)
	case sum == f.Sum:
		return "", nil
	}
	now, err := r.Stat(f.Path) // it may have been written to while it was read
	if err == nil && now.Version == f.Version {
		return Damaged, nil
	}
	return Changed, nil
}

// waited calls try until it succeeds, fails with what does not pass, or has failed for too long.
func waited(ctx context.Context, try func() error) error {
	pause := fsutil.Backoff{First: 100 * time.Millisecond, Longest: 5 * time.Second}
	begun := time.Now()
	for {
		err := try()
		if !passing(err) || core.IsKind(err, core.Permanent) || time.Since(begun) > checkTimeout {
			return err
		}
		if werr := pause.Wait(ctx); werr != nil {
			return errors.Join(err, werr)
		}
	}
}
