package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
)

func TestBenchCheckJSON(t *testing.T) {
	for file, want := range map[string]int{"good.yaml": 0, "broken.yaml": console.ExitInvalid, "missing.yaml": console.ExitNotFound} {
		var out bytes.Buffer
		root := newApp(&out, &out).newRoot()
		root.SetArgs([]string{"bench", "check", "--json", filepath.Join("testdata", "bench", file)})
		err, code := root.Execute(), 0
		if done, ok := errors.AsType[console.Exit](err); ok {
			code = int(done)
		} else if err != nil {
			code = console.CodeOf(err)
		}
		if code != want {
			t.Errorf("%s: exit code %d (%v), want %d", file, code, err, want)
		}
		if want == console.ExitNotFound {
			continue
		}
		var got struct {
			Valid    bool
			Problems []struct{ Line, Column int }
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Valid != (want == 0) || (len(got.Problems) == 0) != got.Valid {
			t.Errorf("%s: %v, %s", file, err, out.String())
		}
	}
}

// TestBenchAloneListsStudies: the command without words answers as `bee bench ls`.
func TestBenchAloneListsStudies(t *testing.T) {
	var texts [2]bytes.Buffer
	for i, args := range [][]string{{"bench"}, {"bench", "ls"}} {
		root := newApp(&texts[i], &texts[i]).newRoot()
		root.SetArgs(args)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
	}
	if texts[0].String() != texts[1].String() || !bytes.Contains(texts[0].Bytes(), []byte("layers")) {
		t.Errorf("got:\n%s\nwant:\n%s", &texts[0], &texts[1])
	}
}

// TestStudyBesideItsResults: a directory of results may have the name of a study.
func TestStudyBesideItsResults(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("layers", 0o755); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	root := newApp(&out, &out).newRoot()
	root.SetArgs([]string{"bench", "show", "layers"})
	if err := root.Execute(); err != nil {
		t.Error(err)
	}
}

func TestStudySchema(t *testing.T) {
	var out bytes.Buffer
	root := newApp(&out, &out).newRoot()
	root.SetArgs([]string{"schema", "study"})
	var got struct {
		Title      string
		Properties map[string]any
	}
	if err := root.Execute(); err != nil || json.Unmarshal(out.Bytes(), &got) != nil || got.Title != "study" || got.Properties["environments"] == nil {
		t.Errorf("%v, %s", err, out.String())
	}
}
