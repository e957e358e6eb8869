package ssh

import (
	"encoding/json"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// TestForeignHandles: what the site's own hosts do not confirm of a handle from a ticket
// does not count.
func TestForeignHandles(t *testing.T) {
	f := sshfarm.Start(t, 2)
	owner := core.Owner{User: "u", Run: "r", Attempt: 1}
	l, err := site(t, f, f.Names...).Acquire(t.Context(), driver.Request{Owner: owner, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { must(t, l.Release(t.Context())) }()
	another := site(t, f, f.Names...)
	checked := func(p driver.Provider, change func(*core.Handle, *handle)) (driver.Lease, error) {
		t.Helper()
		h := l.Handle()
		var own handle
		must(t, json.Unmarshal(h.Data, &own))
		change(&h, &own)
		h.Data, err = json.Marshal(own)
		must(t, err)
		if h, err = p.Foreign().Checked(t.Context(), h); err != nil {
			return nil, err
		}
		return p.Recover(t.Context(), h)
	}
	same, err := checked(another, func(_ *core.Handle, own *handle) { own.Known[0].Dir, own.Known[1].Cache = "/home/another", "/home" })
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range same.Hosts() {
		if mine := l.Hosts()[i]; h.Dir != mine.Dir || h.Cache != mine.Cache || h.Name != mine.Name {
			t.Errorf("host %d is %+v, want %+v", i, h, mine)
		}
	}
	own := driver.Adopter{Installation: "v", Machine: "m"}
	if by, err := same.Adopters().Adopt(t.Context(), own, ""); err != nil || by.Installation != "v" {
		t.Errorf("adopted by %+v, %v", by, err)
	}
	if by, err := l.Adopters().Adopt(t.Context(), driver.Adopter{Installation: "u"}, ""); err != nil || by.Installation != "v" || by.Since.IsZero() {
		t.Errorf("the first machine got %+v, %v", by, err)
	}
	same.Disconnect()
	for _, host := range f.Names { // as a sweep finds the lease where the others are silent
		if err := driver.ReleaseOwned(t.Context(), site(t, f, host), owner, "u"); err != nil {
			t.Error(err)
		}
	}
	if status, err := l.Status(t.Context()); err != nil || !status.Live {
		t.Errorf("the first machine has released it: %+v, %v", status, err)
	}
	if _, err := checked(site(t, f, f.Names[0]), func(*core.Handle, *handle) {}); !core.IsKind(err, core.Invalid) {
		t.Errorf("on a site without one of the hosts: %v", err)
	}
	for name, c := range map[string]struct {
		kind   core.Kind
		change func(*core.Handle, *handle)
	}{
		"a host of another user":     {core.Invalid, func(_ *core.Handle, own *handle) { own.Hosts[1] = "evil.example" }},
		"an option of ssh":           {core.Invalid, func(_ *core.Handle, own *handle) { own.Hosts[0] = "-oProxyCommand=id" }},
		"a host twice":               {core.Invalid, func(_ *core.Handle, own *handle) { own.Hosts[1] = own.Hosts[0] }},
		"no hosts":                   {core.Invalid, func(_ *core.Handle, own *handle) { own.Hosts, own.Leases = nil, nil }},
		"a lease too few":            {core.Invalid, func(_ *core.Handle, own *handle) { own.Leases = own.Leases[:1] }},
		"another owner of a part":    {core.Invalid, func(_ *core.Handle, own *handle) { own.Leases[1].Owner.Run = "other" }},
		"another driver":             {core.Invalid, func(h *core.Handle, _ *handle) { h.Driver = "local" }},
		"a version to come":          {core.Invalid, func(h *core.Handle, _ *handle) { h.Version++ }},
		"a lease in another place":   {core.NotFound, func(_ *core.Handle, own *handle) { own.Leases[0].Data = json.RawMessage(`{"dir":"/tmp/x/u@r@1"}`) }},
		"the hosts in another order": {core.NotFound, func(_ *core.Handle, own *handle) { own.Hosts[0], own.Hosts[1] = own.Hosts[1], own.Hosts[0] }},
		"the lease of another run":   {core.NotFound, func(h *core.Handle, own *handle) { rename(h, own, "other") }},
	} {
		if _, err := checked(another, c.change); !core.IsKind(err, c.kind) {
			t.Errorf("%s: %v of kind %v, want %v", name, err, core.KindOf(err), c.kind)
		}
	}
}

func rename(h *core.Handle, own *handle, run string) {
	h.Owner.Run = run
	for i := range own.Leases {
		own.Leases[i].Owner.Run = run
	}
}
