package cloud

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// Names of a lease's files.
const (
	recordFile = "lease.json"
	keyFile    = "login"
	hostFile   = "host"
	knownFile  = "known_hosts"
)

const (
	driverVersion = 1
	mostRecord    = 1 << 20
)

// record is what is known of a lease, whole and on the disk before each call that it is
// about: so whatever process was killed, the next one makes the same calls again.
type record struct {
	Version int        `json:"version"`
	Owner   core.Owner `json:"owner"`
	Nodes   int        `json:"nodes"`
	Offer   Offer      `json:"offer"`
	// Token is of this intent alone: a cloud returns what it had for a token also when that has ended.
	Token string `json:"token"`
	Group string `json:"group,omitempty"`
	// PlacementGroup is what places the machines; "": the cloud does as it likes.
	PlacementGroup string `json:"placement_group,omitempty"`
	// Reservation is what grants the machines, to Expires; "": they are rented at once. Request is what they are for,
	// for a process that continues the wait.
	Reservation string         `json:"reservation,omitempty"`
	Request     driver.Request `json:"request,omitzero"`
	// Begins is when the reservation starts.
	Begins time.Time `json:"begins,omitzero"`
	// Script has the host key with which the machines boot.
	Script  string    `json:"script"`
	Expires time.Time `json:"expires"`
	// Asked is set once machines may have been rented, and Machines has their ids.
	Asked    bool     `json:"asked,omitempty"`
	Machines []string `json:"machines,omitempty"`
	// Gone is set before the group is removed, once the machines were seen to be gone.
	Gone bool `json:"gone,omitempty"`
	// Launched is when they were rented: they cost from then on.
	Launched time.Time `json:"launched,omitzero"`
	// Addresses, Hosts and Inner are of machines that have answered.
	Addresses []string    `json:"addresses,omitempty"`
	Keys      []string    `json:"keys,omitempty"` // the host keys that the machines have made
	Jump      string      `json:"jump,omitempty"`
	Hosts     []core.Host `json:"hosts,omitempty"`
	Inner     core.Handle `json:"inner,omitzero"`
}

// order returns the request for the machines.
func (r *record) order() Order {
	return Order{
		Offer: r.Offer, Owner: r.Owner, Token: r.Token, Nodes: r.Nodes, Script: r.Script, Group: r.Group, PlacementGroup: r.PlacementGroup,
		Reservation: r.Reservation, Expires: r.Expires,
	}
}

// group returns the group of the machines, as far as it is known.
func (r *record) group() Group {
	return Group{
		ID: r.Group, Name: "bee-" + r.Token, Network: r.Offer.Network, Owner: r.Owner, Placement: r.Offer.Placement, PlacementGroup: r.PlacementGroup,
	}
}

// ready reports whether the machines have answered.
func (r *record) ready() bool { return r != nil && len(r.Hosts) > 0 }

// moved returns the addresses of machines that are not where they were: each that was stopped and started again has
// another one. is is false while one of them has none.
func (r *record) moved(machines []Machine) (addresses []string, jump string, is bool) {
	if !r.ready() || len(r.Keys) != len(r.Machines) || len(r.Addresses) != len(r.Machines) {
		return nil, "", false
	}
	for _, id := range r.Machines {
		at := slices.IndexFunc(machines, func(m Machine) bool { return m.ID == id && m.State == Running && m.Address != "" })
		if at < 0 {
			return nil, "", false
		}
		addresses, jump = append(addresses, machines[at].Address), machines[at].Jump
	}
	return addresses, jump, jump != r.Jump || !slices.Equal(addresses, r.Addresses)
}

// connection returns how ssh reaches the machines.
func (r *record) connection(dir string) Connection {
	return Connection{User: r.Offer.User, Addresses: r.Addresses, Jump: r.Jump, Key: filepath.Join(dir, keyFile), KnownHosts: filepath.Join(dir, knownFile)}
}

// read returns the record of a lease, or nil where there is none yet.
func read(dir string, owner core.Owner) (*record, error) {
	var r record
	found, err := leasedir.ReadRecord(dir, recordFile, mostRecord, &r)
	if !found && err == nil {
		return nil, nil
	}
	if err == nil && (r.Version != driverVersion || r.Owner != owner) {
		err = fmt.Errorf("it is of version %d and owner %s, expected %d and %s", r.Version, r.Owner, driverVersion, owner)
	}
	if err != nil {
		return nil, &core.Error{Kind: core.Permanent, Op: "read the record of lease", Object: dir, Err: err}
	}
	return &r, nil
}

func (r *record) write(dir string) error { return leasedir.WriteRecord(dir, recordFile, r) }

// makeKeys makes the keys of a lease: the machines' host key, which only their start script has,
// and the login key. Any machine at any address is known by the host key at first.
func makeKeys(ctx context.Context, dir string) (host, login string, err error) {
	for _, name := range []string{hostFile, keyFile} {
		path := filepath.Join(dir, name)
		for _, old := range []string{path, path + ".pub"} {
			if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", "", leasedir.Unusable(dir, err)
			}
		}
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", path).CombinedOutput(); err != nil {
			if context.Cause(ctx) != nil {
				return "", "", context.Cause(ctx)
			}
			return "", "", &core.Error{
				Kind: core.Unsupported, Op: "make a key in", Object: dir, Err: fmt.Errorf("ssh-keygen: %w: %s", err, strings.TrimSpace(string(out))),
				Remedy: "Install the OpenSSH client, and see that the disk is not full.",
			}
		}
	}
	read := func(name string) string {
		var raw []byte
		if err == nil {
			raw, err = fsutil.ReadFile(dir, name, mostScript)
		}
		return string(raw)
	}
	host, login = read(hostFile), read(keyFile+".pub")
	known, knownErr := publicKey(read(hostFile + ".pub"))
	login, loginErr := publicKey(login)
	if err = errors.Join(err, knownErr, loginErr); err == nil {
		err = fsutil.WriteFile(filepath.Join(dir, knownFile), []byte("* "+known+"\n"), 0o600)
	}
	return host, login, err
}

// pinOwnKeys has the machines known by the keys that each has made for itself. The one that was in
// the start script is worth nothing from then on.
func pinOwnKeys(dir string, addresses, keys []string) error {
	var known strings.Builder
	for i, a := range addresses {
		fmt.Fprintf(&known, "%s,[%s]:* %s\n", a, a, keys[i]) // at any port
	}
	return fsutil.WriteFile(filepath.Join(dir, knownFile), []byte(known.String()), 0o600)
}

// lock locks a lease's directory, as leasedir.Lock.
func (p *provider) lock(ctx context.Context, dir string, create bool) (unlock func(), err error) {
	if create {
		if err := fsutil.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
			return nil, leasedir.Unusable(p.s.Dir, err)
		}
	}
	return leasedir.Lock(ctx, dir, create)
}
