package reservation

import (
	"errors"
	"path/filepath"
	"testing"
)

// TestStudiesExcludeEachOther: one study has a host; another is refused and gets its name. An
// allocation is another thing than its host.
func TestStudiesExcludeEachOther(t *testing.T) {
	l := Ledger(filepath.Join(t.TempDir(), "ledger"))
	first, second := Study{"layers", "one", "process 7 on here"}, Study{"apps", "two", "process 8 on here"}
	unlock, err := l.LockForStudy("", first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.LockForStudy("", first)
	if err != nil {
		t.Errorf("the same study a second time: %v", err)
	}
	again()
	if _, err := l.LockForStudy("", second); err == nil {
		t.Error("two studies have one host")
	} else if held, is := errors.AsType[*HeldError](err); !is || held.By != first {
		t.Errorf("the error is %v, expected the first study", err)
	}
	allocation, err := l.LockForStudy("17", second)
	if err != nil {
		t.Fatalf("an allocation: %v", err)
	}
	allocation()
	unlock()
	if unlock, err = l.LockForStudy("", second); err != nil {
		t.Fatalf("after the first study: %v", err)
	}
	unlock()
	if left, err := l.Reservations(); err != nil || len(left) > 0 {
		t.Errorf("reservations of memory are %v, %v", left, err)
	}
}
