package nodecall

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/rpc"
)

type checked interface{ Check() error }

func TestChecks(t *testing.T) {
	for _, c := range []struct {
		name string
		v    checked
		ok   bool
	}{
		{"all events", WatchRequest{}, true},
		{"events before the first", WatchRequest{-1}, false},
		{"all output", OutputRequest{}, true},
		{"output before the first", OutputRequest{Offset: -1}, false},
		{"stop at once", StopRequest{}, true},
		{"a negative grace", StopRequest{-time.Second}, false},
		{"another end", ExtendRequest{time.Now()}, true},
		{"no end", ExtendRequest{}, false},
		{"a checkpoint", SaveReply{3}, true},
		{"a negative checkpoint", SaveReply{-3}, false},
		{"the first snapshot", HoldRequest{1}, true},
		{"no snapshot", HoldRequest{}, false},
		{"health", Health{Phase: core.PhaseRun}, true},
		{"health before any phase", Health{}, true},
		{"an unknown phase", Health{Phase: "\x1b[2J"}, false},
		{"a rank below the first", Health{Rank: -1}, false},
		{"a command", ExecRequest{Args: []string{"true"}}, true},
		{"no command", ExecRequest{}, false},
		{"an empty command", ExecRequest{Args: []string{""}}, false},
		{"a command with NUL", ExecRequest{Args: []string{"a\x00b"}}, false},
		{"a variable with NUL", ExecRequest{Args: []string{"a"}, Env: []string{"A=\x00"}}, false},
		{"a negative rank", ExecRequest{Args: []string{"a"}, Rank: -1}, false},
		{"a long host", ExecRequest{Args: []string{"a"}, Host: strings.Repeat("x", 300)}, false},
		{"addresses", Addresses{[]string{"10.0.0.1:80", "[fe80::1%eth0]:81"}}, true},
		{"no addresses", Addresses{}, true},
		{"an address by name", Addresses{[]string{"host:80"}}, false},
		{"an address without a port", Addresses{[]string{"10.0.0.1"}}, false},
		{"port 0", Addresses{[]string{"10.0.0.1:0"}}, false},
		{"too many addresses", Addresses{make([]string, 1000)}, false},
		{"an account", Login{"ann_2.b-c"}, true},
		{"an account with a line of configuration", Login{"ann\n  ProxyCommand touch /tmp/x"}, false},
		{"an account that is an option", Login{"-oProxyCommand=x"}, false},
		{"no account", Login{}, false},
		{"statistics", Fabric{fabric.Stats{Guests: 1, Ports: make([]fabric.Port, 1)}}, true},
		{"statistics of other guests", Fabric{fabric.Stats{Guests: -1}}, false},
		{"ports of two containers", Verbs{[]core.VerbsPort{{Rank: 0}, {Rank: 1, Objects: core.VerbsObjects{QueuePairs: 3}, States: core.VerbsStates{RTS: 2, Error: 1}}}}, true},
		{"a port twice", Verbs{[]core.VerbsPort{{Rank: 1}, {Rank: 1}}}, false},
		{"a port of no node", Verbs{[]core.VerbsPort{{Rank: -1}}}, false},
		{"a negative count", Verbs{[]core.VerbsPort{{Bytes: core.VerbsBytes{Staged: -1}}}}, false},
		{"a count that cannot be added", Verbs{[]core.VerbsPort{{Operations: core.VerbsOperations{Writes: 1 << 62}}}}, false},
		{"queue pairs without a state", Verbs{[]core.VerbsPort{{Objects: core.VerbsObjects{QueuePairs: 1}}}}, false},
		{"an exit", ExitFrame{Exit: core.Exit{Code: 137, Signal: 9}}, true},
		{"an exit code that there is not", ExitFrame{Exit: core.Exit{Code: 256}}, false},
		{"a signal that there is not", ExitFrame{Exit: core.Exit{Signal: -1}}, false},
		{"a time that there is not", ExitFrame{Exit: core.Exit{UserTime: -1}}, false},
		{"an error of an unknown kind", ExitFrame{Failed: rpc.Failure{Kind: "odd"}}, false},
	} {
		if err := c.v.Check(); (err == nil) != c.ok || err != nil && !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// FuzzCalls: whatever passes has the values that it may have.
func FuzzCalls(f *testing.F) {
	for _, v := range []any{ExecRequest{Args: []string{"a"}}, Health{Phase: "run"}, Addresses{[]string{"1.2.3.4:5"}}, Login{"a"}, SaveReply{1}, Fabric{}, Verbs{[]core.VerbsPort{{}}}, ExitFrame{}} {
		raw, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, err := rpc.Decode[ExecRequest](raw); err == nil && (len(r.Args) == 0 || r.Rank < 0) {
			t.Fatalf("%q passed", raw)
		}
		if h, err := rpc.Decode[Health](raw); err == nil && h.Rank < 0 {
			t.Fatalf("%q passed", raw)
		}
		if l, err := rpc.Decode[Login](raw); err == nil && strings.ContainsAny(l.Name, " \n/") {
			t.Fatalf("%q passed", raw)
		}
		if x, err := rpc.Decode[ExitFrame](raw); err == nil && (x.Exit.Code < 0 || x.Exit.Code > 255) {
			t.Fatalf("%q passed", raw)
		}
		if v, err := rpc.Decode[Verbs](raw); err == nil && slices.ContainsFunc(v.Ports, func(p core.VerbsPort) bool { return p.Rank < 0 || p.Operations.Direct() < 0 }) {
			t.Fatalf("%q passed", raw)
		}
		rpc.Decode[Addresses](raw) //nolint:errcheck // it must end, no more
		rpc.Decode[Fabric](raw)    //nolint:errcheck // likewise
	})
}
