package drivertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
)

var errStillSo = errors.New("it is still so")

// nodeConfig is what StandInNode reads.
type nodeConfig struct {
	Socket string `json:"socket"`
	Config string `json:"config"`
	Secret string `json:"secret"`
	// Outside has the node play with links: see playWithLinks.
	Outside string `json:"outside,omitempty"`
}

// nodeAnswer is what StandInNode reports to everyone who connects.
type nodeAnswer struct {
	Config   string `json:"config"`
	Hostname string `json:"hostname"`
	Leaked   string `json:"leaked,omitempty"`
	Session  bool   `json:"session"`           // whether it leads a session of its own
	Outside  string `json:"outside,omitempty"` // what is there, see lookOutside
	// Env is its environment, KEY=VALUE.
	Env []string `json:"env"`
}

// standInWords are what a stand-in node says to its log.
const standInWords = "stand-in node: here I am"

// NodeArg makes the test binary of a provider StandInNode.
const NodeArg = "stand-in-node"

// NodeArgv is the command line of StandInNode in the test binary.
func NodeArgv() []string { return []string{"/proc/self/exe", NodeArg} }

// StandInNode plays `bee node` in the suite for providers: it takes a
// configuration from its standard input, answers on a socket, and ends on
// SIGTERM or SIGINT. A driver's TestMain calls it in the process that Launch starts.
func StandInNode() int {
	var c nodeConfig
	d := json.NewDecoder(os.Stdin)
	if err := d.Decode(&c); err != nil {
		fmt.Fprintln(os.Stderr, "stand-in node: no configuration:", err)
		return 1
	}
	rest, _ := io.ReadAll(io.MultiReader(d.Buffered(), os.Stdin))
	if len(bytes.TrimSpace(rest)) > 0 {
		fmt.Fprintln(os.Stderr, "stand-in node: more than a configuration on standard input")
		return 1
	}
	fmt.Fprintln(os.Stderr, standInWords)
	a := nodeAnswer{Config: c.Config, Env: os.Environ()}
	a.Hostname, _ = os.Hostname()
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	a.Session = int(sid) == os.Getpid()
	for _, f := range []string{"cmdline", "environ"} {
		if b, _ := os.ReadFile("/proc/self/" + f); c.Secret != "" && bytes.Contains(b, []byte(c.Secret)) {
			a.Leaked = f
		}
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	go func() { <-term; os.Exit(0) }()
	// Through the directory, as run directories of tests are long.
	if err := os.Chdir(filepath.Dir(c.Socket)); err != nil {
		fmt.Fprintln(os.Stderr, "stand-in node:", err)
		return 1
	}
	l, err := net.Listen("unix", filepath.Base(c.Socket))
	if err != nil {
		fmt.Fprintln(os.Stderr, "stand-in node:", err)
		return 1
	}
	if c.Outside != "" {
		if err := makeOutside(c.Outside); err != nil {
			fmt.Fprintln(os.Stderr, "stand-in node:", err)
			return 1
		}
		go playWithLinks(linksVolume, c.Outside)
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return 1
		}
		if c.Outside != "" {
			a.Outside = lookOutside(c.Outside)
		}
		// The connection stays open: its end reports the node's end.
		_ = json.NewEncoder(conn).Encode(a)
	}
}

// StandInStarter plays what executes a launch spec, which here is the configurations of
// stand-in nodes, one for each host. A driver's TestMain sends it where
// the driver wants a Starter.
func StandInStarter(ctx context.Context, l driver.Lease, launchSpec []byte) error {
	var configs []string
	if err := json.Unmarshal(launchSpec, &configs); err != nil {
		return err
	}
	for i, h := range l.Hosts() {
		raw, err := json.Marshal(nodeConfig{Socket: socketPath(h), Config: configs[i] + " on " + h.Name})
		if err != nil {
			return err
		}
		if err := l.Launch(ctx, driver.NodeCommand{Host: i, Config: raw, Log: nodeLog(h)}); err != nil {
			return err
		}
	}
	return nil
}

