package fabric

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/bee-hpc/bee/internal/fabric/loop"
	"github.com/bee-hpc/bee/internal/fabric/vhost"
)

// readBuffer holds the largest frame, and takes many small ones at once.
const readBuffer = 72 << 10

// buffers are for what has come by a connection and is not forwarded yet, of which most connections
// have nothing most of the time.
type buffers struct {
	mu    sync.Mutex
	spare [][]byte
}

// mostSpare is how many of them are kept: as many as those who read at once.
const mostSpare = 4

func (b *buffers) get() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := len(b.spare) - 1; last >= 0 {
		one := b.spare[last]
		b.spare = b.spare[:last]
		return one
	}
	return make([]byte, 0, readBuffer)
}

func (b *buffers) put(one []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.spare) < mostSpare {
		b.spare = append(b.spare, one[:0])
	}
}

// look forwards some of what has come, and reports whether that was all.
func (l *Connection) look(turn loop.Turn) (dry bool) {
	if turn == loop.Heard {
		l.carrier.Heard()
	}
	if p := l.link.f.alone(); p != nil && p.out.deep.Load() {
		if turn != loop.Own {
			return false
		}
		l.waiting.Store(false)
		p.out.settle()
		l.waiting.Store(true)
	}
	if l.in == nil {
		l.in = l.link.f.buffers.get()
	}
	n, err := l.c.Read(l.in[len(l.in):cap(l.in)])
	dry = errors.Is(err, loop.ErrNothing)
	if dry {
		err = nil
	}
	if l.in = l.in[:len(l.in)+n]; n > 0 {
		l.hear()
		used, wrong := l.forward()
		err = cmp.Or(wrong, err)
		l.in = l.in[:copy(l.in, l.in[used:])] // the beginning of a frame
	}
	if len(l.in) == 0 {
		l.link.f.buffers.put(l.in)
		l.in = nil
	}
	if err != nil {
		l.fail(err)
	}
	return dry || err != nil
}

// forward is take, unless the connection has ended.
func (l *Connection) forward() (used int, err error) {
	l.forwarding.Lock()
	defer l.forwarding.Unlock()
	if l.over {
		return 0, net.ErrClosed
	}
	l.waiting.Store(false)
	defer l.waiting.Store(true)
	return l.take()
}

// take forwards the frames that are there as a whole, and reports how many bytes
// they were.
func (l *Connection) take() (used int, err error) {
	b, in := &l.burst, l.in
	defer b.through()
	frames, bytes := 0, 0
	for len(in)-used >= lengthSize {
		n := int(binary.BigEndian.Uint32(in[used:]))
		if n <= signEras {
			rest := in[used+lengthSize:]
			if n == signEras && len(rest) < MostConnections {
				break
			}
			if err := l.reported(n, rest); err != nil {
				return used, err
			}
			if used += lengthSize; n == signEras {
				used += MostConnections
			}
			continue
		}
		if n < b.f.header+ethernetHeader || n > maxFrame {
			return used, fmt.Errorf("a frame of %d bytes cannot be", n)
		}
		if len(in)-used-lengthSize < n {
			break
		}
		b.forward(vhost.Frame{Head: in[used+lengthSize:][:n]})
		frames++
		bytes += n
		used += lengthSize + n
	}
	l.link.received.add(frames, bytes)
	return used, nil
}

// reported deals with a sign.
func (l *Connection) reported(sign int, rest []byte) error {
	switch sign {
	case signMore:
		l.link.asked.Store(true)
	case signAsk:
		l.burst.through()
		l.owed.Add(1)
		l.out.rouse()
	case signAnswer:
		return l.answer()
	case signEras:
		l.burst.through()
		if !l.link.awaitEras(l, rest[:MostConnections]) {
			return errGivenUp
		}
	}
	return nil
}
