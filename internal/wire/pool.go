package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// ConnPool is one connection that is made of several, so that what limits each
// of them does not limit the whole. It begins with one; more can be added while it is
// used, and taken away again. One end of it leads, and the other uses as many as that.
//
// What is written is dealt to the connections in turn and read in the same turn, so that
// nothing has to be numbered, sorted or held back, and the slowest connection sets the pace.
// It is written in pieces, each behind its head: one byte with the number of connections in
// use from this piece on, and three with the piece's length. That number changes on the
// first connection only, to which the turn then goes early (firstNext): the end that reads it there
// has read all that came by the others.
//
// A connection that breaks while it is in use breaks the pool.
type ConnPool struct {
	leads bool
	// wanted is how many connections this end's next piece is to use.
	wanted atomic.Int32
	// wrote and read count bytes.
	wrote, read atomic.Int64

	writing sync.Mutex
	out     turn
	small   [headSize + smallPiece]byte

	in    turn // of the one who reads
	left  int  // of the piece, size bytes, that is read
	size  int
	first bool // the first connection's turn is next

	mu          sync.Mutex
	arrived     *sync.Cond
	pooledConns []pooledConn
	uses        [2]int // as reported and heard last
	closed      bool
}

type pooledConn struct {
	io.ReadWriteCloser
	r *bufio.Reader
}

const (
	// MaxPooled is how many connections a pool may have.
	MaxPooled = 8
	headSize  = 4
	maxPiece  = 64 << 10
	// smallPiece is up to which size a piece is copied behind its head, to save a write.
	smallPiece = 4 << 10
	// deal is how much a connection gets before it is the next one's turn.
	deal = 64 << 10
	// poolWindow is how much of one stream may be on the way over connections, in bytes: they
	// are for long lines. Half of it is as much as all may carry by ssh.
	poolWindow = 32 << 20
	// firstNext is added to the number of connections where the first one's turn is next.
	firstNext = 0x80
)

// NewConnPool makes a pool of one connection, for one reader at a time. Exactly one of
// its two ends leads.
func NewConnPool(first io.ReadWriteCloser, leads bool) *ConnPool {
	l := &ConnPool{leads: leads, out: turn{pooledConns: 1}, in: turn{pooledConns: 1}, uses: [2]int{1, 1}}
	l.arrived = sync.NewCond(&l.mu)
	l.wanted.Store(1)
	l.pooledConns = []pooledConn{newPooled(first)}
	return l
}

func newPooled(c io.ReadWriteCloser) pooledConn {
	return pooledConn{c, bufio.NewReaderSize(c, maxPiece)}
}

// turn is which connection's turn it is. Both ends reckon it alike.
type turn struct {
	pooledConns int // in use
	at          int
	had         int // bytes since its turn began
}

func (t *turn) pass(n int, first bool) {
	switch t.had += n; {
	case first:
		t.at, t.had = 0, 0
	case t.had >= deal:
		t.at, t.had = (t.at+1)%t.pooledConns, 0
	}
}

// Add adds connections. Both ends are given them in the same order, the one that leads last:
// from then on it uses them, and so the other.
func (l *ConnPool) Add(more ...io.ReadWriteCloser) {
	l.mu.Lock()
	for _, c := range more {
		if l.closed {
			c.Close()
		}
		l.pooledConns = append(l.pooledConns, newPooled(c))
	}
	n := len(l.pooledConns)
	l.mu.Unlock()
	if l.leads {
		l.wanted.Store(int32(n)) // a few
	}
	l.arrived.Broadcast()
}

// Narrow has the pool use its first connection only, from what either end writes next
// on; the others are closed then. It is for the end that leads.
func (l *ConnPool) Narrow() { l.wanted.Store(1) }

// Settled reports whether both ends use all connections that there are, and how many: only
// then may connections be added.
func (l *ConnPool) Settled() (int, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.pooledConns)
	return n, l.uses == [2]int{n, n}
}

