package squashfs

import (
	"container/list"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

const (
	metaBlock      = 8 << 10
	metaUnpacked   = 1 << 15 // in the size of a block of metadata
	idsOfBlock     = metaBlock / 4
	fragmentsBlock = metaBlock / 16
)

// cache keeps the blocks that were used last.
type cache struct {
	most   int
	blocks map[uint64]*list.Element
	order  list.List
}

type cached struct {
	at   uint64
	data []byte
	next uint64 // where the block behind begins
}

func (c *cache) get(at uint64, read func() (*cached, error)) (*cached, error) {
	if e := c.blocks[at]; e != nil {
		c.order.MoveToFront(e)
		return e.Value.(*cached), nil // nothing else is in it
	}
	b, err := read()
	if err != nil {
		return nil, err
	}
	if c.blocks == nil {
		c.blocks = map[uint64]*list.Element{}
	}
	for c.order.Len() >= c.most {
		last := c.order.Back()
		delete(c.blocks, last.Value.(*cached).at) // nothing else is in it
		c.order.Remove(last)
	}
	c.blocks[at] = c.order.PushFront(b)
	return b, nil
}

// readAt fills b from a place in the file system.
func (s *FS) readAt(b []byte, at uint64) error {
	if at > s.end || uint64(len(b)) > s.end-at {
		return fmt.Errorf("it is cut: it names bytes at %d of %d", at, s.end)
	}
	if _, err := s.part.ReadAt(b, int64(at)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// metadata reads the block of metadata at a place.
func (s *FS) metadata(at uint64) (*cached, error) {
	return s.meta.get(at, func() (*cached, error) {
		var head [2]byte
		if err := s.readAt(head[:], at); err != nil {
			return nil, err
		}
		word := binary.LittleEndian.Uint16(head[:])
		size := int(word &^ metaUnpacked)
		if size == 0 || size > metaBlock {
			return nil, fmt.Errorf("a block of metadata has %d bytes", size)
		}
		b := make([]byte, size)
		if err := s.readAt(b, at+2); err != nil {
			return nil, err
		}
		if word&metaUnpacked == 0 {
			plain := make([]byte, metaBlock)
			n, err := s.decompress(plain, b)
			if err != nil {
				return nil, fmt.Errorf("decompress metadata: %w", err)
			}
			b = plain[:n]
		}
		return &cached{at: at, data: b, next: at + 2 + uint64(size)}, nil
	})
}

// cursor reads metadata that continues from block to block.
type cursor struct {
	fs   *FS
	rest []byte
	next uint64
}

// cursor begins at an offset of the block at a place behind a table's beginning.
func (s *FS) cursor(table, block uint64, offset uint16) (*cursor, error) {
	if block > s.end || table > s.end {
		return nil, fmt.Errorf("it is cut: it names metadata at %d of %d", block, s.end)
	}
	b, err := s.metadata(table + block)
	if err != nil {
		return nil, err
	}
	if int(offset) > len(b.data) {
		return nil, fmt.Errorf("it names byte %d of %d of a block of metadata", offset, len(b.data))
	}
	return &cursor{fs: s, rest: b.data[offset:], next: b.next}, nil
}

// read fills b.
func (c *cursor) read(b []byte) error {
	for len(b) > 0 {
		if len(c.rest) == 0 {
			next, err := c.fs.metadata(c.next)
			if err != nil {
				return err
			}
			c.rest, c.next = next.data, next.next
		}
		n := copy(b, c.rest)
		b, c.rest = b[n:], c.rest[n:]
	}
	return nil
}

// row reads an entry of a table whose blocks of metadata are listed at a place.
func (s *FS) row(table uint64, index, ofBlock uint32, b []byte) error {
	var at [8]byte
	if table > s.end {
		return fmt.Errorf("it is cut: it has a table at %d of %d", table, s.end)
	}
	if err := s.readAt(at[:], table+8*uint64(index/ofBlock)); err != nil {
		return err
	}
	c, err := s.cursor(0, binary.LittleEndian.Uint64(at[:]), uint16(index%ofBlock)*uint16(len(b)))
	if err != nil {
		return err
	}
	return c.read(b)
}

// id is the user or group of a number in an inode.
func (s *FS) id(index uint16) (uint32, error) {
	if index >= s.ids {
		return 0, fmt.Errorf("it has owner %d of %d", index, s.ids)
	}
	var b [4]byte
	err := s.row(s.idTable, uint32(index), idsOfBlock, b[:])
	return binary.LittleEndian.Uint32(b[:]), err
}
