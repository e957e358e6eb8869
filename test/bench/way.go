package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// wayArg makes this program the ProxyCommand of an ssh that is to reach a host as if
// it were far away: ADDRESS DELAY BYTES-A-SECOND. Each direction is delayed and
// limited of its own; not every kernel has netem, and this needs no root.
const wayArg = "emulated-way"

// way is how something travels: all of it later by a time, and so many bytes a second.
type way struct {
	delay time.Duration
	rate  int64
}

// carry joins standard input and output with an address, by a way.
func carry(args []string) error {
	if len(args) != 3 {
		return errors.New(wayArg + ": ADDRESS DELAY BYTES-A-SECOND")
	}
	delay, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	rate, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	return way{delay, rate}.join(os.Stdin, os.Stdout, args[0])
}

// join joins who reads and writes with an address, until one of them ends.
func (w way) join(from io.Reader, to io.Writer, address string) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	done := make(chan error, 2)
	go func() { done <- w.travel(c, from) }()
	go func() { done <- w.travel(to, c) }()
	return <-done
}

// listen has an address of this machine lead to another by the way.
func (w way) listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil { // it is closed
				return
			}
			go func() {
				defer c.Close()
				w.join(c, c, address) //nolint:errcheck // who uses it sees that
			}()
		}
	}()
	return l, nil
}

// parcel is what is on its way, and when it arrives.
type parcel struct {
	data []byte
	due  time.Time
}

// travel carries one direction. What is read leaves at the rate of the way, and
// arrives the delay later: as much is on the way as rate and delay make.
func (w way) travel(to io.Writer, from io.Reader) error {
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
	var free time.Time // when the way has carried all before
	for {
		buf := make([]byte, most)
		n, err := from.Read(buf)
		if n > 0 {
			if now := time.Now(); free.Before(now) {
				free = now
			}
			free = free.Add(time.Duration(n) * time.Second / time.Duration(w.rate))
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
