package drivertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

func (s ProviderSuite) transfer(t *testing.T) {
	l := s.lease(t)
	from, back := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "back")
	check(t, os.MkdirAll(from+"/sub", 0o755))
	big := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	check(t, os.WriteFile(from+"/sub/big", big, 0o640))
	check(t, core.WriteProgram(from+"/run.sh", []byte("#!/bin/sh\n"), 0o755))
	check(t, os.Symlink("sub/big", from+"/link"))
	for i, h := range l.Hosts() {
		remote := filepath.Join(h.Dir, "new", "parents", "copy")
		var done int64
		for range 2 { // the second replaces the first
			done = 0
			check(t, l.Stage(t.Context(), driver.Transfer{Host: i, Local: from, Remote: remote, Progress: func(n int64) { done = n }}))
		}
		if done < int64(len(big)) {
			t.Errorf("host %d: progress ended at %d", i, done)
		}
		check(t, l.Fetch(t.Context(), driver.Transfer{Host: i, Local: back, Remote: remote}))
		got, err := os.ReadFile(back + "/sub/big")
		if err != nil || !bytes.Equal(got, big) {
			t.Errorf("host %d: came back differently: %v", i, err)
		}
		if st, err := os.Stat(back + "/run.sh"); err != nil || st.Mode().Perm() != 0o755 {
			t.Errorf("host %d: %v, %v", i, st, err)
		}
		if to, err := os.Readlink(back + "/link"); err != nil || to != "sub/big" {
			t.Errorf("host %d: the link came back as %q, %v", i, to, err)
		}
		again := filepath.Join(t.TempDir(), "again")
		check(t, l.Fetch(t.Context(), driver.Transfer{Host: i, Local: again, Remote: remote, Again: true, Before: back}))
		if got, err := os.ReadFile(again + "/sub/big"); err != nil || !bytes.Equal(got, big) {
			t.Errorf("host %d: came over an earlier copy differently: %v", i, err)
		}
		check(t, l.Fetch(t.Context(), driver.Transfer{Host: i, Local: back + "-file", Remote: remote + "/run.sh"}))
		if b, _ := os.ReadFile(back + "-file"); string(b) != "#!/bin/sh\n" {
			t.Errorf("host %d: fetched %q", i, b)
		}
		err = l.Fetch(t.Context(), driver.Transfer{Host: i, Local: back, Remote: h.Dir + "/missing"})
		if !core.IsKind(err, core.NotFound) {
			t.Errorf("host %d: fetch what is not there: %v, want not found", i, err)
		}
		if _, err := os.Stat(back + "/run.sh"); err != nil {
			t.Errorf("host %d: a failed fetch took what was there: %v", i, err)
		}
		err = l.Stage(t.Context(), driver.Transfer{Host: i, Local: from + "/missing", Remote: remote})
		if !core.IsKind(err, core.NotFound) {
			t.Errorf("host %d: stage what is not there: %v, want not found", i, err)
		}
	}
}

// matches compares trees on the head's host with manifests.
func (s ProviderSuite) matches(t *testing.T) {
	l := s.lease(t)
	from := filepath.Join(t.TempDir(), "from")
	check(t, os.MkdirAll(from, 0o755))
	check(t, os.WriteFile(filepath.Join(from, "state"), []byte("some"), 0o644))
	remote := filepath.Join(l.Hosts()[0].Dir, "matched")
	check(t, l.Stage(t.Context(), driver.Transfer{Local: from, Remote: remote}))
	sum := func(text string) string {
		is := sha256.Sum256([]byte(text))
		return hex.EncodeToString(is[:])
	}
	for name, c := range map[string]struct {
		files map[string]string
		same  bool
	}{
		"equal":         {map[string]string{"state": sum("some")}, true},
		"another file":  {map[string]string{"other": sum("some")}, false},
		"other content": {map[string]string{"state": sum("else")}, false},
		"one is gone":   {map[string]string{"state": sum("some"), "more": sum("")}, false},
		"one too many":  {nil, false},
	} {
		if same, err := l.Matches(t.Context(), remote, driver.Manifest{Files: c.files, Bytes: int64(len("some"))}); err != nil || same != c.same {
			t.Errorf("%s: %v, %v", name, same, err)
		}
	}
	if same, err := l.Matches(t.Context(), remote+"-missing", driver.Manifest{}); err == nil {
		t.Errorf("a tree that is not there: %v, without an error", same)
	}
}
