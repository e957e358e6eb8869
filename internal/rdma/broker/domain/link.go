package domain

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"golang.org/x/sys/unix"
)

// Bounds of what waits for the other broker, which reads at once unless it is stopped.
const (
	crowd       = 256     // messages, before programs that make more wait
	mostWaiting = 1 << 14 // before the link ends, without those about the end of what is there
)

// refsTime is how long the kernel may refuse descriptors because too many of the user's are on their way.
const refsTime = 5 * time.Second

// link is what two brokers have with each other. It lasts as long as its socket.
type link struct {
	far   *Far
	conn  *net.UnixConn
	ports []broker.Address // of the other broker, in the order of their LIDs
	// network is that of their IP addresses, as in Options.
	network uint64
	over    bool

	out     []packet
	waiting int  // of out, those that mostWaiting bounds
	silent  bool // a question had no answer in time, and nothing has come since
	awake   chan struct{}
	passed  chan struct{} // closed when out is taken, and new then

	known     map[uint32]bool    // processes of this broker that the other one has
	processes map[uint32]Process // of the other broker, by their numbers there
	pairs     map[name]*pair
	early     map[name]*early
	serial    uint32 // of the last pair
	questions map[subject]*question
	asked     map[uint32]subject
	question  uint32 // number of the last one
	calls     map[callName]*farCall
	called    uint64 // number of the last own call
	theirs    int    // calls of the other broker
	members   map[[16]byte][]message.Member
	count     int // of members
	listeners map[broker.Listener]bool
}

// packet is a message that waits, with descriptors of its own.
type packet struct {
	raw         []byte
	descriptors []int
}

func (p packet) close() { closeAll(p.descriptors) }

func closeAll(descriptors []int) {
	for _, fd := range descriptors {
		unix.Close(fd)
	}
}

func newLink(f *Far, c *net.UnixConn, ports []broker.Address, network uint64) *link {
	return &link{
		far: f, conn: c, ports: ports, network: network, awake: make(chan struct{}, 1), passed: make(chan struct{}),
		known: map[uint32]bool{}, processes: map[uint32]Process{}, pairs: map[name]*pair{}, early: map[name]*early{},
		questions: map[subject]*question{}, asked: map[uint32]subject{}, calls: map[callName]*farCall{},
		members: map[[16]byte][]message.Member{}, listeners: map[broker.Listener]bool{},
	}
}

// port returns the one of the other broker that has a LID.
func (l *link) port(lid uint16) (broker.Address, bool) {
	if lid < l.ports[0].LID || int(lid-l.ports[0].LID) >= len(l.ports) {
		return broker.Address{}, false
	}
	return l.ports[lid-l.ports[0].LID], true
}

// send has a message sent, with copies of descriptors: those of the caller may be closed before.
func (l *link) send(k kind, descriptors []int, parts ...any) {
	if l.over {
		return
	}
	raw, err := encode(k, parts...)
	p := packet{raw: raw}
	for _, fd := range descriptors {
		var own int
		if own, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			break
		}
		p.descriptors = append(p.descriptors, own)
	}
	counts := k != kindFail && k != kindGone && k != kindEnded // whose number is that of what was made before
	if counts {
		l.waiting++
	}
	if err == nil && counts && l.waiting > mostWaiting {
		err = errors.New("the other broker does not read")
	}
	if err != nil {
		p.close()
		l.fault(err)
		return
	}
	l.out = append(l.out, p)
	if len(l.out) >= crowd {
		l.far.full = l
	}
	select {
	case l.awake <- struct{}{}:
	default:
	}
}

// fault ends the link for an error.
func (l *link) fault(err error) {
	l.far.o.Warn(fmt.Sprintf("end the link with the run of the domain whose LIDs begin with %d", l.ports[0].LID), err)
	l.conn.Close()
}

// serve uses the link until it ends.
func (l *link) serve() {
	end, written := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(written)
		l.write(end)
	}()
	err := l.read()
	close(end)
	l.conn.Close()
	<-written
	l.far.o.Host.Lock()
	defer l.far.o.Host.Unlock()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		l.fault(err)
	}
	l.lost()
}

