package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// TestBenchCheck holds the text of a valid and of a broken study against a golden file.
func TestBenchCheck(t *testing.T) {
	t.Chdir("testdata/bench")
	var out bytes.Buffer
	for _, file := range []string{"good.yaml", "broken.yaml"} {
		root := (&app{stdout: &out, stderr: &out}).newRoot()
		root.SetArgs([]string{"bench", "check", file})
		err := root.Execute()
		if (err != nil) != (file == "broken.yaml") || err != nil && !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", file, err)
		}
		if err != nil {
			(&app{}).on(&out).Error(err)
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
	for file, want := range map[string]int{"good.yaml": 0, "broken.yaml": exitInvalid, "missing.yaml": exitNotFound} {
		var out bytes.Buffer
		root := (&app{stdout: &out, stderr: &out}).newRoot()
		root.SetArgs([]string{"bench", "check", "--json", filepath.Join("testdata", "bench", file)})
		err, code := root.Execute(), 0
		if done, ok := errors.AsType[exitError](err); ok {
			code = done.code
		} else if err != nil {
			code = codeOf(err)
		}
		if code != want {
			t.Errorf("%s: exit code %d (%v), want %d", file, code, err, want)
		}
		if want == exitNotFound {
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

func TestStudySchema(t *testing.T) {
	var out bytes.Buffer
	root := (&app{stdout: &out, stderr: &out}).newRoot()
	root.SetArgs([]string{"schema", "study"})
	var got struct {
		Title      string
		Properties map[string]any
	}
	if err := root.Execute(); err != nil || json.Unmarshal(out.Bytes(), &got) != nil || got.Title != "study" || got.Properties["environments"] == nil {
		t.Errorf("%v, %s", err, out.String())
	}
}
