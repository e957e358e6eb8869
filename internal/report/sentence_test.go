package report

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/state/event"
)

// TestEveryKindHasASentence, in one line, and not the form of kinds that are not known.
func TestEveryKindHasASentence(t *testing.T) {
	for _, f := range event.All() {
		if note, is := f.(event.Note); is {
			note.Text = "an old line"
			f = note
		}
		if queued, is := f.(event.Queued); is {
			queued.Reason = "others are first"
			f = queued
		}
		text := Sentence(event.Event{Run: "aaaa1111", Attempt: 1, Fields: f})
		if text == "" || strings.Contains(text, "\n") || strings.HasPrefix(text, strings.ReplaceAll(string(f.Kind()), "_", " ")+" {") {
			t.Errorf("%s: %q", f.Kind(), text)
		}
	}
}

func TestKindsOfNewerVersionsAreShown(t *testing.T) {
	if got := Sentence(event.Event{Fields: event.Other{Name: "power_cut", Raw: []byte(`{"host":"n1"}`)}}); got != `power cut {"host":"n1"}` {
		t.Errorf("got %q", got)
	}
}
