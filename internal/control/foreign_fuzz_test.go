package control

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

const fuzzedJob = `{"Name": "n", "Image": "a", "Run": {"Shell": "true"}, "Nodes": 1, "Volume": {"Path": "/work"}, "VM": {"Memory": 1073741824}, "Checkpoint": {"Mode": "vm"}}`

// FuzzRecord reads the record of a run in a store. What is taken from it can be a run here.
func FuzzRecord(f *testing.F) {
	for _, text := range []string{
		`{"version": 1, "run": {"ID": "abcdefgh", "Submission": {"version": 1, "job": ` + fuzzedJob + `}}, "attempts": [{"N": 1, "Site": "s", "Hosts": [{"Name": "h"}]}]}`,
		`{"version": 1, "run": {"ID": "../../ab", "Submission": null}}`, `{"version": 1}`, `[]`, `{`,
		`{"version": 1, "run": {"ID": "abcdefgh", "Submission": {"version": 1, "job": {"Nodes": -1, "Secrets": {"A": {"Exec": "x"}}}}}, "attempts": [{"N": -1}, {"N": 1}, {"N": 1}]}`,
		`{"version": 1, "run": {"ID": "abcdefgh", "Submission": {"version": 1, "job": {"Image": "a", "Volume": {"Path": "/work"}}}}}`,
	} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := retention.ParseRecord("abcdefgh", raw)
		if err != nil {
			knownKind(t, err)
			return
		}
		run, attempts, sub, err := adopted(r, dir)
		if err != nil {
			knownKind(t, err)
			return
		}
		if run.ID != "abcdefgh" || run.State != state.Suspended || sub.Job.Nodes < 1 || len(sub.Job.Reaches(dir)) > 1<<20 {
			t.Errorf("it became %+v, %+v", run, sub)
		}
		for i, a := range attempts {
			if a.Run != run.ID || a.N < 1 || i > 0 && a.N <= attempts[i-1].N {
				t.Errorf("attempt %+v", a)
			}
		}
		if _, err := json.Marshal(sub); err != nil {
			t.Error(err)
		}
	})
}

// FuzzExport reads the record of saved machines.
func FuzzExport(f *testing.F) {
	for _, text := range []string{
		`{"run": "abcdefgh", "submission": {"version": 1, "job": ` + fuzzedJob + `, "sites": [{"Name": "s"}]}, "restored": ["abcdefgi"]}`,
		`{"run": "../../x"}`, `{"run": "abcdefgh", "submission": {"version": 1, "machines": "../x", "job": ` + fuzzedJob + `}}`, `null`, `{`,
	} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(filepath.Join(dir, exportName), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		e, sub, err := readForeign(dir, Foreign{Dir: dir})
		if err != nil {
			knownKind(t, err)
			return
		}
		if !state.IsID(e.Run) || !sub.Job.SavesVM() || sub.Machines != "" && !state.IsID(sub.Machines) {
			t.Errorf("it became %+v, %+v", e, sub)
		}
		for _, s := range sub.Sites {
			if s.Provider != "" || s.Name != retention.Plain(s.Name) {
				t.Errorf("a site %+v", s)
			}
		}
	})
}

// knownKind looks that a record is refused for what it says.
func knownKind(t *testing.T, err error) {
	t.Helper()
	if !core.IsKind(err, core.Invalid) && !core.IsKind(err, core.Unsupported) && !core.IsKind(err, core.NotFound) {
		t.Errorf("refused as %s: %v", core.KindOf(err), err)
	}
}
