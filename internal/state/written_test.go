package state

import (
	"testing"
	"time"
)

// TestWrittenFiles are those of runs of one name at a path and below it, until the run is
// removed.
func TestWrittenFiles(t *testing.T) {
	s, moment := open(t, t.TempDir()), time.Unix(0, 1_700_000_000_123_456_789)
	for _, run := range []Run{{ID: "r1", Name: "j"}, {ID: "r2", Name: "j"}, {ID: "r3", Name: "k"}} {
		var files []Written
		for _, path := range []string{"/r/res", "/r/res/x", "/r/res/d/y", "/r/res-2", "/r/res0", "/r/other"} {
			files = append(files, Written{Path: path, Size: int64(len(run.ID)), Modified: moment})
		}
		if err := s.PutWritten(t.Context(), run, files); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{6, 3, 0} {
		list, err := s.Written(t.Context(), "j", "/r/res")
		if err != nil || len(list) != want {
			t.Errorf("got %+v, %v, want %d", list, err, want)
		}
		for _, f := range list {
			if f.Size != 2 || !f.Modified.Equal(moment) {
				t.Errorf("got %+v", f)
			}
		}
		if err := s.RemoveRun(t.Context(), map[int]string{6: "r1", 3: "r2", 0: "r3"}[want]); err != nil {
			t.Fatal(err)
		}
	}
}
