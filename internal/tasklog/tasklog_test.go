package tasklog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func create(t *testing.T) (*Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "output.log")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := New(f)
	t.Cleanup(func() { w.Close() })
	return w, path
}

func write(t *testing.T, w *Writer, s Stream, text string) {
	t.Helper()
	if err := w.Write(s, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func collect(t *testing.T, path string, offset int64) (out, errs string, next int64) {
	t.Helper()
	err := Read(context.Background(), path, offset, func(f Frame) error {
		if f.Stream == Stdout {
			out += string(f.Data)
		} else {
			errs += string(f.Data)
		}
		next = f.Next
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, errs, next
}

func TestReadGivesWhatWasWritten(t *testing.T) {
	w, path := create(t)
	write(t, w, Stdout, "one\n")
	write(t, w, Stderr, "oops\n")
	_, _, middle := collect(t, path, 0)
	write(t, w, Stdout, "two\n")
	if out, errs, _ := collect(t, path, 0); out != "one\ntwo\n" || errs != "oops\n" {
		t.Errorf("got %q and %q", out, errs)
	}
	if out, _, _ := collect(t, path, middle); out != "two\n" {
		t.Errorf("from the middle: %q", out)
	}
}

func TestLargeOutputIsCutIntoFrames(t *testing.T) {
	w, path := create(t)
	big := bytes.Repeat([]byte("x"), 3*maxData+17)
	if err := w.Write(Stdout, big); err != nil {
		t.Fatal(err)
	}
	if out, _, _ := collect(t, path, 0); len(out) != len(big) {
		t.Errorf("%d of %d bytes", len(out), len(big))
	}
}

func TestTornTailIsIgnored(t *testing.T) {
	w, path := create(t)
	write(t, w, Stdout, "whole\n")
	size := w.size
	write(t, w, Stdout, "torn away\n")
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := size; cut < w.size; cut++ {
		if err := os.WriteFile(path, all[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if out, _, next := collect(t, path, 0); out != "whole\n" || next != size {
			t.Fatalf("cut at %d: %q, next %d", cut, out, next)
		}
	}
}

func TestDamageIsAnError(t *testing.T) {
	w, path := create(t)
	write(t, w, Stdout, "whole\n")
	w.f.WriteAt([]byte{9}, 0) //nolint:errcheck // Read succeeds, then
	if err := Read(context.Background(), path, 0, func(Frame) error { return nil }); err == nil {
		t.Error("no error")
	}
}

func TestFollowersGetEverythingOnce(t *testing.T) {
	w, path := create(t)
	const writers, each = 4, 200
	var followers sync.WaitGroup
	for i := range 3 {
		followers.Go(func() {
			frames := 0
			err := w.Follow(context.Background(), path, 0, true, func(f Frame) error { frames++; return nil })
			if err != nil || frames != writers*each {
				t.Errorf("follower %d: %d frames, %v", i, frames, err)
			}
		})
	}
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for k := range each {
				if err := w.Write(Stdout, fmt.Appendf(nil, "%d %d\n", i, k)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	w.Close()
	followers.Wait()
}

func TestFollowEndsWithItsContext(t *testing.T) {
	w, path := create(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := w.Follow(ctx, path, 0, true, func(Frame) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestSendAndReceive(t *testing.T) {
	var b bytes.Buffer
	want := Frame{Stderr, 1<<24 - 1, time.Unix(5, 7), []byte("text"), 99}
	if err := Send(&b, want); err != nil {
		t.Fatal(err)
	}
	got, err := Receive(&b)
	if err != nil || got.Stream != want.Stream || !got.Time.Equal(want.Time) || string(got.Data) != "text" || got.Next != 99 || got.Case != want.Case {
		t.Fatalf("got %+v, %v", got, err)
	}
	if _, err := Receive(&b); err != io.EOF { //nolint:errorlint // bare, as promised
		t.Errorf("at the end: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 'x'})
	f.Add([]byte{2, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, raw []byte) {
		end, _ := read(bytes.NewReader(raw), 0, func(f Frame) error {
			if f.Next > int64(len(raw)) {
				t.Fatalf("a frame ends at %d of %d", f.Next, len(raw))
			}
			return nil
		})
		if end > int64(len(raw)) {
			t.Fatalf("read to %d of %d", end, len(raw))
		}
		r := bytes.NewReader(raw)
		for {
			if _, err := Receive(r); err != nil {
				return
			}
		}
	})
}
