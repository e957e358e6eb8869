package retention

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

const testKey = "a key that nobody guesses"

func sampleTicket(change func(*Ticket)) Ticket {
	owner := core.Owner{User: "abcdefgh", Run: "bcdefghi", Attempt: 2}
	t := Ticket{
		Installation: "abcdefgh", Machine: "laptop", Key: []byte("key of nodes"), Run: state.Run{ID: "bcdefghi", Submission: []byte(`{}`)},
		Attempts: []state.Attempt{
			{N: 1, Site: "a", State: state.Closed, Verdict: state.Again},
			{N: 2, Site: "rack", State: state.Computing, Started: time.Now(), Lease: &core.Handle{Driver: "ssh", Owner: owner}},
		},
	}
	change(&t)
	return t
}

func TestSealedTickets(t *testing.T) {
	sealed, err := SealTicket(sampleTicket(func(*Ticket) {}), testKey)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("bcdefghi")) {
		t.Error("the run's id can be read")
	}
	opened, err := OpenTicket("file", sealed, testKey)
	if err != nil || opened.Run.ID != "bcdefghi" || !bytes.Equal(opened.Key, []byte("key of nodes")) {
		t.Fatalf("got %+v, %v", opened, err)
	}
	changed := slices.Clone(sealed)
	changed[len(changed)-20] ^= 1
	salted := slices.Clone(sealed)
	salted[len(ticketMark)] ^= 1
	for name, c := range map[string]struct {
		sealed []byte
		key    string
	}{
		"another key":       {sealed, testKey + "."},
		"a short key":       {sealed, "guessed"},
		"no key":            {sealed, ""},
		"a changed byte":    {changed, testKey},
		"a changed salt":    {salted, testKey},
		"the mark alone":    {[]byte(ticketMark), testKey},
		"no seal":           {sealed[:len(ticketMark)+saltSize], testKey},
		"an empty file":     {nil, testKey},
		"another file":      {[]byte("name: small\n"), testKey},
		"one that is large": {append([]byte(ticketMark), make([]byte, MostTicket)...), testKey},
	} {
		if got, err := OpenTicket("file", c.sealed, c.key); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" || got.Run.ID != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestOpenAttempt(t *testing.T) {
	open, earlier, err := sampleTicket(func(t *Ticket) { t.Attempts[1].Binary, t.Attempts[1].Span = "../..", time.Hour }).OpenAttempt()
	if err != nil || open.N != 2 || open.State != state.Computing || !open.TaskBegan || open.Lease == nil || string(open.Key) != "key of nodes" || open.Binary != "" || len(earlier) != 1 || !earlier[0].Released() {
		t.Errorf("got %+v, %+v, %v", open, earlier, err)
	}
	for name, change := range map[string]func(*state.Attempt){
		"one that is over":            func(a *state.Attempt) { a.State = state.Closed },
		"one that collects":           func(a *state.Attempt) { a.State = state.Collecting },
		"one that only waits":         func(a *state.Attempt) { a.State = state.InQueue },
		"a state that is none":        func(a *state.Attempt) { a.State = "odd" },
		"no lease":                    func(a *state.Attempt) { a.Lease = nil },
		"the lease of another run":    func(a *state.Attempt) { a.Lease.Owner.Run = "other" },
		"that of another attempt":     func(a *state.Attempt) { a.Lease.Owner.Attempt = 1 },
		"that of another machine":     func(a *state.Attempt) { a.Lease.Owner.User = "other" },
		"the number of another one":   func(a *state.Attempt) { a.N = 1 },
		"a number that cannot be one": func(a *state.Attempt) { a.N = -1 },
	} {
		if _, _, err := sampleTicket(func(t *Ticket) { change(&t.Attempts[1]) }).OpenAttempt(); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	waiting := sampleTicket(func(t *Ticket) { t.Attempts[1].State, t.Attempts[1].Autostart = state.InQueue, state.Enabled })
	if open, _, err := waiting.OpenAttempt(); err != nil || open.State != state.InQueue || !open.Autostart.MayStart() || open.TaskBegan {
		t.Errorf("one that its site starts: %+v, %v", open, err)
	}
}
