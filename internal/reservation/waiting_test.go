package reservation

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWhoWaits: places are those of submission, the same for who asks again, and end where
// nobody asks any more.
func TestWhoWaits(t *testing.T) {
	l := Ledger(filepath.Join(t.TempDir(), "ledger"))
	at := time.Now()
	runs := map[string]time.Time{"b": at, "a": at, "late": at.Add(time.Second), "early": at.Add(-time.Second)}
	for range 2 {
		for run, submitted := range runs {
			if err := l.Wait(Waiting{Run: run, Site: "/s", Cores: 1, Submitted: submitted}); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := func(w Waiting, want ...string) {
		t.Helper()
		var got []string
		for _, w := range l.Before(w) {
			got = append(got, w.Run)
		}
		if len(got) != len(want) {
			t.Errorf("before %+v: %q, want %q", w, got, want)
			return
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("before %+v: %q, want %q", w, got, want)
			}
		}
	}
	before(Waiting{Run: "b", Submitted: at}, "early", "a")
	before(Waiting{Run: "early", Submitted: at.Add(-time.Second)})
	before(Waiting{Run: "plan"}, "early", "a", "b", "late")
	l.Leave(Waiting{Run: "a", Site: "/s"})
	for name, w := range map[string]Waiting{
		"asked long ago":                {Run: "late", Site: "/s", Submitted: at, Seen: at.Add(-2 * placeTime)},
		"before the clock was set back": {Run: "b", Site: "/s", Submitted: at, Seen: at.Add(time.Hour)},
	} {
		raw, err := json.Marshal(w)
		if err == nil {
			err = os.WriteFile(filepath.Join(string(l), w.name()), raw, 0o600)
		}
		if err != nil {
			t.Fatal(name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(string(l), "damaged"+waitingSuffix), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	before(Waiting{Run: "plan"}, "early")
	if left, _ := filepath.Glob(filepath.Join(string(l), "*"+waitingSuffix)); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
}
