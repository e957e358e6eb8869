package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

func runBurst(args ...string) (string, error) {
	var out bytes.Buffer
	root := newApp(&out, &out).newRoot()
	root.SetArgs(append([]string{"burst", "simulate"}, args...))
	root.SetOut(&out)
	err := root.Execute()
	return out.String(), err
}

func TestBurstSimulateFormats(t *testing.T) {
	seeds := map[string]bool{}
	out, err := runBurst("--model", "paper", "--json")
	var got struct {
		Model string
		Rows  []map[string]any
	}
	if err != nil || json.Unmarshal([]byte(out), &got) != nil || got.Model != "paper" || len(got.Rows) != 100 {
		t.Errorf("%v, %s", err, out)
	}
	for _, seed := range []string{"1", "1", "2"} {
		out, err := runBurst("--csv", "--seed", seed, "--set", "write=1GB", "--set", "read=1GB")
		if err != nil || !strings.HasPrefix(out, "nodes,io_nodes,") {
			t.Errorf("%v, %s", err, out)
		}
		seeds[out] = true
	}
	if len(seeds) != 2 {
		t.Errorf("two seeds give %d tables", len(seeds))
	}
	out, err = runBurst("--model", "paper", "--csv", "--set", "nodes=20")
	if err != nil || strings.Count(out, "\n") != 6 || !strings.HasPrefix(out, "nodes,hit,") {
		t.Errorf("%v, %s", err, out)
	}
	for _, wrong := range [][]string{{"--csv", "--json"}, {"--csv", "--figures", "x"}, {"--model", "none"}, {"--set", "nodes=x"}} {
		if _, err := runBurst(wrong...); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestBurstCompletion(t *testing.T) {
	for line, want := range map[string]string{"--model ": "events\npaper\n", "--set io_": "io_nodes=\t", "--model paper --set ": "hit=\t"} {
		var out bytes.Buffer
		root := newApp(&out, &out).newRoot()
		root.SetOut(&out)
		root.SetArgs(strings.Split("__complete burst simulate "+line, " "))
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, %s", line, err, out.String())
		}
	}
}

// TestBurstFigures: the same flags write the same files.
func TestBurstFigures(t *testing.T) {
	var all [2]map[string]string
	for i := range all {
		dir := filepath.Join(t.TempDir(), "new", "figures")
		out, err := runBurst("--model", "paper", "--figures", dir, "--json")
		var got struct{ Files []string }
		if err != nil || json.Unmarshal([]byte(out), &got) != nil || len(got.Files) != 16 {
			t.Fatalf("%v, %s", err, out)
		}
		all[i] = map[string]string{}
		for _, name := range got.Files {
			raw, err := os.ReadFile(name)
			if err != nil || len(raw) == 0 {
				t.Errorf("%s: %v", name, err)
			}
			all[i][filepath.Base(name)] = string(raw)
		}
	}
	if !maps.Equal(all[0], all[1]) || all[0]["paper-cost.svg"] == "" {
		t.Error("two drawings differ")
	}
}
