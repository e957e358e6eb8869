package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"net"
	"sort"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/fabric"
	"golang.org/x/sys/unix"
)

// end is where a guest would be: frames go in and come out whole.
type end interface {
	Send(frame []byte) error
	// Receive gives the length of the next frame, which may be for another, and at
	// least its beginning.
	Receive(buf []byte) (int, error)
	// Wait bounds how long Receive waits; zero: for ever.
	Wait(until time.Time)
	Close() error
}

// flow is a stream of frames from one endpoint to another, of which a window
// may be on the way.
type flow struct {
	from, to              int
	sent, acked, got, due atomic.Int64
	lost                  int64
	moved                 time.Time
}

// Kinds of frames, after the Ethernet header of a type for experiments.
const (
	kindAt  = 14
	dataTag = 1
	ackTag  = 2
	header  = 14 + 1 + 4 + 8 // and which flow, and a number
)

// addresses are those of all ends.
var addresses = func() (all [memoryLinks + 1]net.HardwareAddr) {
	for rank := range all {
		all[rank], _ = net.ParseMAC(fabric.MAC(rank))
	}
	return all
}()

func address(rank int) []byte { return addresses[rank] }

func makeFrame(size, from, to int, kind byte, which int, number int64) []byte {
	f := make([]byte, max(size+14, 60))
	copy(f, address(to))
	copy(f[6:], address(from))
	f[12], f[13], f[kindAt] = 0x88, 0xb5, kind
	binary.BigEndian.PutUint32(f[kindAt+1:], uint32(which))
	binary.BigEndian.PutUint64(f[kindAt+5:], uint64(number))
	return f
}

// lay has a frame lie where an end sends it from.
func lay(e end, frame []byte) []byte {
	if guest, ok := e.(interface{ Lay(frame []byte) []byte }); ok {
		return guest.Lay(frame)
	}
	return frame
}

// timeout is after how long frames on the way count as lost.
const (
	timeout      = 50 * time.Millisecond
	crowdTimeout = time.Second
)

// measure has all flows send for a while, and counts what arrives.
func measure(ends []end, given []flow, size, window int, span time.Duration) Result {
	flows := make([]*flow, len(given))
	for i := range given {
		flows[i] = &flow{from: given[i].from, to: given[i].to}
	}
	stop := make(chan struct{})
	running := make(chan struct{}, 2*len(ends))
	every := int64(max(window/4, 1)) // how many frames an acknowledgement is for
	var wakes []chan struct{}
	for rank := range ends {
		wakes = append(wakes, make(chan struct{}, 1))
		ends[rank].Wait(time.Time{})
	}
	for rank, e := range ends {
		go func() { // what comes
			defer func() { running <- struct{}{} }()
			buf := make([]byte, 1<<17)
			own := address(rank)
			for {
				n, err := e.Receive(buf)
				if err != nil {
					return
				}
				if n < header || buf[12] != 0x88 || buf[13] != 0xb5 || !bytes.Equal(buf[:6], own) {
					continue
				}
				f := flows[binary.BigEndian.Uint32(buf[kindAt+1:])]
				if buf[kindAt] == ackTag {
					f.acked.Store(int64(binary.BigEndian.Uint64(buf[kindAt+5:])))
					select {
					case wakes[rank] <- struct{}{}:
					default:
					}
					continue
				}
				f.got.Add(1)
				if number := int64(binary.BigEndian.Uint64(buf[kindAt+5:])); f.due.Add(1)%every == 0 {
					e.Send(makeFrame(0, rank, f.from, ackTag, int(binary.BigEndian.Uint32(buf[kindAt+1:])), number)) //nolint:errcheck // it is lost then
				}
			}
		}()
		go func() { // what goes
			defer func() { running <- struct{}{} }()
			send(e, rank, flows, size, window, wakes[rank], stop)
		}()
	}
	time.Sleep(span / 5) // until all run
	begun, cpu, alone := time.Now(), processorTime(), childTime()
	var before int64
	for _, f := range flows {
		before += f.got.Load()
	}
	time.Sleep(span)
	var got, sent, lost int64
	for _, f := range flows {
		got += f.got.Load()
	}
	took, used := time.Since(begun).Seconds(), processorTime()-cpu
	alone = childTime() - alone
	close(stop)
	for _, e := range ends {
		e.Wait(time.Now().Add(100 * time.Millisecond))
	}
	for range 2 * len(ends) {
		<-running
	}
	for _, f := range flows {
		sent += f.sent.Load()
		lost += f.sent.Load() - f.got.Load()
	}
	bits := float64(got-before) * float64(size) * 8 / 1e9
	r := Result{Size: size, Gbit: bits / took, PerCPU: bits / used, Lost: math.Max(0, float64(lost)/float64(max(sent, 1))), Second: took}
	if alone > 0 {
		r.Alone = bits / alone
	}
	return r
}

