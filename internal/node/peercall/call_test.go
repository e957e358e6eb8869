package peercall

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/rpc"
)

type checked interface{ Check() error }

func TestChecksOfCalls(t *testing.T) {
	join := func(change func(*JoinRequest)) JoinRequest {
		r := JoinRequest{Rank: 1, Addrs: []string{"10.0.0.2:7"}, Reached: "10.0.0.1:8", Cores: 4, Processors: 4, Nonce: "nonce"}
		change(&r)
		return r
	}
	begin := func(members ...Member) BeginRequest {
		return BeginRequest{Members: members, Nonces: make([]string, len(members))}
	}
	for _, c := range []struct {
		name string
		v    checked
		ok   bool
	}{
		{"a node joins", join(func(*JoinRequest) {}), true},
		{"from nowhere", join(func(r *JoinRequest) { r.Reached = "" }), false},
		{"an address that is none", join(func(r *JoinRequest) { r.Addrs[0] = "x" }), false},
		{"a negative rank", join(func(r *JoinRequest) { r.Rank = -1 }), false},
		{"negative cores", join(func(r *JoinRequest) { r.Cores = -1 }), false},
		{"more cores than there are", join(func(r *JoinRequest) { r.Cores = 1 << 40 }), false},
		{"a long reason", join(func(r *JoinRequest) { r.NoRuntime = strings.Repeat("x", 1<<20) }), false},
		{"members", begin(Member{Addr: "10.0.0.1:1"}, Member{Rank: 1, Addr: "10.0.0.1:1"}), true},
		{"a lone member", begin(Member{}), true},
		{"no members", begin(), false},
		{"members in another order", begin(Member{Rank: 1}, Member{}), false},
		{"fewer nonces", BeginRequest{Members: make([]Member, 1)}, false},
		{"a negative group", BeginReply{-1}, false},
		{"an end", EndReply{core.NodeReport{Rank: 1}}, true},
		{"negative use", EndReply{core.NodeReport{UserTime: -1}}, false},
		{"a long command line", EndReply{core.NodeReport{VMCommand: strings.Repeat("x", core.MostVMCommand+1)}}, false},
		{"negative memory", EndReply{core.NodeReport{MaxRSS: -1}}, false},
		{"a snapshot to save", HoldRequest{Do: HoldSave, Number: 1}, true},
		{"no snapshot to save", HoldRequest{Do: HoldSave}, false},
		{"an order that there is not", HoldRequest{Do: "burn"}, false},
		{"files outside", HoldRequest{Do: HoldTake, Globs: []string{"../*"}}, false},
		{"files inside", Globs{[]string{"*", ".", "a/b[0-9]"}}, true},
		{"absolute files", Globs{[]string{"/etc/passwd"}}, false},
		{"files with NUL", Globs{[]string{"a\x00"}}, false},
		{"names", Names{[]string{"a", "b/c"}}, true},
		{"a name above", Names{[]string{"../x"}}, false},
		{"an absolute name", Names{[]string{"/x"}}, false},
		{"too many names", Names{make([]string, Batch+1)}, false},
		{"a thing", spread.Thing{What: spread.Image}, true},
		{"another thing", spread.Thing{What: "secrets"}, false},
		{"a signal", SignalRequest{9}, true},
		{"no signal", SignalRequest{}, false},
		{"a signal that there is not", SignalRequest{65}, false},
		{"a failure", Failure{1, rpc.Fail(context.Canceled)}, true},
		{"a failure of an unknown kind", Failure{1, rpc.Failure{Kind: "x"}}, false},
		{"a part", PartRequest{Rank: 1}, true},
		{"a part of no snapshot", PartRequest{Number: -1}, false},
		{"a long note", Note{strings.Repeat("x", 1<<20)}, false},
		{"a look", snapshot.Look{Files: 1}, true},
		{"a negative look", snapshot.Look{Files: -1}, false},
		{"a way to a negative rank", CarryRequest{-1}, false},
	} {
		if err := c.v.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func FuzzCalls(f *testing.F) {
	for _, v := range []any{JoinRequest{Rank: 1}, BeginRequest{Members: make([]Member, 1)}, Names{[]string{"a"}}, HoldRequest{Do: HoldSave}, Failure{}, EndReply{}} {
		raw, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if n, err := rpc.Decode[Names](raw); err == nil {
			for _, name := range n.Files {
				if !filepath.IsLocal(name) {
					t.Fatalf("%q passed", raw)
				}
			}
		}
		if r, err := rpc.Decode[JoinRequest](raw); err == nil && (r.Rank < 0 || r.Cores < 0) {
			t.Fatalf("%q passed", raw)
		}
		if r, err := rpc.Decode[BeginRequest](raw); err == nil && len(r.Nonces) != len(r.Members) {
			t.Fatalf("%q passed", raw)
		}
		rpc.Decode[HoldRequest](raw) //nolint:errcheck // it must end, no more
		rpc.Decode[Failure](raw)     //nolint:errcheck // likewise
		rpc.Decode[EndReply](raw)    //nolint:errcheck // likewise
	})
}

func TestExecTarget(t *testing.T) {
	members := []Member{{Rank: 0, Name: "a", IP: "10.0.0.1"}, {Rank: 1, Name: "b", IP: "10.0.0.2"}}
	for _, c := range []struct {
		name string
		r    nodecall.ExecRequest
		want int
		ok   bool
	}{
		{"by rank", nodecall.ExecRequest{Rank: 1}, 1, true},
		{"by name", nodecall.ExecRequest{Host: "b"}, 1, true},
		{"by address", nodecall.ExecRequest{Host: "10.0.0.1"}, 0, true},
		{"this host", nodecall.ExecRequest{Host: "localhost"}, 1, true},
		{"a stranger", nodecall.ExecRequest{Host: "c"}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ExecTarget(c.r, members, 1)
			if got != c.want || (err == nil) != c.ok {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
}
