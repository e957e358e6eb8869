package hostilesite

import (
	"bufio"
	"context"
	"encoding/binary"
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
	fmt.Println("BEE have " + runtime.GOARCH + "\nBEE here")
	far := wire.NewConnPool(pipe{lines, in, out}, true)
	near := wire.NewConnPool(pipe{os.Stdin, os.Stdout, os.Stdin}, false)
	b.between(ctx, Agent, near, far) //nolint:errcheck // its end is ours
	return agent.Wait()
}

// greetingSize is the length of the greeting with which each end of a connection begins.
const greetingSize = 64

// between passes greetings and calls of a connection, until one of its ends is gone.
func (b *between) between(ctx context.Context, of string, near, far io.ReadWriteCloser) error {
	greeted := make(chan error, 2)
	for _, ends := range [][2]io.ReadWriter{{far, near}, {near, far}} {
		go func() { _, err := io.CopyN(ends[0], ends[1], greetingSize); greeted <- err }()
	}
	if err := errors.Join(<-greeted, <-greeted); err != nil {
		return err
	}
	site, err := wire.NewPeer(far, true, "the site", wire.Tolerant)
	if err != nil {
		return err
	}
	defer site.Close()
	user, err := wire.NewPeer(near, false, "bee", wire.Tolerant)
	if err != nil {
		return err
	}
	defer user.Close()
	var calls sync.WaitGroup
	go func() { // what the site has reported last arrives
		<-site.Done()
		calls.Wait()
		user.Close()
	}()
	for {
		s, err := user.AcceptStream()
		if err != nil {
			return err
		}
		calls.Go(func() {
			defer s.Close()
			if err := b.pass(ctx, of, site, s); err != nil && !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "hostile site:", err)
			}
		})
	}
}

type pipe struct {
	io.Reader
	w io.WriteCloser
	c io.Closer
}

func (p pipe) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p pipe) Close() error                { return errors.Join(p.w.Close(), p.c.Close()) }

// pass hands a call to the one who is to answer it, and changes the answers.
func (b *between) pass(ctx context.Context, of string, to *wire.Peer, s *wire.Stream) error {
	method, params, err := readCall(s)
	if err != nil {
		return err
	}
	var about struct {
		Path string `json:"path"`
	}
	json.Unmarshal(params, &about) //nolint:errcheck // of a head it has none
	if of == Agent {
		b.learn(params)
	}
	if method == "lanes" {
		return refuse(s, "no pool here")
	}
	if err := b.lies.before(ctx, of, method, about.Path, b.dir); err != nil {
		return refuse(s, err.Error())
	}
	up, err := to.OpenStream()
	if err != nil {
		return err
	}
	defer up.Close()
	if _, err := up.Write(frame(append([]byte{byte(len(method))}, method...), params)); err != nil {
		return err
	}
	dials := of == Agent && method == "dial" && strings.HasSuffix(about.Path, "/control.sock")
	if !dials {
		go func() { io.Copy(up, s); up.Close() }()
	}
	var kind [1]byte
	if _, err := io.ReadFull(up, kind[:]); err != nil {
		return err
	}
	result, err := readFrame(up)
	if err != nil {
		return err
	}
	a := answer{message: result}
	if kind[0] == 'r' {
		a = b.lies.about(of, method, about.Path, result)[0]
	}
	switch {
	case a.hang:
		<-to.Done()
		return nil
	case a.refuse != "":
		return refuse(s, a.refuse)
	}
	if _, err := s.Write(frame(kind[:], a.message)); err != nil {
		return err
	}
	switch {
	case a.raw != nil:
		_, err := s.Write(a.raw)
		return err
	case dials:
		return b.head(ctx, s, up)
	case of == Head && method == "watch":
		return b.events(ctx, s, up)
	}
	_, err = io.Copy(s, up)
	return err
}

// readCall reads the name of a call and its request.
func readCall(r io.Reader) (method string, params []byte, err error) {
	var n [1]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return "", nil, err
	}
	name := make([]byte, n[0])
	if _, err := io.ReadFull(r, name); err != nil {
		return "", nil, err
	}
	params, err = readFrame(r)
	return string(name), params, err
}

// frame appends four bytes of length and data.
func frame(to, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(data))), data...)
}

func readFrame(r io.Reader) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	data := make([]byte, binary.BigEndian.Uint32(n[:]))
	_, err := io.ReadFull(r, data)
	return data, err
}

// refuse answers a call with a failure.
func refuse(w io.Writer, why string) error {
	raw, err := json.Marshal(map[string]string{"kind": "permanent", "message": why})
	if err == nil {
		_, err = w.Write(frame([]byte{'e'}, raw))
	}
	return err
}

// sharedName is the file of the key that bee gives the nodes of an attempt.
const sharedName = "shared.key"

// controllerName and headName are the ends for that key, as package plan names them.
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
func (b *between) head(ctx context.Context, s, up *wire.Stream) error {
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
	return b.between(ctx, Head, near, far)
}

// events passes the events of a head.
func (b *between) events(ctx context.Context, s, up *wire.Stream) error {
	for {
		event, err := readFrame(up)
		if err != nil {
			return err
		}
		for _, a := range b.lies.about(Head, "watch", "", event) {
			switch {
			case a.hang:
				<-ctx.Done()
				return nil
			case a.raw != nil:
				_, err := s.Write(a.raw)
				return err
			}
			if _, err := s.Write(frame(nil, a.message)); err != nil {
				return err
			}
		}
	}
}
