// Package machines gives tests of clouds machines to log in to: emulated hosts with files, an sshd and a console of
// their own, which run the start script that they are given, and power themselves off. It needs no root, and knows
// neither bee nor any cloud.
package machines

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/testkit"
)

// Port is where the machines' sshd listens: only root could have 22.
const Port = "2222"

// Park is a number of machines that come and go.
type Park struct {
	t       testing.TB
	dir     string
	ended   context.Context
	lives   sync.WaitGroup
	bastion string // the address of one, or ""
}

// New returns a park without machines. It, and its machines, end with the test.
func New(t testing.TB) *Park {
	t.Helper()
	for _, tool := range []string{"sshd", "ssh", "ssh-keygen"} {
		testkit.RequireTool(t, tool)
	}
	if os.Geteuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // sshd's own chroot, else made by the package's service
			t.Fatal(err)
		}
	}
	p := &Park{t: t, dir: t.TempDir()}
	if err := p.prepare(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.ended = ctx
	t.Cleanup(func() {
		cancel()
		p.lives.Wait()
	})
	return p
}

// User is the login user of the machines: the user of the tests.
func User(t testing.TB) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

// Proxy is the command of ssh's ProxyCommand that reaches the machines by their addresses.
func (p *Park) Proxy(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self + " " + dialArg + " " + p.dir + " %h"
}

// Scratch is a directory of which each machine has one of its own.
func (p *Park) Scratch() string { return filepath.Join(p.dir, "scratch") }

// Files is the directory with the files of all machines.
func (p *Park) Files() string { return filepath.Join(p.dir, "machines") }

// Events are called when machines of a batch change, by their number in it.
type Events struct {
	// Running: a machine has run its start script. PoweredOff: it has powered itself off, and is still there.
	// Ended: its processes are gone, as the end of the machine was asked for.
	Running, PoweredOff, Ended func(n int)
}

// Batch is machines that reach each other.
type Batch struct {
	park   *Park
	ids    []string
	world  string
	events Events
	end    chan int
	booted chan struct{} // closed once they have addresses

	mu       sync.Mutex
	hosts    *emulate.Client
	consoles []string
}

// Boot starts machines with the given ids and names. It returns at once.
func (p *Park) Boot(ids, names []string, script string, e Events) *Batch {
	b := &Batch{park: p, ids: ids, world: filepath.Join(p.dir, "worlds", ids[0]), events: e, end: make(chan int, 2*len(ids)), booted: make(chan struct{}), consoles: make([]string, len(ids))}
	p.lives.Go(func() { b.live(names, script) })
	return b
}

// End begins the end of a machine.
func (b *Batch) End(n int) { b.end <- n }

// Address returns the address that a machine has among those of its batch, or "" before it has one.
func (b *Batch) Address(n int) string {
	select {
	case <-b.booted:
	default:
		return ""
	}
	if b.hosts == nil {
		return ""
	}
	return b.hosts.Hosts()[n].Addr
}

// Interrupt has the metadata service of a machine give notice that the machine is terminated at that time.
func (b *Batch) Interrupt(n int, at time.Time) error {
	return b.announce(n, noticeName, fmt.Sprintf(`{"action": "terminate", "time": %q}`, at.UTC().Format(time.RFC3339)))
}

// Recommend has the metadata service of a machine recommend to leave it, since that time.
func (b *Batch) Recommend(n int, since time.Time) error {
	return b.announce(n, rebalanceName, fmt.Sprintf(`{"noticeTime": %q}`, since.UTC().Format(time.RFC3339)))
}

// Maintain has the metadata service of a machine announce that it is stopped for maintenance at that time.
func (b *Batch) Maintain(n int, at time.Time) error {
	return b.announce(n, maintenanceName, fmt.Sprintf(`[ {"NotBefore": %q, "Code": "system-maintenance", "State": "active"} ]`, at.UTC().Format("2 Jan 2006 15:04:05")+" GMT"))
}

// announce has the metadata service of a machine answer with a text.
func (b *Batch) announce(n int, name, text string) error {
	next := filepath.Join(b.of(n), name+".next") // renamed: it is read whole
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(b.of(n), name))
}

// Console is what a machine has written to its console.
func (b *Batch) Console(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	raw, _ := os.ReadFile(b.consoles[n]) // empty before it boots
	return string(raw)
}

// Route makes a machine reachable under an address from outside.
func (b *Batch) Route(address string, n int) error {
	inside := b.Address(n)
	if inside == "" {
		return fmt.Errorf("machine %s has no address yet", b.ids[n])
	}
	return b.route(address, inside)
}

// route has an address lead to one of the batch's own.
func (b *Batch) route(address, inside string) error {
	return os.WriteFile(filepath.Join(b.park.dir, "routes", filepath.Base(address)), []byte(b.world+"\n"+net.JoinHostPort(inside, Port)), 0o600)
}

// Unroute has an address lead nowhere.
func (b *Batch) Unroute(address string) {
	os.Remove(filepath.Join(b.park.dir, "routes", filepath.Base(address))) // it may lead nowhere already
}

// metadataArg makes the test binary the metadata service of a machine: DIR, the machine's directory here.
const metadataArg = "machines-metadata"

// dialArg makes the test binary an ssh ProxyCommand: DIR ADDRESS.
const dialArg = "machines-dial"

// Main handles the processes that a park makes of the test binary. A TestMain calls it first
// and exits with the code where it was meant.
func Main(args []string) (code int, meant bool) {
	if len(args) < 2 {
		return 0, false
	}
	switch args[1] {
	case emulate.HolderArg:
		return emulate.HolderMain(args[2:]), true
	case metadataArg:
		fmt.Fprintln(os.Stderr, serveMetadata(args[2])) // it ends with its machine
		return 1, true
	case dialArg:
		if err := dial(args[2], args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1, true
		}
		return 0, true
	}
	return 0, false
}