// write sends what there is, until the end or a failure.
func (l *link) write(end <-chan struct{}) {
	defer l.conn.Close()
	for {
		l.far.o.Host.Lock()
		out := l.out
		l.out, l.waiting = nil, 0
		close(l.passed)
		l.passed = make(chan struct{})
		if l.far.full == l {
			l.far.full = nil
		}
		l.far.o.Host.Unlock()
		for i, p := range out {
			err := sendPacket(l.conn, p.raw, p.descriptors)
			p.close()
			if err != nil {
				for _, rest := range out[i+1:] {
					rest.close()
				}
				return
			}
		}
		if len(out) > 0 {
			continue
		}
		select {
		case <-l.awake:
		case <-end:
			return
		}
	}
}

// sendPacket sends a message. It waits for room.
func sendPacket(c *net.UnixConn, raw []byte, descriptors []int) error {
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, _, err := c.WriteMsgUnix(raw, rights, nil)
		if !errors.Is(err, unix.ETOOMANYREFS) || time.Since(begun) > refsTime {
			return err
		}
	}
}

// receivePacket waits for a message. The caller closes the descriptors. io.EOF: the other side has ended.
func receivePacket(c *net.UnixConn, buf []byte) (raw []byte, descriptors []int, err error) {
	control := make([]byte, unix.CmsgSpace(4*mostDescriptors))
	n, m, flags, _, err := c.ReadMsgUnix(buf, control)
	if errors.Is(err, unix.ECONNRESET) || err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:m])
	for _, one := range messages {
		fds, ferr := unix.ParseUnixRights(&one)
		descriptors, err = append(descriptors, fds...), errors.Join(err, ferr)
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 { // also where this process has no more descriptors
		err = errors.Join(err, errors.New("a message or its descriptors have no room"))
	}
	if err != nil {
		closeAll(descriptors)
		return nil, nil, err
	}
	return buf[:n], descriptors, nil
}

// read takes messages until the link ends; nil: the other side has ended it.
func (l *link) read() error {
	buf := make([]byte, mostMessage+1)
	for {
		raw, descriptors, err := receivePacket(l.conn, buf)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d := passed{descriptors}
		l.far.o.Host.Lock()
		l.silent = false
		err = l.take(kind(raw[0]), raw[1:], &d)
		l.far.o.Host.Unlock()
		closeAll(d.left)
		if err != nil {
			return err
		}
	}
}

// passed are the descriptors of a message that nobody has taken.
type passed struct{ left []int }

// take takes n of them; false: there are not as many.
func (p *passed) take(n int) ([]int, bool) {
	if len(p.left) < n {
		return nil, false
	}
	taken := p.left[:n]
	p.left = p.left[n:]
	return taken, true
}

// take does what a message says.
func (l *link) take(k kind, raw []byte, d *passed) error {
	switch k {
	case kindProcess:
		return l.takeProcess(raw, d)
	case kindEnded:
		return l.takeEnded(raw)
	case kindConnect:
		return l.takeConnect(raw)
	case kindRings:
		return l.takeRings(raw, d)
	case kindFail:
		return l.takeFail(raw)
	case kindGone:
		return l.takeGone(raw)
	case kindResolve:
		return l.takeResolve(raw)
	case kindResolved:
		return l.takeResolved(raw, d)
	case kindAttach:
		return l.takeAttach(raw)
	case kindAttached:
		return l.takeAttached(raw, d)
	case kindMember:
		return l.takeMember(raw)
	case kindListener:
		return l.takeListener(raw)
	case kindCall:
		return l.takeCall(raw)
	case kindStep:
		return l.takeStep(raw)
	}
	return errMessage
}

// lost ends what the link was for.
func (l *link) lost() {
	f := l.far
	l.over = true
	f.links = slices.DeleteFunc(f.links, func(o *link) bool { return o == l })
	for _, p := range l.out {
		p.close()
	}
	l.out = nil
	close(l.passed)
	l.passed = make(chan struct{})
	if f.full == l {
		f.full = nil
	}
	for _, p := range l.pairs {
		p.lost()
	}
	for _, e := range l.early {
		e.close()
	}
	for _, q := range l.questions {
		q.lost()
	}
	for _, c := range l.calls {
		c.lost()
	}
	for _, p := range l.processes {
		p.Close()
	}
	l.pairs, l.early, l.questions, l.processes = nil, nil, nil, nil
}

// ended reports whether an error is the end of the other broker.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)
}
