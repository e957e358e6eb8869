package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
)

// TestBenchCheck holds the text of a valid and of a broken study against a golden file.
func TestBenchCheck(t *testing.T) {
	t.Chdir("testdata/bench")
	var out bytes.Buffer
	for _, file := range []string{"good.yaml", "broken.yaml"} {
		root := newApp(&out, &out).newRoot()
		root.SetArgs([]string{"bench", "check", file})
		err := root.Execute()
		if (err != nil) != (file == "broken.yaml") || err != nil && !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", file, err)
		}
		if err != nil {
			newApp(nil, nil).On(&out).Error(err)
		}
	}
	golden := "check.golden"
	if os.Getenv("BEE_TEST_WRITE") != "" {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || out.String() != string(want) {
		t.Errorf("got:\n%s\nwant (%v):\n%s", out.String(), err, want)
	}
}

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
