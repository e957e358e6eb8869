package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

const (
	// greetingSize is the length of a greeting, padded with spaces.
	greetingSize = 64
	// greetingFormat has the protocol's name and version. The number in it is the
	// version of the frames that follow.
	greetingFormat = "BEE rpc/1 %s/%d"
	// greetWithin is how long the other end may take for its greeting: a guest that
	// is emulated on a busy host needs a while.
	greetWithin = 2 * time.Minute
	// farewell is how long an end that refuses the other's version stays to have its
	// own greeting read.
	farewell = time.Second
)

func (p Protocol) greeting() []byte {
	text := fmt.Appendf(nil, greetingFormat, p.Name, p.Version)
	return append(append(text, bytes.Repeat([]byte{' '}, greetingSize-1-len(text))...), '\n')
}

// errNoGreeting is about another end that is no process of BEE.
var errNoGreeting = errors.New("it does not speak BEE's protocol")

// refuse gives the error about a greeting that does not fit, or nil.
func (p Protocol) refuse(greeting []byte, name string) error {
	if bytes.Equal(greeting, p.greeting()) {
		return nil
	}
	fail := &core.Error{Kind: core.Unsupported, Op: "talk to", Object: name, Err: errNoGreeting, Remedy: "Use the same version of bee everywhere."}
	var frames, version int
	var other string
	text, padded := bytes.CutSuffix(greeting, []byte{'\n'})
	before, rest, split := bytes.Cut(bytes.TrimRight(text, " "), []byte{'/'})
	if _, err := fmt.Sscanf(string(rest), "%d %s", &frames, &other); err != nil || !padded || !split || string(before) != "BEE rpc" {
		fail.Kind = core.Invalid
		return fail
	}
	at := bytes.LastIndexByte([]byte(other), '/')
	if at < 0 {
		fail.Kind = core.Invalid
		return fail
	}
	if _, err := fmt.Sscanf(other[at+1:], "%d", &version); err != nil {
		fail.Kind = core.Invalid
		return fail
	}
	switch {
	case frames != 1:
		fail.Err = fmt.Errorf("it uses version %d of BEE's frames, this bee version 1", frames)
	case other[:at] != p.Name:
		fail.Err = fmt.Errorf("it speaks the protocol %q, not %q", core.Printable(other[:at], maxName), p.Name)
	default:
		fail.Err = fmt.Errorf("it speaks version %d of the protocol %q, this bee version %d", version, p.Name, p.Version)
	}
	return fail
}

// greeted is a connection that begins with the greetings of both ends. Neither end
// waits for the other's before it sends more.
type greeted struct {
	io.ReadWriteCloser
	protocol Protocol
	client   bool
	name     string

	sent    chan struct{} // closed once our greeting is written, or failed
	sendErr error
	once    sync.Once
	readErr error
	refused atomic.Pointer[core.Error] // why the other end's greeting does not fit
}

func greet(conn io.ReadWriteCloser, client bool, name string, p Protocol) *greeted {
	g := &greeted{ReadWriteCloser: conn, protocol: p, client: client, name: name, sent: make(chan struct{})}
	go func() {
		_, g.sendErr = conn.Write(p.greeting())
		close(g.sent)
	}()
	return g
}

// Beneath is the connection that the greetings go over.
func (g *greeted) Beneath() io.ReadWriteCloser { return g.ReadWriteCloser }

// Read reads the other end's greeting first.
func (g *greeted) Read(b []byte) (int, error) {
	g.once.Do(g.meet)
	if g.readErr != nil {
		return 0, g.readErr
	}
	return g.ReadWriteCloser.Read(b)
}

// Write waits until the greeting is sent.
func (g *greeted) Write(b []byte) (int, error) {
	<-g.sent
	if g.sendErr != nil {
		return 0, g.sendErr
	}
	return g.ReadWriteCloser.Write(b)
}

func (g *greeted) meet() {
	late := time.AfterFunc(greetWithin, func() { g.Close() })
	defer late.Stop()
	raw := make([]byte, greetingSize)
	if _, err := io.ReadFull(g.ReadWriteCloser, raw); err != nil {
		if !errors.Is(err, io.EOF) {
			err = fmt.Errorf("read the greeting: %w", err)
		}
		g.readErr = err
		return
	}
	if err := g.protocol.refuse(raw, g.name); err != nil {
		e, _ := errors.AsType[*core.Error](err)
		g.refused.Store(e)
		g.readErr = err
		<-g.sent       // the other end is to know why as well
		if !g.client { // a connection that is closed with unread data may lose what was sent
			end := time.AfterFunc(farewell, func() { g.Close() })
			defer end.Stop()
			io.Copy(io.Discard, g.ReadWriteCloser)
		}
	}
}
