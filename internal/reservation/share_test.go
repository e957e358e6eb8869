package reservation

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// TestASharedPromise is there as long as one of its holders is.
func TestASharedPromise(t *testing.T) {
	l := ledger(t)
	p := New("first", 0)
	p.Cores, p.Site = 2, "/scratch"
	name, why, err := l.Share(p, func(others []Reservation) error { return nil })
	if name == "" || why != nil || err != nil {
		t.Fatalf("%q, %v, %v", name, why, err)
	}
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), joinVariable+"="+l.Path(name))
	in, err1 := other.StdinPipe()
	out, err2 := other.StdoutPipe()
	if err := errors.Join(err1, err2, other.Start()); err != nil {
		t.Fatal(err)
	}
	if printed := answer(t, out); printed != "joined" {
		t.Fatalf("the other process: %q", printed)
	}
	forget := func() { // as when this process ends
		shares.Lock()
		defer shares.Unlock()
		shares.files[l.Path(name)].Close()
		delete(shares.files, l.Path(name))
	}
	forget()
	if got := held(t, l); !slices.Equal(got, []string{"first"}) {
		t.Errorf("while the other holds it: %q", got)
	}
	for range 2 {
		if !l.Join(name) {
			t.Error("it cannot be joined again")
		}
	}
	if err := errors.Join(in.Close(), other.Wait()); err != nil {
		t.Fatal(err)
	}
	if got := held(t, l); !slices.Equal(got, []string{"first"}) {
		t.Errorf("while this process holds it: %q", got)
	}
	forget()
	if got := held(t, l); len(got) != 0 {
		t.Errorf("nobody holds it: %q", got)
	}
	if l.Join(name) {
		t.Error("one that is gone was joined")
	}
	if name, _, err = l.Share(p, func([]Reservation) error { return nil }); err != nil {
		t.Fatal(err)
	}
	l.Drop(name)
	if got := held(t, l); len(got) != 0 || l.Join(name) {
		t.Errorf("one that was dropped: %q", got)
	}
	for _, name := range []string{"", "../x.promise", "lock", "/etc/passwd"} {
		if l.Join(name) {
			t.Errorf("joined %q", name)
		}
		l.Drop(name)
	}
}

func TestWhatRunsHaveReserved(t *testing.T) {
	all := []Reservation{{Run: "a", Bytes: 10, Site: "/s", Cores: 1}, {Run: "a", Bytes: 4}, {Run: "a", Bytes: 4}, {Run: "b", Site: "/s"}, {Run: "b", Bytes: 5}, {Run: "c", Bytes: 7, Site: "/t"}}
	for _, c := range []struct {
		but  string
		jobs bool
		want int64
	}{{"", false, 22}, {"a", false, 12}, {"b", false, 17}, {"", true, 17}} {
		if got, runs := Reserved(all, c.but, c.jobs); got != c.want || slices.Contains(runs, c.but) {
			t.Errorf("but for %q: %d by %q, want %d", c.but, got, runs, c.want)
		}
	}
	if got := Guests(all); len(got) != 3 {
		t.Errorf("guests: %+v", got)
	}
}
