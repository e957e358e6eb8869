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

// way joins standard input and output with an address.
func way(args []string) error {
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
	c, err := net.Dial("tcp", args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	done := make(chan error, 2)
	go func() { done <- travel(c, os.Stdin, delay, rate) }()
	go func() { done <- travel(os.Stdout, c, delay, rate) }()
	return <-done
}

// parcel is what is on its way, and when it arrives.
type parcel struct {
	data []byte
	due  time.Time
}

// travel carries one direction. What is read leaves at the rate of the way, and
// arrives the delay later: as much is on the way as rate and delay make.
func travel(to io.Writer, from io.Reader, delay time.Duration, rate int64) error {
	const most = 16 << 10
	// Twice what is on the way at a time: who does not take it has the way blocked.
	parcels := make(chan parcel, 2+2*int64(delay.Seconds()*float64(rate))/most)
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
			free = free.Add(time.Duration(n) * time.Second / time.Duration(rate))
			select {
			case parcels <- parcel{buf[:n], free.Add(delay)}:
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
