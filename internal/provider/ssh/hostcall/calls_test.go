package hostcall

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
)

func TestChecksOfCalls(t *testing.T) {
	host := func(change func(*core.Host)) Granted {
		h := core.Host{Name: "a", Slots: 1, Dir: "/scratch/bee/r"}
		change(&h)
		return Granted{Hosts: []core.Host{h}}
	}
	for _, c := range []struct {
		name string
		v    interface{ Check() error }
		ok   bool
	}{
		{"a lease", host(func(*core.Host) {}), true},
		{"a lease without hosts", Granted{}, true},
		{"hosts in another order", host(func(h *core.Host) { h.Index = 1 }), false},
		{"a negative index", host(func(h *core.Host) { h.Index = -1 }), false},
		{"a relative directory", host(func(h *core.Host) { h.Dir = "../x" }), false},
		{"a directory with NUL", host(func(h *core.Host) { h.Dir = "/x\x00" }), false},
		{"negative cores", host(func(h *core.Host) { h.Slots = -1 }), false},
		{"a long name", host(func(h *core.Host) { h.Name = strings.Repeat("x", 1<<20) }), false},
		{"more hosts than there are", Granted{Hosts: make([]core.Host, maxHosts+1)}, false},
		{"a long reason", Waiting{Reason: strings.Repeat("x", 1<<20)}, false},
		{"facts", Facts{Facts: driver.Facts{Usable: true, Slots: 4}}, true},
		{"a finding", Facts{Facts: driver.Facts{Detail: map[string]string{"kernel": "6.1"}}}, true},
		{"needs with NUL", Facts{Facts: driver.Facts{BurstNeeds: "\x00"}}, false},
		{"a long finding", Facts{Facts: driver.Facts{Detail: map[string]string{"kernel": strings.Repeat("x", 1<<20)}}}, false},
		{"a finding with NUL in its name", Facts{Facts: driver.Facts{Detail: map[string]string{"\x00": "6.1"}}}, false},
		{"negative hosts", Facts{Facts: driver.Facts{Hosts: -1}}, false},
		{"a negative notice", Facts{Facts: driver.Facts{Notice: -1}}, false},
		{"leases", Handles{{Owner: core.Owner{User: "u", Run: "r", Attempt: 1}}}, true},
		{"a negative attempt", Handles{{Owner: core.Owner{Attempt: -1}}}, false},
		{"too many leases", make(Handles, maxHandles+1), false},
		{"burst buffers", Buffers{{Host: "gpu1", Dir: "/scratch/bee/.burst/gpu1/volumes/1a2b3c4d", State: driver.BufferDrained}}, true},
		{"negative bytes of a burst buffer", Buffers{{Undrained: -1}}, false},
		{"a burst buffer with NUL", Buffers{{Detail: "\x00"}}, false},
		{"too many burst buffers", make(Buffers, maxHandles+1), false},
		{"a runtime", RuntimeName("rootless"), true},
		{"no runtime", RuntimeName(""), true},
		{"a runtime that is a command", RuntimeName("docker; rm"), false},
		{"a negative host", Call{Host: -1}, false},
		{"a path with NUL", Call{Path: "a\x00"}, false},
	} {
		if err := c.v.Check(); (err == nil) != c.ok || err != nil && !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// FuzzReplies: whatever an agent replies is refused or usable.
func FuzzReplies(f *testing.F) {
	for _, v := range []any{Granted{Hosts: []core.Host{{Dir: "/d"}}}, Facts{}, Handles{{}}, Status{}} {
		raw, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if g, err := rpc.Decode[Granted](raw); err == nil {
			for i, h := range g.Hosts {
				if h.Index != i || h.Dir != "" && h.Dir[0] != '/' {
					t.Fatalf("%q passed", raw)
				}
			}
		}
		rpc.Decode[Facts](raw)   //nolint:errcheck // it must end, no more
		rpc.Decode[Handles](raw) //nolint:errcheck // likewise
		rpc.Decode[Status](raw)  //nolint:errcheck // likewise
	})
}
