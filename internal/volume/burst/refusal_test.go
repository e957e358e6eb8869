package burst

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// errnos are what a program gets from an fsync and from a close.
func (b *bench) errnos(ino uint64) (got [2]syscall.Errno) {
	h := &handler{volume: b.Volume, client: 1}
	for i, op := range []calls.Op{calls.Fsync, calls.Flush} {
		got[i] = syscall.Errno(h.answer(b.Context(), &calls.Request{ID: 1, Op: op, Ino: ino}).Errno)
	}
	return got
}

// refused waits until the remote refuses what is drained, with a reason that is final or not.
func (b *bench) refused(final bool) calls.Status {
	b.Helper()
	var s calls.Status
	testkit.Eventually(b.T, 20*time.Second, func() error {
		if s = b.Status(); s.Refused == nil || s.Refused.Final != final {
			return fmt.Errorf("%+v, refused: %+v", s, s.Refused)
		}
		return nil
	})
	return s
}

// TestRefusals: what waiting cannot mend is an error of fsync and close, with its reason in the status. Nothing
// is lost: it is drained once the reason is mended.
func TestRefusals(t *testing.T) {
	for errno, want := range map[syscall.Errno]remote.Reason{
		syscall.EACCES: remote.Denied, syscall.EPERM: remote.Denied, syscall.EROFS: remote.ReadOnly, syscall.EFBIG: remote.TooLarge,
		syscall.ENOSPC: remote.Full, syscall.EDQUOT: remote.Quota,
	} {
		t.Run(errno.Error(), func(t *testing.T) {
			b := start(t, Options{timeout: time.Nanosecond})
			b.file("drained", "text")
			b.drained()
			b.gate.set(&fs.PathError{Op: "write", Path: "f", Err: errno})
			b.file("f", "text")
			s := b.refused(true)
			if s.Refused.Reason != want || s.Refused.Remedy == "" || s.Waits == "" || s.Undrained != 4 || s.Seconds != nil {
				t.Errorf("%+v, refused: %+v", s, s.Refused)
			}
			if err := Refusal(s); !core.IsKind(err, core.Permanent) || core.Remedy(err) == "" {
				t.Errorf("the error of a wait: %v", err)
			}
			at := map[string]uint64{}
			for _, name := range []string{"drained", "f"} {
				a, err := b.names.Lookup(t.Context(), meta.Root, name)
				b.must(err)
				at[name] = a.Ino
			}
			if got, want := b.errnos(at["f"]), s.Refused.Reason.Errno(); got != [2]syscall.Errno{want, want} {
				t.Errorf("fsync and close of a file that is refused: %v", got)
			}
			if got := b.errnos(at["drained"]); got != [2]syscall.Errno{} {
				t.Errorf("fsync and close of a file that the remote has: %v", got)
			}
			b.gate.set(nil)
			_, err := b.PublishAll()
			b.must(err)
			b.drained()
			if s := b.Status(); s.Refused != nil || s.Waits != "" || s.Seconds == nil {
				t.Errorf("drained: %+v", s)
			}
			if got := b.errnos(at["f"]); got != [2]syscall.Errno{} {
				t.Errorf("fsync and close of a file that is drained: %v", got)
			}
			b.has(map[string]string{"drained": "text", "f": "text"})
		})
	}
}

