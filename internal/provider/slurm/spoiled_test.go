package slurm

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestFilesOfALeaseMayBeAnything: what is no plain small file is as if it were not there,
// and nothing of it is shown. A lease without a record of its job can be released.
func TestFilesOfALeaseMayBeAnything(t *testing.T) {
	l, _ := made(t)
	path := func(name string) string { return filepath.Join(l.dir, name) }
	recovered := func(t *testing.T) *lease {
		r, err := l.p.Recover(t.Context(), l.Handle())
		if err != nil {
			t.Error(err)
			return l
		}
		return r.(*lease)
	}
	testkit.Spoil(t, path(detailsName), func(t *testing.T) string {
		d := recovered(t).details
		if d.Job != "" {
			t.Errorf("%+v", d)
		}
		return fmt.Sprintf("%+v", d)
	})
	testkit.Spoil(t, path(grantedName), func(t *testing.T) string {
		terms := recovered(t).granted()
		if terms != nil {
			t.Errorf("%+v", terms)
		}
		return fmt.Sprintf("%+v", terms)
	})
	testkit.Spoil(t, path(keysName), func(t *testing.T) string {
		_, err := l.connect(t.Context(), 0)
		return fmt.Sprint(err)
	})
	testkit.Spoil(t, announcementPath(l.dir, 0), func(*testing.T) string { return fmt.Sprint(l.announced()) })
	testkit.Spoil(t, path(specName), func(t *testing.T) string {
		raw, err := (&agent{dir: l.dir, log: slog.New(slog.DiscardHandler)}).launchSpec(t.Context())
		if err == nil {
			t.Error("there is no error")
		}
		return string(raw) + fmt.Sprint(err)
	})
	testkit.Spoil(t, path(logName), func(*testing.T) string { return fmt.Sprint(leaseQueue{l}.lost("")) })
	if err := os.WriteFile(path(verdictName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Spoil(t, path(verdictName), func(*testing.T) string { return fmt.Sprint(leaseQueue{l}.lost("")) })
}
