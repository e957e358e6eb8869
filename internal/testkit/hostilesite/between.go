package hostilesite

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// arg makes the test binary the program between: DIR, then ssh's arguments.
const arg = "hostile-ssh"

// Main handles the processes that a site makes of the test binary. A TestMain calls it
// first and exits with the code where it was meant.
func Main(args []string) (code int, meant bool) {
	if len(args) < 3 || args[1] != arg {
		return 0, false
	}
	if args[3] == "-G" { // ssh's configuration is asked for: there is none
		return 0, true
	}
	if err := (&between{dir: args[2]}).run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "hostile site:", err)
		return 1, true
	}
	return 0, true
}

// between stands between a bee and the agent of the site.
type between struct {
	dir  string
	lies *lies
}

func (b *between) run(ctx context.Context) error {
	var s settings
	raw, err := os.ReadFile(filepath.Join(b.dir, "lies.json"))
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return err
	}
	b.lies = newLies(s.Lies)
	agent := exec.CommandContext(ctx, s.Binary, "remote")
	agent.Env = []string{
		"HOME=" + filepath.Join(b.dir, "home"), "XDG_CACHE_HOME=" + filepath.Join(b.dir, "cache"), "USER=" + os.Getenv("USER"),
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "TEST_BEE_DIR=" + os.Getenv("TEST_BEE_DIR"),
	}
	agent.Dir, agent.Stderr = b.dir, os.Stderr
	in, err1 := agent.StdinPipe()
	out, err2 := agent.StdoutPipe()
	if err := errors.Join(err1, err2, agent.Start()); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	for line := ""; !strings.HasPrefix(line, "BEE here"); {
		if line, err = lines.ReadString('\n'); err != nil {
			return err
		}
	}
	site, err := rpc.Dial(wire.NewLanes(pipe{lines, in, out}, true), "the agent", wire.Patient, agentProtocol)
	if err != nil {
		return err
	}
	fmt.Println("BEE have " + runtime.GOARCH + "\nBEE here")
	user, err := rpc.NewPeer(wire.NewLanes(pipe{os.Stdin, os.Stdout, os.Stdin}, false), false, "bee", wire.Patient, agentProtocol)
	if err != nil {
		return err
	}
	user.Serve(ctx, b.server(Agent, site, nil), anybody) //nolint:errcheck // its end is ours
	site.Close()
	return agent.Wait()
}

type pipe struct {
	io.Reader
	w io.WriteCloser
	c io.Closer
}

func (p pipe) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p pipe) Close() error                { return errors.Join(p.w.Close(), p.c.Close()) }

// The protocols of an agent and of a head, as packages ssh and client have them.
var (
	agentProtocol = rpc.Protocol{Name: "remote", Version: 2}
	headProtocol  = rpc.Protocol{Name: "node", Version: 2}
)

// calls are the names of all calls that may pass.
var calls = map[string][]string{
	Agent: {
		"facts", "runtime", "acquire", "ready", "forecast", "list", "status", "alive", "launch", "entrust", "commit", "attend", "dial", "stage", "fetch",
		"yield", "inherit", "release", "image", "mark", "sees", "unmark", "store", "store-keep", "store-restore", "meet", "lanes",
	},
	Head: {"watch", "output", "exec", "stop", "extend", "save", "snapshot", "hold-snapshot", "addresses", "health", "console", "login", "fabric"},
}

// anything is a call of any content.
type anything = rpc.Method[json.RawMessage, json.RawMessage]

var anybody = rpc.Caller{Role: rpc.Controller, Rank: -1}

func named(name string) anything {
	const most = 1 << 30
	return anything{Name: name, By: rpc.Controller, Request: most, Reply: most, Within: rpc.Unlimited}
}

// server hands the calls that come to the one who is to answer them, and changes the
// answers. around, if not nil, is called with each.
func (b *between) server(of string, to *rpc.Peer, around func(call func() error) error) *rpc.Server {
	s := rpc.NewServer(nil)
	for _, name := range calls[of] {
		rpc.HandleStream(s, named(name), func(ctx context.Context, _ rpc.Caller, params json.RawMessage, a rpc.Answer[json.RawMessage]) error {
			call := func() error { return b.pass(ctx, of, to, name, params, a) }
			if around != nil {
				return around(call)
			}
			return call()
		})
	}
	return s
}