// send goes round an endpoint's flows as long as their windows let it.
func send(e end, rank int, flows []*flow, size, window int, wake, stop chan struct{}) {
	var own []*flow
	var frames [][]byte
	for i, f := range flows {
		if f.from == rank {
			f.moved = time.Now()
			own = append(own, f)
			frames = append(frames, lay(e, makeFrame(size, rank, f.to, dataTag, i, 0)))
		}
	}
	timeout := timeout
	if len(flows) > 1 {
		timeout = crowdTimeout
	}
	timer := time.NewTicker(timeout / 5)
	defer timer.Stop()
	for len(own) > 0 {
		some := false
		for i, f := range own {
			sent := f.sent.Load()
			if sent-max(f.acked.Load(), f.lost) >= int64(window) {
				if time.Since(f.moved) > timeout {
					f.lost, f.moved = sent, time.Now()
				}
				continue
			}
			f.moved = time.Now()
			binary.BigEndian.PutUint64(frames[i][kindAt+5:], uint64(sent+1))
			f.sent.Store(sent + 1)
			if e.Send(frames[i]) != nil {
				return
			}
			some = true
		}
		select {
		case <-stop:
			return
		default:
		}
		if !some {
			select {
			case <-wake:
			case <-timer.C:
			case <-stop:
				return
			}
		}
	}
}

// processorTime is what this process and its children have used, in seconds.
func processorTime() float64 {
	total := 0.0
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			total += time.Duration(syscall.TimevalToNsec(syscall.Timeval(u.Utime)) + syscall.TimevalToNsec(syscall.Timeval(u.Stime))).Seconds()
		}
	}
	return total + childTime()
}

// pingPong gives half of a median round trip of a small frame, in microseconds.
func pingPong(a, b end) float64 {
	const rounds = 2000
	stop := make(chan struct{})
	b.Wait(time.Time{})
	go func() {
		defer close(stop)
		buf, answer := make([]byte, 1<<17), makeFrame(64, 1, 0, ackTag, 0, 0)
		for {
			n, err := b.Receive(buf)
			if err != nil {
				return
			}
			if n >= header && buf[kindAt] == dataTag && bytes.Equal(buf[:6], address(1)) {
				b.Send(answer) //nolint:errcheck // a lost one is seen below
			}
		}
	}()
	question, buf := makeFrame(64, 0, 1, dataTag, 0, 0), make([]byte, 1<<17)
	var times []float64
	for range rounds {
		begun := time.Now()
		if a.Send(question) != nil {
			break
		}
		a.Wait(time.Now().Add(time.Second))
		for {
			n, err := a.Receive(buf)
			if err != nil {
				break
			}
			if n >= header && buf[kindAt] == ackTag && bytes.Equal(buf[:6], address(0)) {
				times = append(times, time.Since(begun).Seconds()*1e6/2)
				break
			}
		}
	}
	b.Wait(time.Now())
	<-stop
	if len(times) == 0 {
		return 0
	}
	sort.Float64s(times)
	return times[len(times)/2]
}
