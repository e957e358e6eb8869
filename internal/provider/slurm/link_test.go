package slurm

import (
	"encoding/json"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
)

func TestChecksOfCalls(t *testing.T) {
	for _, c := range []struct {
		name string
		v    interface{ Check() error }
		ok   bool
	}{
		{"a node", launchRequest{Log: "/scratch/bee/r/node.log"}, true},
		{"a node of another binary", launchRequest{Argv: []string{"/bee", "node"}, Log: "/l"}, true},
		{"a node without a log", launchRequest{}, false},
		{"a log somewhere", launchRequest{Log: "../../.bashrc"}, false},
		{"a node without a name", launchRequest{Argv: []string{""}, Log: "/l"}, false},
		{"a command with NUL", launchRequest{Argv: []string{"a\x00"}, Log: "/l"}, false},
		{"a socket", dialRequest{"/scratch/bee/r/node0/run/node.sock"}, true},
		{"a socket without a file", dialRequest{"@bee-x"}, false},
		{"no socket", dialRequest{}, false},
	} {
		if err := c.v.Check(); (err == nil) != c.ok || err != nil && !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func FuzzCalls(f *testing.F) {
	for _, v := range []any{launchRequest{Log: "/l"}, dialRequest{"/s"}} {
		raw, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, err := rpc.Decode[launchRequest](raw); err == nil && r.Log[0] != '/' {
			t.Fatalf("%q passed", raw)
		}
		if r, err := rpc.Decode[dialRequest](raw); err == nil && r.Path[0] != '/' {
			t.Fatalf("%q passed", raw)
		}
	})
}