// Moved is how many bytes have been written and read.
func (l *ConnPool) Moved() (wrote, read int64) { return l.wrote.Load(), l.read.Load() }

// pooledConn gives a connection, and waits for one that this end has not been given yet.
func (l *ConnPool) pooledConn(i int) (pooledConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i >= len(l.pooledConns) && !l.closed {
		l.arrived.Wait()
	}
	if l.closed {
		return pooledConn{}, io.ErrClosedPipe
	}
	return l.pooledConns[i], nil
}

// reported and heard are the two sides of uses.
const reported, heard = 0, 1

// note notes how many connections one side uses now. Those that neither uses any more go.
func (l *ConnPool) note(side, n int) {
	l.mu.Lock()
	var over []pooledConn
	if l.uses[side] = n; l.uses == [2]int{1, 1} {
		over, l.pooledConns = l.pooledConns[1:], l.pooledConns[:1:1]
	}
	l.mu.Unlock()
	for _, c := range over {
		c.Close()
	}
}

// Write implements io.Writer.
func (l *ConnPool) Write(b []byte) (int, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	total := 0
	for len(b) > 0 {
		piece := b[:min(len(b), maxPiece)]
		c, err := l.pooledConn(l.out.at)
		if err != nil {
			return total, err
		}
		uses, first := int(l.wanted.Load()), false
		if uses != l.out.pooledConns && l.out.at > 0 {
			uses, first = l.out.pooledConns, true
		}
		if err := l.writePiece(c, uses, first, piece); err != nil {
			return total, err
		}
		if uses != l.out.pooledConns {
			l.out.pooledConns = uses
			l.note(reported, uses)
		}
		l.out.pass(len(piece), first)
		l.wrote.Add(int64(len(piece)))
		total, b = total+len(piece), b[len(piece):]
	}
	return total, nil
}

func (l *ConnPool) writePiece(c pooledConn, uses int, first bool, piece []byte) error {
	if first {
		uses |= firstNext
	}
	head := l.small[:headSize]
	binary.BigEndian.PutUint32(head, uint32(uses)<<24|uint32(len(piece))) // bounded
	if len(piece) <= smallPiece {
		head, piece = l.small[:headSize+copy(l.small[headSize:], piece)], nil
	}
	if _, err := c.Write(head); err != nil || piece == nil {
		return err
	}
	_, err := c.Write(piece)
	return err
}

// Read implements io.Reader.
func (l *ConnPool) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c, err := l.pooledConn(l.in.at)
	if err != nil {
		return 0, err
	}
	if l.left == 0 {
		if err := l.readHead(c); err != nil {
			return 0, err
		}
	}
	n, err := c.r.Read(b[:min(len(b), l.left)])
	l.read.Add(int64(n))
	if l.left -= n; l.left == 0 {
		l.in.pass(l.size, l.first)
	}
	if errors.Is(err, io.EOF) && l.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (l *ConnPool) readHead(c pooledConn) error {
	var head [headSize]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return err
	}
	v := binary.BigEndian.Uint32(head[:])
	uses, first, size := int(v>>24)&^firstNext, v>>24&firstNext != 0, int(v&0xffffff)
	if uses < 1 || uses > MaxPooled || size < 1 || size > maxPiece {
		return fmt.Errorf("the connection is damaged: a piece of %d bytes over %d connections", size, uses)
	}
	l.left, l.size, l.first = size, size, first
	if uses != l.in.pooledConns {
		l.in.pooledConns = uses
		if !l.leads {
			l.wanted.Store(int32(uses)) // checked above
		}
		l.note(heard, uses)
	}
	return nil
}

// Close closes all connections.
func (l *ConnPool) Close() error {
	l.mu.Lock()
	l.closed = true
	pooledConns := l.pooledConns
	l.mu.Unlock()
	l.arrived.Broadcast()
	var err error
	for _, c := range pooledConns {
		err = errors.Join(err, c.Close())
	}
	return err
}
