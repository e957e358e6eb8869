package sshlink

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

func TestChecksOfCalls(t *testing.T) {
	for _, c := range []struct {
		name string
		v    interface{ Check() error }
		ok   bool
	}{
		{"pool", poolOffer{wire.HiddenPrefix + "X", wire.NewKey()}, true},
		{"pool by a file", poolOffer{"/run/user/0/ssh-agent", wire.NewKey()}, false},
		{"pool without a key", poolOffer{wire.HiddenPrefix + "X", nil}, false},
		{"more connections than may be", poolRequest{wire.MaxPooled + 1}, false},
		{"no connections", poolRequest{}, false},
		{"a rendezvous", rendezvousRequest{driver.RendezvousSpec{Name: "m", Limit: time.Second}}, true},
		{"a rendezvous without an end", rendezvousRequest{driver.RendezvousSpec{Name: "m"}}, false},
		{"a rendezvous without a name", rendezvousRequest{driver.RendezvousSpec{Limit: time.Second}}, false},
		{"a place to meet", listening{[]string{"10.0.0.1:80", "[::1]:80"}}, true},
		{"a place without a port", listening{[]string{"10.0.0.1"}}, false},
		{"too many places", listening{make([]string, 1000)}, false},
		{"met", met{Addr: "10.0.0.1:80"}, true},
		{"met nobody", met{}, false},
		{"bytes that were sent", sent{Bytes: 1}, true},
		{"negative bytes", sent{Bytes: -1}, false},
	} {
		if err := c.v.Check(); (err == nil) != c.ok || err != nil && !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// FuzzReplies: whatever an agent replies is refused or usable.
func FuzzReplies(f *testing.F) {
	for _, v := range []any{poolOffer{wire.HiddenPrefix, wire.NewKey()}, met{Addr: "a:1"}, sent{}} {
		raw, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if o, err := rpc.Decode[poolOffer](raw); err == nil && !strings.HasPrefix(o.Path, "@") {
			t.Fatalf("%q passed", raw)
		}
		rpc.Decode[sent](raw) //nolint:errcheck // it must end, no more
		rpc.Decode[met](raw)  //nolint:errcheck // likewise
	})
}