// TestRefusalsThatMayPass: a remote without room is shown at once, and is an error after a while. One that is
// away is no refusal, whatever its cause.
func TestRefusalsThatMayPass(t *testing.T) {
	b := start(t, Options{timeout: time.Hour})
	b.gate.set(syscall.ENOSPC)
	b.file("f", "text")
	s := b.refused(false)
	a, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	if got := b.errnos(a.Ino); s.Refused.Reason != remote.Full || got != [2]syscall.Errno{} {
		t.Errorf("a remote that was just full: %+v, %v", s.Refused, got)
	}
	for _, err := range []error{remote.Away(syscall.EACCES), syscall.EIO, errors.New("the line is cut")} {
		b.gate.set(err)
		testkit.Eventually(t, 20*time.Second, func() error {
			if s := b.Status(); s.Refused != nil || s.Waits != err.Error() {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
	}
	b.gate.set(nil)
	b.drained()
}

// TestRefusalsOfAFullBuffer: writers do not wait for room that a remote refuses to make.
func TestRefusalsOfAFullBuffer(t *testing.T) {
	b := start(t, Options{Room: 8 << 20})
	b.gate.set(syscall.EROFS)
	b.file("first", "text")
	b.refused(true)
	a, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "large", Mode: 0o600})
	b.must(err)
	block := bytes.Repeat([]byte("x"), 1<<20)
	for i := range int64(32) {
		if err = b.Write(t.Context(), a.Ino, i<<20, block); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.EROFS) {
		t.Errorf("a write into a full buffer: %v", err)
	}
}

// TestRefusalsOfBuckets have reasons by the codes of servers.
func TestRefusalsOfBuckets(t *testing.T) {
	server := s3server.StartFound(t)
	var answer atomic.Pointer[[2]string] // status and code
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		a := answer.Load()
		if a == nil || r.Method == http.MethodGet && a[1] != "NoSuchBucket" {
			forward.ServeHTTP(w, r)
			return
		}
		status := 0
		fmt.Sscan(a[0], &status) //nolint:errcheck // it is a number, below
		w.WriteHeader(status)
		core.BestEffort(fmt.Fprintf(w, "<Error><Code>%s</Code><Message>so it is</Message></Error>", a[1])) // its client may have gone
	})
	b := startBucket(t, server, Options{At: remote.Place{Endpoint: proxy}, timeout: time.Nanosecond})
	b.foreign("there", "before")
	i := 0
	for answered, want := range map[[2]string]remote.Reason{
		{"403", "AccessDenied"}: remote.Denied, {"403", "QuotaExceeded"}: remote.Quota, {"507", "XMinioStorageFull"}: remote.Full,
		{"413", "Other"}: remote.TooLarge, {"400", "EntityTooLarge"}: remote.TooLarge, {"404", "NoSuchBucket"}: remote.Missing,
	} {
		i++
		a, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: fmt.Sprint("f", i), Mode: 0o600})
		b.must(err)
		_, err = b.OpenFile(t.Context(), who{}, a.Ino, false)
		b.must(err)
		answer.Store(&answered)
		b.must(b.Write(t.Context(), a.Ino, 0, []byte("text")))
		b.must(b.Flush(a.Ino))
		b.must(b.Release(0, a.Ino, 1))
		if s := b.refused(true); s.Refused.Reason != want {
			t.Errorf("%v: %+v, %s", answered, s.Refused, s.Waits)
		}
		if want == remote.Missing {
			if _, err = b.names.Lookup(t.Context(), meta.Root, "there"); !errors.Is(err, syscall.ENXIO) {
				t.Errorf("looking at a file of no bucket: %v", err)
			}
		}
		answer.Store(nil)
		_, err = b.PublishAll()
		b.must(err)
		b.drained()
	}
}

// TestRates of reads and writes follow what programs do, and programs that write into a full buffer count as
// delayed.
func TestRates(t *testing.T) {
	var r rate
	now := time.Now()
	for range 600 { // a minute
		now = now.Add(100 * time.Millisecond)
		r.add(100_000, now)
	}
	if got := r.now(now); got < 950_000 || got > 1_050_000 {
		t.Errorf("%d bytes a second instead of a million", got)
	}
	if got := r.now(now.Add(time.Minute)); got > 100 {
		t.Errorf("%d bytes a second after a minute of nothing", got)
	}
	var c traffic
	c.write(10, 0)
	c.write(5, time.Second)
	c.hit(2)
	c.miss(1)
	var s calls.Status
	c.describe(&s)
	if s.Written != 15 || s.Delayed != 5 || s.Hits != 2 || s.Misses != 1 || s.WriteRate == 0 {
		t.Errorf("%+v", s)
	}
}
