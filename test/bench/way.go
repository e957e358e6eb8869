package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// route is how something travels to a host as if it were far away: all of it later by a
// time, and so many bytes a second in each direction, of all connections together or of
// each. Not every kernel has netem, and this needs no root.
type route struct {
	delay time.Duration
	rate  int64
	each  bool
}

// gate lets so many bytes a second pass, for all who share it.
type gate struct {
	mu   sync.Mutex
	free time.Time // when all before have passed
}

// pass gives when so many bytes have passed, after those that came before.
func (g *gate) pass(n int, rate int64) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); g.free.Before(now) {
		g.free = now
	}
	g.free = g.free.Add(time.Duration(n) * time.Second / time.Duration(rate))
	return g.free
}

// listen has an address of this machine lead to another by the way.
func (w route) listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	gates := &[2]gate{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil { // it is closed
				return
			}
			if w.each {
				gates = &[2]gate{}
			}
			go w.join(c, address, gates)
		}
	}()
	return l, nil
}

// join joins a connection with an address, until one of them ends: who uses it sees that.
func (w route) join(near net.Conn, address string, gates *[2]gate) {
	defer near.Close()
	far, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer far.Close()
	done := make(chan error, 2)
	go func() { done <- w.travel(far, near, &gates[0]) }()
	go func() { done <- w.travel(near, far, &gates[1]) }()
	<-done //nolint:errcheck // both ends report the same
}

// parcel is what is on its way, and when it arrives.
type parcel struct {
	data []byte
	due  time.Time
}

// travel carries one direction. What is read leaves at the rate of the way, and
// arrives the delay later: as much is on the way as rate and delay make.
func (w route) travel(to io.Writer, from io.Reader, g *gate) error {
	const most = 16 << 10
	// Twice what is on the way at a time: who does not take it has the way blocked.
	parcels := make(chan parcel, 2+2*int64(w.delay.Seconds()*float64(w.rate))/most)
	arrived := make(chan error, 1)
	go func() {
		for p := range parcels {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				arrived <- err
				return
			}
		}
		arrived <- io.EOF
	}()
	for {
		buf := make([]byte, most)
		n, err := from.Read(buf)
		if n > 0 {
			free := g.pass(n, w.rate)
			select {
			case parcels <- parcel{buf[:n], free.Add(w.delay)}:
			case err := <-arrived:
				return err
			}
			time.Sleep(time.Until(free) - time.Millisecond) // a timer is no finer
		}
		if err != nil {
			close(parcels)
			if err := <-arrived; !errors.Is(err, io.EOF) {
				return fmt.Errorf("carry: %w", err)
			}
			return nil
		}
	}
}
