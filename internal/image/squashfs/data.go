package squashfs

import (
	"encoding/binary"
	"fmt"
	"io"
)

const dataUnpacked = 1 << 24 // in the size of a block of data

// Copy writes the contents of a plain file. It may be called once for each.
func (s *FS) Copy(w io.Writer, f *File) error {
	n := f.inode
	left, at := n.size, n.start
	for left > 0 {
		if left < uint64(s.block) && n.fragment != noFragment {
			return s.tail(w, n, int(left))
		}
		var b [4]byte
		if err := n.blocks.read(b[:]); err != nil {
			return err
		}
		want := int(min(left, uint64(s.block)))
		word := binary.LittleEndian.Uint32(b[:])
		block := s.plain[:want]
		if word == 0 {
			clear(block) // a hole
		} else {
			got, err := s.unpack(block, at, word)
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("a block of it has %d bytes, not %d", got, want)
			}
		}
		at += uint64(word &^ dataUnpacked)
		left -= uint64(want)
		if _, err := w.Write(block); err != nil {
			return err
		}
	}
	return nil
}

// unpack reads the block of data at a place, of a size with the bit of those that are not
// compressed.
func (s *FS) unpack(plain []byte, at uint64, word uint32) (int, error) {
	size := int(word &^ dataUnpacked)
	switch {
	case size == 0 || size > s.block:
		return 0, fmt.Errorf("a block of data has %d bytes", size)
	case word&dataUnpacked == 0:
		if err := s.readAt(s.packed[:size], at); err != nil {
			return 0, err
		}
		return s.decompress(plain, s.packed[:size])
	case size > len(plain):
		return 0, errTooLarge
	}
	return size, s.readAt(plain[:size], at)
}

// tail writes the end of a file, which is stored in a block with those of others.
func (s *FS) tail(w io.Writer, n inode, size int) error {
	if n.fragment >= s.fragments {
		return fmt.Errorf("its end is in fragment %d of %d", n.fragment, s.fragments)
	}
	b, err := s.data.get(uint64(n.fragment), func() (*cached, error) {
		var row [16]byte
		if err := s.row(s.fragTable, n.fragment, fragmentsBlock, row[:]); err != nil {
			return nil, err
		}
		plain := make([]byte, s.block)
		got, err := s.unpack(plain, binary.LittleEndian.Uint64(row[:]), binary.LittleEndian.Uint32(row[8:]))
		return &cached{at: uint64(n.fragment), data: plain[:got]}, err
	})
	if err != nil {
		return err
	}
	if uint64(n.offset)+uint64(size) > uint64(len(b.data)) {
		return fmt.Errorf("its end is at %d of a fragment of %d bytes", n.offset, len(b.data))
	}
	_, err = w.Write(b.data[n.offset:][:size])
	return err
}
