package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
)

// TestOpenVersion5 opens a database of the version whose history had only texts.
func TestOpenVersion5(t *testing.T) {
	s := openVersion(t, "version5.sql")

	texts := []string{"passing over site rack: its nodes have 4 cores", `it "waits": \ 100 % – späte`, "sent by its user to lab"}
	for _, run := range []string{"aaaa0002", "aaaa0003"} {
		events, err := s.History().Events(t.Context(), run)
		if err != nil || len(events) != len(texts) {
			t.Fatalf("the history of %s: %+v, %v", run, events, err)
		}
		for i, e := range events {
			if e.Run != run || e.Seq != int64(i+1) || e.Attempt != 0 || e.Time.Year() < 2026 || e.Fields != (event.Note{Text: texts[i]}) {
				t.Errorf("event %d of %s: %+v", i, run, e)
			}
		}
	}
	added, err := s.AddEvent(t.Context(), event.Event{Run: "aaaa0002", Fields: event.MoveRequested{Sites: []string{"lab"}}})
	if err != nil || added.Seq != 4 {
		t.Errorf("a new event: %+v, %v", added, err)
	}

	want := map[string]SuspendReason{
		"aaaa0001": "", "aaaa0002": "", "aaaa0003": ReasonNoSite, "aaaa0004": ReasonLostTooOften, "aaaa0005": ReasonNoProgress,
		"aaaa0006": ReasonAdopted, "aaaa0007": ReasonNoSite, "aaaa0008": "", "aaaa0009": "",
	}
	for id, reason := range want {
		r, err := s.Run(t.Context(), id)
		if err != nil || r.Suspended != reason || (r.State == Suspended) != (reason != "") {
			t.Errorf("run %s is %s for %q, %v, want %q", id, r.State, r.Suspended, err, reason)
		}
	}
	attempts, err := s.Attempts(t.Context(), "aaaa0002")
	if err != nil || len(attempts) != 2 || attempts[1].Released() || attempts[1].Lease == nil {
		t.Errorf("its attempts: %+v, %v", attempts, err)
	}
	if r, err := s.Requests().Open(t.Context(), "aaaa0002", RequestMove); err != nil || r == nil || r.Attempt != 2 || !strings.Contains(string(r.Sites), `"lab"`) {
		t.Errorf("its request: %+v, %v", r, err)
	}
}

// TestAdoptRecordWithoutReason takes over records of the version that had no reason.
func TestAdoptRecordWithoutReason(t *testing.T) {
	s := open(t, t.TempDir())
	id := NewID()
	if err := os.MkdirAll(s.RunDir(id), 0o700); err != nil {
		t.Fatal(err)
	}
	r := Run{ID: id, Name: "pi", State: Suspended, Created: time.Now(), Message: "no site", Submission: []byte("{}")}
	if err := s.PutRun(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.RemoveRun(t.Context(), id), s.Adopt(t.Context(), id)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Run(t.Context(), id); err != nil || got.Suspended != ReasonNoSite {
		t.Errorf("it is suspended for %q, %v", got.Suspended, err)
	}
}

// TestWriteIsOneTransaction writes a run, an attempt and an event, or none of them.
func TestWriteIsOneTransaction(t *testing.T) {
	s := open(t, t.TempDir())
	run := Run{ID: "aaaa1111", State: Queued, Created: time.Now(), Submission: []byte("{}")}
	change := Change{
		Run: &run, Attempt: &Attempt{Run: run.ID, N: 1, Site: "rack", Provider: "local", Started: time.Now()},
		Events: []event.Event{{Run: run.ID, Attempt: 1, Fields: event.HostsSuspended{Site: "rack", Reason: "preempted"}}},
	}
	if _, err := s.Write(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	look := func() string {
		r, err1 := s.Run(t.Context(), run.ID)
		attempts, err2 := s.Attempts(t.Context(), run.ID)
		events, err3 := s.History().Events(t.Context(), run.ID)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(r.State, len(attempts), len(events))
	}
	if got := look(); got != fmt.Sprint(Queued, 1, 1) {
		t.Errorf("written: %s", got)
	}
	run.State, change.Attempt.N = Running, 2
	change.Events = []event.Event{{Run: run.ID, Fields: event.OutputsSkipped{}}, {Run: run.ID, Fields: broken{}}}
	if _, err := s.Write(t.Context(), change); err == nil {
		t.Error("a change with a broken event was written")
	}
	if got := look(); got != fmt.Sprint(Queued, 1, 1) {
		t.Errorf("after a change that failed: %s", got)
	}
	if err := s.PutRun(t.Context(), run); err != nil {
		t.Errorf("the next change: %v", err)
	}
}

// broken are fields that cannot be encoded.
type broken struct{}

func (broken) Kind() event.Kind             { return "broken" }
func (broken) MarshalJSON() ([]byte, error) { return nil, errors.New("broken") }

// TestHistoryIsBounded holds that a repeated event is stored once, and that the first and
// the newest events stay.
func TestHistoryIsBounded(t *testing.T) {
	s, err := OpenAlone(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := range maxEvents + 200 {
		for range 2 {
			if _, err := s.AddEvent(t.Context(), event.Event{Run: "aaaa1111", Fields: event.Queued{Reason: fmt.Sprint(n)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, err := s.History().Events(t.Context(), "aaaa1111")
	if err != nil {
		t.Fatal(err)
	}
	reason := func(i int) string { return list[i].Fields.(event.Queued).Reason }
	last := len(list) - 1
	if len(list) != maxEvents+firstEvents || reason(0) != "0" || reason(firstEvents-1) != fmt.Sprint(firstEvents-1) || reason(last) != fmt.Sprint(maxEvents+199) || list[last].Seq != maxEvents+200 {
		t.Errorf("%d events, from %s over %s to %s", len(list), reason(0), reason(firstEvents-1), reason(last))
	}
	if !slices.IsSortedFunc(list, func(a, b event.Event) int { return int(a.Seq - b.Seq) }) {
		t.Error("they are not in order")
	}
	if newest, is, err := s.History().Last(t.Context(), "aaaa1111"); err != nil || !is || newest.Seq != list[last].Seq {
		t.Errorf("the last event: %+v, %v, %v", newest, is, err)
	}
	for reason, want := range map[string]bool{"0": true, fmt.Sprint(firstEvents + 1): false} {
		if is, err := s.History().Has(t.Context(), event.Event{Run: "aaaa1111", Fields: event.Queued{Reason: reason}}); err != nil || is != want {
			t.Errorf("event %s is there: %v, %v", reason, is, err)
		}
	}
}
