package treesync

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// blocks reads a stream block by block, and finds what was damaged or cut.
type blocks struct {
	r        io.Reader
	table    *crc32.Table
	crc      uint32
	buf      []byte
	unpacker unpacker
}

// magic reads the beginning, and gives the kind of stream.
func (s *blocks) magic() (byte, error) {
	var head [magicLen]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return 0, cut(err)
	}
	for _, kind := range []byte{kindOne, kindMany} {
		if string(head[:]) == magic(kind) {
			return kind, nil
		}
	}
	return 0, errors.New("not a file stream, or one of another version")
}

// next gives the records of a block, until the next call.
func (s *blocks) next() ([]byte, error) {
	var head [blockHead]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return nil, cut(err)
	}
	length, crc := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	n := int(length &^ packedBlock)
	if n == 0 && crc == 0 { // see Relay
		return nil, cut(io.ErrUnexpectedEOF)
	}
	if n == 0 || n > blockSize {
		return nil, errDamaged
	}
	if cap(s.buf) < n {
		// Small streams are many, and need no full block.
		s.buf = make([]byte, min(blockSize, max(n, 2*cap(s.buf))))
	}
	b := s.buf[:n]
	if _, err := io.ReadFull(s.r, b); err != nil {
		return nil, cut(err)
	}
	if length&packedBlock != 0 {
		var err error
		if b, err = s.unpacker.unpack(b); err != nil {
			return nil, err
		}
	}
	if s.crc = crc32.Update(s.crc, s.table, b); s.crc != crc {
		return nil, errDamaged
	}
	return b, nil
}

// records takes a block apart.
func records(b []byte, do func(kind byte, content []byte) error) error {
	for len(b) > 0 {
		if len(b) < recHead {
			return errRecord
		}
		n := int64(binary.LittleEndian.Uint32(b[1:]))
		if n > int64(len(b)-recHead) {
			return errRecord
		}
		if err := do(b[0], b[recHead:recHead+n]); err != nil {
			return err
		}
		b = b[recHead+n:]
	}
	return nil
}
