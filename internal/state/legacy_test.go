package state

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// openVersion opens a database that an earlier version wrote.
func openVersion(t *testing.T, script string) *Store {
	t.Helper()
	dir := t.TempDir()
	raw, err := os.ReadFile(filepath.Join("testdata", script))
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, databaseName))
	if err == nil {
		_, err = db.ExecContext(t.Context(), string(raw))
	}
	if err = errors.Join(err, db.Close(), os.Chmod(filepath.Join(dir, databaseName), 0o600)); err != nil {
		t.Fatal(err)
	}
	return open(t, dir)
}

// TestOpenVersion6 opens a database of the version whose attempts had flags in place of a
// state.
func TestOpenVersion6(t *testing.T) {
	s := openVersion(t, "version6.sql")
	for run, want := range map[string][]string{
		"bbbb0001": nil,
		"bbbb0002": {"releasing none checkpointed checkpointed", "releasing none unreported lost_continues", "running none  "},
		"bbbb0003": {"acquiring none  "},
		"bbbb0004": {"staging none  "},
		"bbbb0005": {"queued enabling  "},
		"bbbb0006": {"releasing enabling  skipped"},
		"bbbb0007": {"starting none  "},
		"bbbb0008": {"keeping none checkpointed "},
		"bbbb0009": {"collecting none exit "},
		"bbbb0010": {"releasing none exit completed"},
		"bbbb0011": {"closed none  expired"},
		"bbbb0012": {"closed none checkpointed checkpointed", "releasing none lost lost_continues"},
		"bbbb0013": {"closed none exit task_failed"},
		"bbbb0014": {"releasing none failed stopped"},
		"bbbb0015": {"closed none  skipped", "closed none exit completed"},
	} {
		list, err := s.Attempts(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range list {
			got = append(got, fmt.Sprintf("%s %s %s %s", a.State, a.Autostart, a.Result, a.Verdict))
		}
		if !slices.Equal(got, want) {
			t.Errorf("attempts of %s: %q, want %q", run, got, want)
		}
	}
	if r, err := s.Requests().Open(t.Context(), "bbbb0002", RequestMove); err != nil || r == nil || r.Attempt != 3 || string(r.Sites) != `[{"name":"lab"}]` {
		t.Errorf("its request: %+v, %v", r, err)
	}
	left, err := s.Unreleased(t.Context())
	if err != nil || len(left) != 13 {
		t.Errorf("%d attempts are unreleased, want 13, %v", len(left), err)
	}
	list, err := s.Attempts(t.Context(), "bbbb0012")
	if err != nil || !list[0].NoProgress || !list[1].NoProgress {
		t.Errorf("no progress of bbbb0012: %+v, %v", list, err)
	}
	if err := s.PutAttempt(t.Context(), list[0], false); err != nil { // as the record of today
		t.Fatal(err)
	}
	if again, err := s.Attempts(t.Context(), "bbbb0012"); err != nil || !again[0].NoProgress || again[0].Verdict != Continues {
		t.Errorf("written again: %+v, %v", again, err)
	}
}
