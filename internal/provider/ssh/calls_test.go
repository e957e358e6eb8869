package ssh

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
)

func TestChecksOfCalls(t *testing.T) {
	host := func(change func(*core.Host)) granted {
		h := core.Host{Name: "a", Slots: 1, Dir: "/scratch/bee/r"}
		change(&h)
		return granted{Hosts: []core.Host{h}}
	}
	for _, c := range []struct {
		name string
		v    interface{ Check() error }
		ok   bool
	}{
		{"a lease", host(func(*core.Host) {}), true},
		{"a lease without hosts", granted{}, true},
		{"hosts in another order", host(func(h *core.Host) { h.Index = 1 }), false},
		{"a negative index", host(func(h *core.Host) { h.Index = -1 }), false},
		{"a relative directory", host(func(h *core.Host) { h.Dir = "../x" }), false},
		{"a directory with NUL", host(func(h *core.Host) { h.Dir = "/x\x00" }), false},
		{"negative cores", host(func(h *core.Host) { h.Slots = -1 }), false},
		{"a long name", host(func(h *core.Host) { h.Name = strings.Repeat("x", 1<<20) }), false},
		{"more hosts than there are", granted{Hosts: make([]core.Host, maxHosts+1)}, false},
		{"a long reason", waiting{Reason: strings.Repeat("x", 1<<20)}, false},
		{"facts", facts{Facts: driver.Facts{Usable: true, Slots: 4}}, true},
		{"a finding", facts{Facts: driver.Facts{Detail: map[string]string{"kernel": "6.1"}}}, true},
		{"a long finding", facts{Facts: driver.Facts{Detail: map[string]string{"kernel": strings.Repeat("x", 1<<20)}}}, false},
		{"a finding with NUL in its name", facts{Facts: driver.Facts{Detail: map[string]string{"\x00": "6.1"}}}, false},
		{"negative hosts", facts{Facts: driver.Facts{Hosts: -1}}, false},
		{"a negative notice", facts{Facts: driver.Facts{Notice: -1}}, false},
		{"leases", handles{{Owner: core.Owner{User: "u", Run: "r", Attempt: 1}}}, true},
		{"a negative attempt", handles{{Owner: core.Owner{Attempt: -1}}}, false},
		{"too many leases", make(handles, maxHandles+1), false},
		{"a runtime", runtimeName("rootless"), true},
		{"no runtime", runtimeName(""), true},
		{"a runtime that is a command", runtimeName("docker; rm"), false},
		{"a negative host", call{Host: -1}, false},
		{"a path with NUL", call{Path: "a\x00"}, false},
	} {
		if err := c.v.Check(); (err == nil) != c.ok || err != nil && !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// FuzzReplies: whatever an agent replies is refused or usable.
func FuzzReplies(f *testing.F) {
	for _, v := range []any{granted{Hosts: []core.Host{{Dir: "/d"}}}, facts{}, handles{{}}, status{}} {
		raw, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if g, err := rpc.Decode[granted](raw); err == nil {
			for i, h := range g.Hosts {
				if h.Index != i || h.Dir != "" && h.Dir[0] != '/' {
					t.Fatalf("%q passed", raw)
				}
			}
		}
		rpc.Decode[facts](raw)   //nolint:errcheck // it must end, no more
		rpc.Decode[handles](raw) //nolint:errcheck // likewise
		rpc.Decode[status](raw)  //nolint:errcheck // likewise
	})
}