// standIn is a connection to a stand-in node.
type standIn struct {
	net.Conn
	nodeAnswer
}

// wantEnd waits for the node's end.
func (n *standIn) wantEnd(t testing.TB) {
	t.Helper()
	_ = n.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := n.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the node did not end: %v", err)
	}
	_ = n.Close()
}

func socketPath(h core.Host) string {
	return filepath.Join(h.Dir, fmt.Sprintf("stand-in-%d.sock", h.Index))
}

// nodeLog is where a stand-in node's words go.
func nodeLog(h core.Host) string {
	return filepath.Join(h.Dir, "logs", fmt.Sprintf("stand-in-%d.log", h.Index))
}

// start launches a stand-in node and waits until it answers.
func (s ProviderSuite) start(t testing.TB, l driver.Lease, host int, config string) *standIn {
	t.Helper()
	secret := make([]byte, 16)
	_, _ = rand.Read(secret)
	return s.startAs(t, l, host, nodeConfig{Config: config, Secret: hex.EncodeToString(secret)})
}

func (s ProviderSuite) startAs(t testing.TB, l driver.Lease, host int, config nodeConfig) *standIn {
	t.Helper()
	config.Socket = socketPath(l.Hosts()[host])
	c, err := json.Marshal(config)
	check(t, err)
	if err := l.Launch(t.Context(), driver.NodeCommand{Host: host, Config: c, Log: nodeLog(l.Hosts()[host])}); err != nil {
		t.Fatal(err)
	}
	return s.ask(t, l, host)
}

// ask connects to a stand-in node, once it listens.
func (s ProviderSuite) ask(t testing.TB, l driver.Lease, host int) *standIn {
	t.Helper()
	n := &standIn{}
	testkit.Eventually(t, 20*time.Second, func() (err error) {
		n.Conn, err = l.Dial(t.Context(), host, socketPath(l.Hosts()[host]))
		return err
	})
	_ = n.SetReadDeadline(time.Now().Add(time.Minute))
	check(t, json.NewDecoder(n.Conn).Decode(&n.nodeAnswer))
	return n
}

func (s ProviderSuite) launch(t *testing.T) {
	l := s.lease(t)
	for i, h := range l.Hosts() {
		// Larger than a pipe, as configurations with many variables are.
		config := strings.Repeat("0123456789", 30_000)
		n := s.start(t, l, i, config)
		if n.Config != config {
			t.Errorf("host %d: the configuration did not arrive whole", i)
		}
		if n.Leaked != "" {
			t.Errorf("host %d: the configuration is visible in /proc/PID/%s", i, n.Leaked)
		}
		s.checkEnvironment(t, i, n.Env)
		if !n.Session {
			t.Errorf("host %d: the node would get the signals of our terminal", i)
		}
		if n.Hostname == "" || s.Nodes > 1 && n.Hostname != h.Name {
			t.Errorf("host %d: calls itself %q, we call it %q", i, n.Hostname, h.Name)
		}
		s.wantAlive(t, l, i, true)
		log := filepath.Join(t.TempDir(), "log")
		check(t, l.Fetch(t.Context(), driver.Transfer{Host: i, Remote: nodeLog(h), Local: log}))
		if raw, err := os.ReadFile(log); err != nil || !strings.Contains(string(raw), standInWords) {
			t.Errorf("host %d: the log is %q, %v", i, raw, err)
		}
	}
	_, err := l.Dial(t.Context(), 0, filepath.Join(l.Hosts()[0].Dir, "nothing.sock"))
	if !core.IsKind(err, core.NotFound) {
		t.Errorf("dial where nothing listens: %v, want not found", err)
	}
	if err := l.Launch(t.Context(), driver.NodeCommand{Host: s.Nodes}); err == nil {
		t.Error("launched on a host that is not there")
	}
}