func (b *between) pass(ctx context.Context, of string, to *rpc.Peer, method string, params json.RawMessage, s rpc.Answer[json.RawMessage]) error {
	var about struct {
		Path string `json:"path"`
	}
	json.Unmarshal(params, &about) //nolint:errcheck // of a head it has none
	if of == Agent {
		b.learn(params)
	}
	if method == "lanes" {
		return errors.New("no lanes here")
	}
	if err := b.lies.before(ctx, of, method, about.Path, b.dir); err != nil {
		return err
	}
	up, err := rpc.Begin(ctx, to, named(method), params)
	if err != nil {
		return err
	}
	defer up.Close()
	result, err := rpc.Answered[json.RawMessage](up)
	if err != nil {
		return err
	}
	switch a := b.lies.about(of, method, about.Path, result)[0]; {
	case a.hang:
		<-ctx.Done()
		return ctx.Err()
	case a.refuse != "":
		return &core.Error{Kind: core.Permanent, Err: errors.New(a.refuse)}
	case a.raw != nil:
		if err := s.Reply(a.message); err != nil {
			return err
		}
		_, err := s.Write(a.raw)
		return err
	default:
		if err := s.Reply(a.message); err != nil {
			return err
		}
	}
	switch {
	case of == Agent && method == "dial" && strings.HasSuffix(about.Path, "/control.sock"):
		return b.head(ctx, s, up)
	case of == Head && method == "watch":
		return b.events(s, up)
	}
	go func() { io.Copy(up, s); up.Close() }()
	_, err = io.Copy(s, up)
	return err
}

// sharedName is the file of the key that bee gives the nodes of an attempt.
const sharedName = "shared.key"

// Names of the ends for that key, as package protocol has them.
const controllerName, headName = "controller", "node-0"

// learn keeps the key in the configuration of a node, as a site can that starts it.
func (b *between) learn(params json.RawMessage) {
	var launch struct {
		Config []byte `json:"config"`
	}
	var c struct { // of a protocol.Config
		Shared []byte `json:"shared"`
	}
	if json.Unmarshal(params, &launch) == nil && json.Unmarshal(launch.Config, &c) == nil && len(c.Shared) > 0 {
		os.WriteFile(filepath.Join(b.dir, sharedName), c.Shared, 0o600) //nolint:errcheck // noticed where it is read
	}
}

// head stands between a bee and the head.
func (b *between) head(ctx context.Context, s rpc.Answer[json.RawMessage], up *rpc.Stream) error {
	shared, err := os.ReadFile(filepath.Join(b.dir, sharedName))
	if err != nil {
		return err
	}
	key := wire.Key(shared)
	far, err := key.Client(ctx, up, controllerName, headName)
	if err != nil {
		return err
	}
	near, err := key.Server(ctx, s, headName, controllerName)
	if err != nil {
		return err
	}
	head, err := rpc.Dial(far, "the head", wire.Patient, headProtocol)
	if err != nil {
		return err
	}
	defer head.Close()
	user, err := rpc.NewPeer(near, false, "bee", wire.Patient, headProtocol)
	if err != nil {
		return err
	}
	defer user.Close()
	var calls sync.WaitGroup
	go func() { // what the head has said last arrives
		<-head.Done()
		calls.Wait()
		user.Close()
	}()
	return user.Serve(ctx, b.server(Head, head, func(call func() error) error {
		calls.Add(1)
		defer calls.Done()
		return call()
	}), anybody)
}

// events passes the events of a head.
func (b *between) events(s rpc.Answer[json.RawMessage], up *rpc.Stream) error {
	for {
		event, err := rpc.Receive[json.RawMessage](up, 1<<30)
		if err != nil {
			return err
		}
		for _, a := range b.lies.about(Head, "watch", "", event) {
			switch {
			case a.hang:
				io.Copy(io.Discard, s)
				return nil
			case a.refuse != "":
				return errors.New(a.refuse)
			case a.raw != nil:
				_, err := s.Write(a.raw)
				return err
			}
			if err := rpc.Send(s, a.message, 1<<30); err != nil {
				return err
			}
		}
	}
}
