package replica

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
)

// calmRecord is a record without faults, which names a leader.
func calmRecord(c Configuration) seenBy {
	r := rand.New(rand.NewPCG(1, 1)) // not secret
	return seenBy{&record{n: newNetwork(r), r: r, c: c, terms: map[int]string{}, calm: true, check: func(int, Configuration) {}}, 0}
}

// TestLateReplacements: a replacement without an answer that arrives late changes nothing after the next one, even
// where that has left everything as it was.
func TestLateReplacements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := calmRecord(Configuration{Term: 1, Leader: "a"})
		_, old, err := s.Read()
		if err != nil {
			t.Fatal(err)
		}
		late := Configuration{Term: 2, Leader: "a", Copies: []string{"b"}} // the copy is lost before it arrives
		if c, err := settle(t.Context(), s, "a", nil); err != nil || len(c.Copies) > 0 || c.Term != 2 {
			t.Errorf("%+v, %v", c, err)
		}
		if err := s.Replace(old, late); !errors.Is(err, fs.ErrExist) {
			t.Errorf("it has arrived: %v", err)
		}
	})
}

// TestOneOfTwoLeads: a leader that continues without its follower, and the follower, at once.
func TestOneOfTwoLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := calmRecord(Configuration{Term: 4, Leader: "a", Copies: []string{"b"}})
		alone, leads := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := settle(t.Context(), s, "a", nil)
			alone <- err
		}()
		go func() {
			_, err := takeover(t.Context(), s, "b", func() {})
			leads <- err
		}()
		a, b := <-alone, <-leads
		if (a == nil) == (b == nil) || a != nil && !errors.Is(a, ErrReplaced) || b != nil && !errors.Is(b, ErrExcluded) {
			t.Errorf("%v and %v", a, b)
		}
	})
}

// TestResume: a process that starts again leads at once where nobody else has its data, after a while where nobody of
// the others comes, and never where one of them leads.
func TestResume(t *testing.T) {
	for name, c := range map[string]struct {
		before Configuration
		other  bool // leads meanwhile
		waits  bool
		err    error
	}{
		"alone":          {before: Configuration{Leader: "a"}},
		"others died":    {before: Configuration{Leader: "a", Copies: []string{"b"}}, waits: true},
		"all died":       {before: Configuration{Leader: "b", Copies: []string{"a"}}, waits: true},
		"another leads":  {before: Configuration{Leader: "b"}, err: ErrExcluded},
		"another is to ": {before: Configuration{Leader: "a", Copies: []string{"b"}}, other: true, waits: true, err: ErrExcluded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := calmRecord(c.before)
				if c.other {
					go func() {
						time.Sleep(2 * time.Second)
						if _, err := takeover(t.Context(), s, "b", func() {}); err != nil {
							t.Error(err)
						}
					}()
				}
				begun := time.Now()
				err := Resume(t.Context(), s, "a", Usual.Restart)
				if !errors.Is(err, c.err) {
					t.Error(err)
				}
				if waited := time.Since(begun) >= time.Second; waited != c.waits {
					t.Errorf("it waited for %v", time.Since(begun))
				}
				if s.c.Leader == "a" && err != nil || err == nil && (s.c.Leader != "a" || len(s.c.Copies) > 0) {
					t.Errorf("%+v", s.c)
				}
			})
		})
	}
}

// TestAwayRemotes: nothing is written while the remote cannot be read, so that a leader may come back.
func TestAwayRemotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := calmRecord(Configuration{Leader: "a", Copies: []string{"b"}})
		s.n.setCut(0, remote, true)
		if _, err := takeover(t.Context(), s, "b", func() { t.Error("it stops confirming") }); !errors.Is(err, errAway) {
			t.Error(err)
		}
	})
}

// FuzzFrames reads whatever a process sends: frames that are as they were written, or an error.
func FuzzFrames(f *testing.F) {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	at := buffer.Position{Segment: 3, At: 99}
	for _, err := range []error{
		writePiece(w, buffer.Piece{At: at, Bytes: []byte("bytes")}), writePiece(w, buffer.Piece{At: at, Index: []byte("index"), Kept: []uint64{1, 3}}),
		writeNote(w, []byte("note")), writeAsk(w, 7, true), numbers(w, frameDrained), w.Flush(),
	} {
		if err != nil {
			f.Fatal(err)
		}
	}
	r := bufio.NewReader(bytes.NewReader(b.Bytes()))
	var got []frame
	for range 5 {
		one, err := readFrame(r)
		if err != nil {
			f.Fatal(err)
		}
		got = append(got, one)
	}
	if got[0].piece.At != at || string(got[0].piece.Bytes) != "bytes" || string(got[1].piece.Index) != "index" || !slices.Equal(got[1].piece.Kept, []uint64{1, 3}) ||
		string(got[2].note) != "note" || got[3].round != 7 || !got[3].durable || got[4].kind != frameDrained {
		f.Fatalf("%+v", got)
	}
	f.Add(b.Bytes())
	f.Add([]byte{frameHave, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := bufio.NewReader(bytes.NewReader(raw))
		for {
			one, err := readFrame(r)
			if err != nil {
				break
			}
			if len(one.piece.Bytes) > pieceSize || len(one.note) > mostNote || one.piece.At.At < 0 {
				t.Fatalf("%+v", one)
			}
		}
		r = bufio.NewReader(bytes.NewReader(raw))
		for range 100 {
			if _, at, err := readHave(r); err != nil || at.At < 0 {
				break
			}
		}
	})
}

// TestWaitsEnd with the process.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLeader(LeaderOptions{ID: "a", Store: calmRecord(Configuration{Leader: "a"}), Timing: Usual})
		l.followers["b"] = &follower{id: "b", required: true, heard: time.Now()}
		ended := make(chan error, 1)
		go func() { ended <- l.Confirm(context.Background(), false) }()
		synctest.Wait()
		l.Stop()
		if err := <-ended; err == nil {
			t.Error("it was confirmed")
		}
	})
}
