package treesync

import (
	"encoding/binary"
	"io"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
)

// carrier writes blocks while the next is being made. Where one has to wait for the
// way, there is time to compress it; unless that takes longer than what it saves, as
// on a way within a machine, whose pace is that of the processors.
type carrier struct {
	w      io.Writer
	pace   atomic.Int64 // nanoseconds that a block's worth of bytes takes lately; 0: not known yet
	queue  chan []byte
	spare  chan []byte // buffers of blocks that are written
	packer packer
	failed chan struct{}
	ended  chan struct{}
	err    error // once failed is closed
}

func newCarrier(w io.Writer) *carrier {
	c := &carrier{w: w, queue: make(chan []byte, 1), spare: make(chan []byte, 2), failed: make(chan struct{}), ended: make(chan struct{})}
	go c.run()
	return c
}

func (c *carrier) run() {
	defer close(c.ended)
	for b := range c.queue {
		if c.err == nil {
			begun := time.Now()
			if _, c.err = c.w.Write(b); c.err != nil {
				close(c.failed)
			}
			last := int64(time.Since(begun)) * blockSize / int64(len(b))
			if before := c.pace.Load(); before > 0 {
				last = (3*before + last) / 4
			}
			c.pace.Store(last)
		}
		c.done(b)
	}
}

// done takes a buffer back.
func (c *carrier) done(b []byte) {
	select {
	case c.spare <- b[:0]:
	default:
	}
}

// buffer gives an empty one.
func (c *carrier) buffer() []byte {
	select {
	case b := <-c.spare:
		return b
	default:
		return make([]byte, 0, blockSize)
	}
}

// put sends a block, whose records begin at an offset; it is the carrier's then.
func (c *carrier) put(b []byte, at int) error {
	select {
	case <-c.failed:
		return c.err
	default:
	}
	if len(c.queue) == cap(c.queue) {
		begun, size := time.Now(), len(b)
		packed, smaller := c.packer.pack(c.buffer(), b, at)
		if smaller {
			b, packed = packed, b
			took, pace := time.Since(begun), c.pace.Load()
			if pace == 0 { // it waits for the first one
				took = 0
			}
			c.packer.judge(took, time.Duration(pace*int64(size-len(b))/blockSize))
		}
		c.done(packed)
	}
	c.queue <- b
	return nil
}

// end waits until all is written.
func (c *carrier) end() error {
	close(c.queue)
	<-c.ended
	return c.err
}

// packedBlock marks, in the length of a block, one whose records are compressed by
// zstd. The checksum is that of the records as they were.
const packedBlock = 1 << 31

// packer compresses blocks. Of data that do not get smaller, or take longer to get so
// than it saves, it tries ever fewer.
type packer struct {
	zstd       *zstd.Encoder
	pass, skip int // blocks: since the last that was tried, and how many shall be
}

// pack appends what b becomes to an empty buffer, and reports whether that is worth it.
func (p *packer) pack(to, b []byte, at int) (packed []byte, smaller bool) {
	if p.pass < p.skip {
		p.pass++
		return to, false
	}
	p.pass = 0
	if p.zstd == nil {
		var err error
		p.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false), zstd.WithWindowSize(blockSize))
		if err != nil {
			panic(err) // the options are constants
		}
	}
	to = p.zstd.EncodeAll(b[at:], append(to, b[:at]...))
	if len(to) > len(b)-len(b)/8 {
		p.judge(1, 0)
		return to, false
	}
	binary.LittleEndian.PutUint32(to[at-blockHead:], packedBlock|uint32(len(to)-at))
	return to, true
}

// judge reports it how long a block took, and what that has saved.
func (p *packer) judge(took, saved time.Duration) {
	if took > saved {
		p.skip = min(2*p.skip+1, 63)
	} else {
		p.skip = 0
	}
}

// unpacker undoes what a packer has done.
type unpacker struct {
	zstd *zstd.Decoder
	buf  []byte
}

// unpack gives the records of a compressed block, until the next call.
func (u *unpacker) unpack(b []byte) ([]byte, error) {
	if u.zstd == nil {
		var err error
		if u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true)); err != nil {
			panic(err) // the options are constants
		}
		u.buf = make([]byte, 0, blockSize)
	}
	out, err := u.zstd.DecodeAll(b, u.buf)
	if err != nil || len(out) == 0 {
		return nil, errDamaged
	}
	return out, nil
}
