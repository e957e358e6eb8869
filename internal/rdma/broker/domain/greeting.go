package domain

import (
	"errors"
	"net"
	"os"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// greetTime is how long two brokers may take to greet each other.
const greetTime = 10 * time.Second

// mostPorts is how many a broker has at most, as LIDs from 0xc000 on are those of multicast groups.
const mostPorts = 0xbfff

// greet sends the greeting: the build, and the ports.
func (f *Far) greet(c *net.UnixConn) error {
	h := hello{Version: version, Network: f.o.Network, Ports: uint16(len(f.o.Own))}
	copy(h.Build[:], f.o.Build)
	raw, err := encode(kindHello, h)
	for i := 0; err == nil; i++ {
		if err = sendPacket(c, raw, nil); i == len(f.o.Own) || err != nil {
			return err
		}
		raw, err = encodePort(f.o.Own[i])
	}
	return err
}

// hear reads the greeting of another broker, and returns a link with it that is not used yet.
func (f *Far) hear(c *net.UnixConn) (*link, error) {
	var h hello
	next := func(want kind) ([]byte, error) {
		raw, descriptors, err := receivePacket(c, make([]byte, mostMessage+1))
		closeAll(descriptors)
		if err != nil {
			return nil, err
		}
		if kind(raw[0]) != want || len(descriptors) > 0 {
			return nil, errMessage
		}
		return raw[1:], nil
	}
	raw, err := next(kindHello)
	if err != nil {
		return nil, err
	}
	var build [message.Build]byte
	copy(build[:], f.o.Build)
	err = whole(raw, &h)
	if err == nil && h.Version == version && h.Ports == 0 {
		return nil, errLeaves
	}
	if err != nil || h.Version != version || h.Build != build {
		return nil, errors.New("the other run has another build of bee's device bee_0")
	}
	if h.Ports > mostPorts {
		return nil, errMessage
	}
	var ports []broker.Address
	for range h.Ports {
		if raw, err = next(kindPort); err != nil {
			return nil, err
		}
		a, err := decodePort(raw)
		if err != nil {
			return nil, err
		}
		if a.LID == 0 || a.LID > mostPorts || len(ports) > 0 && a.LID != ports[len(ports)-1].LID+1 {
			return nil, errMessage
		}
		ports = append(ports, a)
	}
	return newLink(f, c, ports, h.Network), nil
}

// errLeaves is that of a greeting without ports, of a broker that leaves the domain.
var errLeaves = errors.New("the other run leaves the domain")

var errTaken = errors.New("another run of the domain has its addresses, or this one ends")

// Meet links with a broker that was in the domain before, by a connection to it. The link has its own goroutine.
func (f *Far) Meet(c *net.UnixConn) error {
	if !f.enter(c) {
		c.Close()
		return errTaken
	}
	l, err := f.exchange(c)
	if err != nil {
		f.leave(c)
		return err
	}
	go func() {
		defer f.leave(c)
		l.serve()
		f.notify()
	}()
	return nil
}

// exchange greets a broker, and links with it.
func (f *Far) exchange(c *net.UnixConn) (*link, error) {
	if err := c.SetDeadline(time.Now().Add(greetTime)); err != nil {
		return nil, err
	}
	if err := f.greet(c); err != nil {
		return nil, err
	}
	l, err := f.hear(c)
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err == nil {
		err = f.use(l)
	}
	return l, err
}

// use adds a link.
func (f *Far) use(l *link) error {
	f.o.Host.Lock()
	defer f.o.Host.Unlock()
	if !f.add(l) {
		return errTaken
	}
	return nil
}

// Accept links with a broker that has joined the domain, by its connection, until the link ends. It calls known once
// that has greeted; false: the connection is over.
func (f *Far) Accept(c *net.UnixConn, known func() bool) error {
	if !f.enter(c) {
		return refuse(c)
	}
	defer f.leave(c)
	if err := c.SetDeadline(time.Now().Add(greetTime)); err != nil {
		return err
	}
	l, err := f.hear(c)
	if err != nil {
		return err
	}
	if !known() {
		return nil
	}
	if err := f.use(l); err != nil { // before it learns of that, as its programs may ask at once
		return err
	}
	if err := errors.Join(f.greet(c), c.SetDeadline(time.Time{})); err != nil {
		f.o.Host.Lock()
		defer f.o.Host.Unlock()
		l.lost()
		return err
	}
	l.serve()
	f.notify()
	return nil
}

// leaveTime is how long a broker that leaves has for one that comes.
const leaveTime = time.Second

// refuse reports that this broker leaves. It reads what the other one has sent, which else might not see that.
func refuse(c *net.UnixConn) error {
	err := c.SetDeadline(time.Now().Add(leaveTime))
	if err != nil {
		return err
	}
	raw, err := encode(kindHello, hello{Version: version})
	if err == nil {
		err = sendPacket(c, raw, nil)
	}
	buf := make([]byte, mostMessage+1)
	for err == nil {
		var descriptors []int
		_, descriptors, err = receivePacket(c, buf)
		closeAll(descriptors)
	}
	if ended(err) || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// notify reports that a link has ended, unless all do.
func (f *Far) notify() {
	f.o.Host.Lock()
	ended := f.ended
	f.o.Host.Unlock()
	if !ended {
		f.o.Lost()
	}
}

// enter notes a connection that End closes, and waits for; false: all has ended.
func (f *Far) enter(c *net.UnixConn) bool {
	f.o.Host.Lock()
	defer f.o.Host.Unlock()
	if f.ended {
		return false
	}
	f.conns[c] = true
	f.serving.Add(1)
	return true
}

func (f *Far) leave(c *net.UnixConn) {
	c.Close()
	f.o.Host.Lock()
	defer f.o.Host.Unlock()
	delete(f.conns, c)
	f.serving.Done()
}
