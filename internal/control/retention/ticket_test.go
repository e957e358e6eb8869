package retention

import (
	"bytes"
	"encoding/json"
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
	sealed, err := SealTicket([]Ticket{sampleTicket(func(*Ticket) {})}, testKey)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("bcdefghi")) {
		t.Error("the run's id can be read")
	}
	opened, err := OpenTicket("file", sealed, testKey)
	if err != nil || len(opened) != 1 || opened[0].Run.ID != "bcdefghi" || !bytes.Equal(opened[0].Key, []byte("key of nodes")) {
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
		if got, err := OpenTicket("file", c.sealed, c.key); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" || got != nil {
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

// sampleArray are the tickets of an array: case 1 was over, and the others compute.
func sampleArray(change func([]Ticket)) []Ticket {
	list := make([]Ticket, 3)
	for i, id := range []string{"bcdefghi", "bcdefghj", "bcdefghk"} {
		list[i] = sampleTicket(func(t *Ticket) {
			t.Run.ID, t.Run.Case = id, state.Case{Array: "zzzzzzzz", Name: "model", Number: i + 1, AtOnce: 2}
			t.Attempts[1].Lease.Owner.Run = id
		})
	}
	code := 3
	list[0].Run.State, list[0].Run.ExitCode, list[0].Key = state.Failed, &code, nil
	change(list)
	return list
}

// TestTicketsOfAnArray: all cases come back with what is common to them, and the ticket of one run
// keeps the version that every bee reads.
func TestTicketsOfAnArray(t *testing.T) {
	sealed, err := SealTicket(sampleArray(func([]Ticket) {}), testKey)
	if err != nil {
		t.Fatal(err)
	}
	list, err := OpenTicket("file", sealed, testKey)
	if err != nil || len(list) != 3 {
		t.Fatalf("got %+v, %v", list, err)
	}
	for i, c := range list {
		if c.Installation != "abcdefgh" || c.Machine != "laptop" || c.Digest != TicketDigest(sealed) || c.Over() != (i == 0) || c.Case() != (state.Case{Array: "zzzzzzzz", Name: "model", Number: i + 1}) {
			t.Errorf("case %d is %+v", i+1, c)
		}
	}
	run, attempts, err := list[0].End(state.Run{ID: "bcdefghi", State: state.Suspended})
	if err != nil || run.State != state.Failed || run.ExitCode == nil || *run.ExitCode != 3 || run.Ended.IsZero() || len(attempts) != 2 || !attempts[1].Released() || attempts[1].Lease != nil {
		t.Errorf("the case that was over is %+v, %+v, %v", run, attempts, err)
	}
	if _, _, err := list[1].End(state.Run{ID: "bcdefghj"}); !core.IsKind(err, core.Invalid) {
		t.Errorf("the end of a case that computes: %v", err)
	}
	one, err := SealTicket([]Ticket{sampleTicket(func(*Ticket) {})}, testKey)
	if err != nil {
		t.Fatal(err)
	}
	if opened, err := OpenTicket("file", one, testKey); err != nil || opened[0].Version != ticketVersion {
		t.Errorf("the ticket of a run has %+v, %v", opened, err)
	}
}

// TestArraysThatCannotBe: an impossible array that another holder of the key has sealed is refused before use.
func TestArraysThatCannotBe(t *testing.T) {
	for name, change := range map[string]func([]Ticket){
		"cases of two arrays":      func(l []Ticket) { l[2].Run.Case.Array = "yyyyyyyy" },
		"an id that is none":       func(l []Ticket) { l[0].Run.Case.Array, l[1].Run.Case.Array, l[2].Run.Case.Array = "..", "..", ".." },
		"one run twice":            func(l []Ticket) { l[2].Run.ID = l[1].Run.ID },
		"one number twice":         func(l []Ticket) { l[2].Run.Case.Number = 2 },
		"no number":                func(l []Ticket) { l[2].Run.Case.Number = 0 },
		"a large number":           func(l []Ticket) { l[2].Run.Case.Number = mostSealedCases + 1 },
		"a case of a pack":         func(l []Ticket) { l[2].Run.Case.Pack = "xxxxxxxx" },
		"a case that has no name":  func(l []Ticket) { l[2].Run.Case.Name = "" },
		"a case without attempts":  func(l []Ticket) { l[2].Attempts = nil },
		"a run that has no id":     func(l []Ticket) { l[2].Run.ID = "../.." },
		"nobody's":                 func(l []Ticket) { l[0].Installation = "" },
		"cases that are over only": func(l []Ticket) { l[1].Run.State, l[2].Run.State = state.Succeeded, state.Succeeded },
	} {
		content := contentOf(sampleArray(change))
		content.Version = arrayVersion
		if list, err := content.tickets(); err == nil || list != nil {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}

// sampleJobs are the tickets of three jobs: a mesh that computes, two cases of an array that wait for
// it, and a plot that was over.
func sampleJobs(change func([]Ticket)) []Ticket {
	list := []Ticket{sampleTicket(func(*Ticket) {})}
	for i, id := range []string{"bcdefghj", "bcdefghk"} {
		list = append(list, Ticket{Run: state.Run{ID: id, State: state.Queued, Case: state.Case{Array: "zzzzzzzz", Name: "model", Number: i + 1, AtOnce: 1}}})
	}
	list = append(list, Ticket{Run: state.Run{ID: "bcdefghl", State: state.Failed}})
	change(list)
	return list
}

// TestTicketsOfJobs: runs of several jobs come back in their order, also those that had not begun.
func TestTicketsOfJobs(t *testing.T) {
	sealed, err := SealTicket(sampleJobs(func([]Ticket) {}), testKey)
	if err != nil {
		t.Fatal(err)
	}
	list, err := OpenTicket("file", sealed, testKey)
	if err != nil || len(list) != 4 {
		t.Fatalf("got %+v, %v", list, err)
	}
	for i, c := range list {
		waits := i == 1 || i == 2
		if !c.Several || c.Installation != "abcdefgh" || c.Digest != TicketDigest(sealed) || c.Version != jobsVersion || c.Waits() != waits || c.Over() != (i == 3) || waits && (c.Case() != state.Case{Array: "zzzzzzzz", Name: "model", Number: i, AtOnce: 1}) {
			t.Errorf("run %d is %+v", i, c)
		}
	}
	for name, change := range map[string]func([]Ticket){
		"one run twice":                  func(l []Ticket) { l[3].Run.ID = l[0].Run.ID },
		"a run and an array":             func(l []Ticket) { l[1].Run.Case.Array, l[2].Run.Case.Array = "bcdefghl", "bcdefghl" },
		"one that waits with hosts":      func(l []Ticket) { l[1].Attempts = l[0].Attempts },
		"one that waits with a key":      func(l []Ticket) { l[1].Key = l[0].Key },
		"a run that has not begun":       func(l []Ticket) { l[0].Attempts = nil },
		"a case without an array":        func(l []Ticket) { l[1].Run.Case.Array = "" },
		"a number of cases that is none": func(l []Ticket) { l[1].Run.Case.AtOnce = -1 },
		"a case of a pack":               func(l []Ticket) { l[1].Run.Case.Pack = "xxxxxxxx" },
		"none that computes":             func(l []Ticket) { l[0].Run.State = state.Succeeded },
	} {
		if list, err := contentOf(sampleJobs(change)).tickets(); err == nil || list != nil {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
}

// TestTheLeastOfASealedRun: what is refused at submission would be too large in any case.
func TestTheLeastOfASealedRun(t *testing.T) {
	one := sampleArray(func([]Ticket) {})[1]
	one.Attempts, one.Key, one.Run.Submission = one.Attempts[1:], make([]byte, 32), []byte(`{}`)
	raw, err := json.Marshal(contentOf([]Ticket{one}).Cases[0])
	if err != nil || len(raw) < LeastSealedRun {
		t.Errorf("a run takes %d bytes, %v, expected %d at least", len(raw), err, LeastSealedRun)
	}
}
