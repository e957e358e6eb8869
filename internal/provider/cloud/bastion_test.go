package cloud

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestFromBastion: ssh is let in from a bastion's address, and from that which it has in the cloud.
func TestFromBastion(t *testing.T) {
	none := func(context.Context, string) ([]string, error) { return nil, nil }
	is := func(addresses ...string) func(context.Context, string) ([]string, error) {
		return func(_ context.Context, outer string) ([]string, error) {
			if outer != "198.51.100.7" {
				return nil, errors.New("asked for " + outer)
			}
			return addresses, nil
		}
	}
	for name, c := range map[string]struct {
		bastion string
		inside  func(context.Context, string) ([]string, error)
		want    []string // nil: an error
	}{
		"elsewhere":        {"me@198.51.100.7", none, []string{"198.51.100.7/32"}},
		"no user, IPv6":    {"2001:db8::7", none, []string{"2001:db8::7/128"}},
		"in the cloud":     {"a@b@198.51.100.7", is("10.0.0.7", "198.51.100.7"), []string{"198.51.100.7/32", "10.0.0.7/32"}},
		"of no address":    {"198.51.100.7", is("10.0.0.7; reboot"), nil},
		"of another zone":  {"198.51.100.7", is("fe80::1%eth0"), nil},
		"asks for another": {"198.51.100.8", is(), nil},
		"this machine":     {"me@localhost", none, nil},
	} {
		got, err := FromBastion(t.Context(), c.bastion, c.inside)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if name == "this machine" && (!core.IsKind(err, core.Unsupported) || core.Remedy(err) == "") {
			t.Errorf("%s: %v has the remedy %q", name, err, core.Remedy(err))
		}
	}
}

// TestBastionStays: behind a bastion, the address of this machine does not count.
func TestBastionStays(t *testing.T) {
	testkit.RequireTool(t, "ssh-keygen")
	a := newAccount()
	p, l := acquired(t, a, t.TempDir())
	p.s.Bastion = "gate"
	p.s.From = func(context.Context) ([]string, error) { return nil, errors.New("it was asked for") }
	if st, err := l.Status(t.Context()); err != nil || !st.Live || l.isBarred() || time.Since(l.admitted) < time.Minute {
		t.Errorf("got %+v, %v", st, err)
	}
}
