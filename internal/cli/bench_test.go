package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
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

// TestTwoStudiesExcludeEachOther: the second names the first.
func TestTwoStudiesExcludeEachOther(t *testing.T) {
	a := newApp(nil, nil)
	a.StateDir, a.CacheDir = t.TempDir(), t.TempDir()
	unlock, err := a.benchLock("layers")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.benchLock("apps"); !core.IsKind(err, core.Busy) || !strings.Contains(err.Error(), "layers") {
		t.Errorf("a second study: %v", err)
	}
	unlock()
	unlock, err = a.benchLock("apps")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// TestUnmeasurable names what this bee leaves out before anything starts.
func TestUnmeasurable(t *testing.T) {
	local := []spec.Site{{Name: "local", Provider: "local"}}
	for name, tc := range map[string]struct {
		e    study.Environment
		want string
	}{
		"the host's programs": {study.Environment{Runtime: "native", Native: "host"}, "programs of the host"},
		"too much memory":     {study.Environment{PerHost: 2, Limit: study.Limit{Memory: 1 << 49}}, "memory"},
		"nothing":             {study.Environment{}, ""},
	} {
		if got := unmeasurable(tc.e, &spec.Job{}, local); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, expected %q", name, got, tc.want)
		}
	}
}

// TestRepeating prints the command of a study with what was asked for.
func TestRepeating(t *testing.T) {
	a := newApp(nil, nil)
	c := a.newBenchRunCommand()
	if err := c.ParseFlags([]string{"--env", "a,b", "--metric", "x=regex:^x (.*)", "--map", "aws=lab", "-o", "out", "--wait", "0s"}); err != nil {
		t.Fatal(err)
	}
	if got, want := repeating(c, []string{"my study.yaml"}), `run 'my study.yaml' --env=a --env=b --map=aws=lab '--metric=x=regex:^x (.*)'`; got != want {
		t.Errorf("got %s, expected %s", got, want)
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
