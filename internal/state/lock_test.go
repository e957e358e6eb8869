package state

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/procid"
)

// TestNudgeSignalsOnlyTheHolder: the number in a lock may be another process's by now,
// or here, where several machines share the directory.
func TestNudgeSignalsOnlyTheHolder(t *testing.T) {
	self, err := procid.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text  func(innocent procid.ID) string
		told  bool // this process, which holds the lock
		where string
	}{
		"itself":                {text: func(procid.ID) string { return self.String() + "\nhere\n" }, told: true},
		"on another machine":    {text: func(i procid.ID) string { i.Boot = "another"; return i.String() + "\nlogin2\n" }, where: "login2"},
		"before, by its number": {text: func(i procid.ID) string { i.Start--; return i.String() + "\nhere\n" }},
		"as it was, itself":     {text: func(i procid.ID) string { return strconv.Itoa(self.PID) }, told: true},
		"as it was, a number":   {text: func(i procid.ID) string { return strconv.Itoa(i.PID) }},
		"nothing yet":           {text: func(procid.ID) string { return "" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			innocent := exec.Command("sleep", "3600")
			if err := innocent.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- innocent.Wait() }()
			t.Cleanup(func() { innocent.Process.Kill(); <-ended }) //nolint:errcheck // it may have ended
			id, err := procid.Of(innocent.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			l, err := s.Locks().Acquire("run1")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Unlock()
			if err := os.WriteFile(s.Locks().path("run1"), []byte(c.text(id)), 0o600); err != nil {
				t.Fatal(err)
			}
			told := make(chan os.Signal, 1)
			signal.Notify(told, syscall.SIGTERM)
			defer signal.Stop(told)
			if is, err := s.Locks().Nudge("run1"); err != nil || !is {
				t.Errorf("got %v and %v, want that a process controls the run", is, err)
			}
			if where := s.Locks().Elsewhere("run1"); where != c.where {
				t.Errorf("it is said to be on %q, want %q", where, c.where)
			}
			// A signal that comes must not be missed, and one that does not is waited for
			// until another one has come after it.
			if !c.told {
				syscall.Kill(self.PID, syscall.SIGTERM) // then the test waits without success
			}
			<-told
			time.Sleep(50 * time.Millisecond)
			select {
			case err := <-ended:
				ended <- err
				t.Errorf("an innocent process ended: %v", err)
			default:
			}
		})
	}
}

func TestTheLockSaysWhoHasItAndWhere(t *testing.T) {
	s := open(t, t.TempDir())
	l, err := s.Locks().Acquire("run1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	self, err := procid.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if got, is := holder(s.Locks().path("run1")); got != self || is != host || err != nil {
		t.Errorf("got %v on %q (%v), want %v on %q", got, is, err, self, host)
	}
	if err := os.WriteFile(s.Locks().path("run1"), fmt.Appendf(nil, "%d 1 another\nlogin2\n", self.PID), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Locks().Acquire("run1"); !core.IsKind(err, core.Busy) || !strings.Contains(err.Error(), "login2") {
		t.Errorf("got %v, want that one on login2 has it", err)
	}
}

func TestStoppingNamesWhatIsToEnd(t *testing.T) {
	s := open(t, t.TempDir())
	want := map[string]bool{}
	for _, st := range []RunState{Queued, Running, Suspended, Succeeded, Failed, Stopped} {
		put(t, s, Run{Name: "left alone", State: st})
		r := put(t, s, Run{Name: "asked", State: st})
		if err := s.Requests().AskStop(t.Context(), r.ID); err != nil {
			t.Fatal(err)
		}
		if !st.Final() {
			want[r.ID] = true
		}
	}
	ids, err := s.Requests().Stopping(t.Context())
	for _, id := range ids {
		if !want[id] {
			t.Errorf("%s is not to end", id)
		}
	}
	if err != nil || len(ids) != len(want) {
		t.Errorf("got %v and %v, want %v", ids, err, want)
	}
}

func BenchmarkStopping(b *testing.B) {
	s, err := Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for range 1000 {
		if err := s.PutRun(b.Context(), Run{ID: NewID(), Created: time.Now(), State: Queued, Submission: make([]byte, 8<<10)}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := s.Requests().Stopping(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
