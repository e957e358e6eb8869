package leasedir

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

func TestAdopt(t *testing.T) {
	dir := t.TempDir()
	adopt := func(by, instead, want string) {
		t.Helper()
		if got, err := Adopters(dir).Adopt(t.Context(), driver.Adopter{Installation: by, Machine: "m-" + by}, instead); err != nil || got.Installation != want || want != "" && got.Machine != "m-"+want {
			t.Errorf("%q in place of %q: %+v, %v, want %q", by, instead, got, err, want)
		}
	}
	adopt("", "", "")
	adopt("a", "", "a")
	adopt("", "", "a")
	adopt("b", "", "a")
	adopt("b", "c", "a")
	adopt("", "a", "a")
	adopt("b", "a", "b")
	adopt("a", "", "b")
	if got, err := Adopters(dir).Adopt(t.Context(), driver.Adopter{Ticket: "digest"}, ""); err != nil || got.Installation != "b" || got.Ticket != "digest" {
		t.Errorf("of a ticket: %+v, %v", got, err)
	}
	if got, err := Adopters(dir).Adopt(t.Context(), driver.Adopter{Installation: "c", Ticket: "another"}, "b"); err != nil || got.Installation != "c" || got.Ticket != "digest" {
		t.Errorf("the next one after a ticket: %+v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, adopterName), []byte(`{"installation":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Adopters(dir).Adopt(t.Context(), driver.Adopter{Installation: "a"}, ""); err == nil || core.Remedy(err) == "" {
		t.Errorf("of a damaged record: %v", err)
	}
	if _, err := Adopters(filepath.Join(dir, "none")).Adopt(t.Context(), driver.Adopter{Installation: "a"}, ""); !core.IsKind(err, core.NotFound) {
		t.Errorf("of no lease: %v", err)
	}
}

// TestAdoptAtOneTime: one of many is on record, and all get its name.
func TestAdoptAtOneTime(t *testing.T) {
	dir, got := t.TempDir(), make([]driver.Adopter, 16)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() {
			var err error
			if got[i], err = Adopters(dir).Adopt(t.Context(), driver.Adopter{Installation: fmt.Sprint(i)}, ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i, a := range got {
		if a.Installation == "" || a != got[0] {
			t.Errorf("%d got %+v, and the first %+v", i, a, got[0])
		}
	}
}
