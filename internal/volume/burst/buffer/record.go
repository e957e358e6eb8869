// Package buffer is the journal of a burst buffer on a disk: records in append-only
// segments, each with a checksum. Replaying them yields everything that was written,
// in its order. The package knows nothing of files, directories and remotes.
package buffer

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// Kind is what a record is.
type Kind uint8

// Kinds.
const (
	Change Kind = iota + 1 // of names and attributes; the payload is the caller's
	Data                   // bytes of a file
)

// Record is what the journal keeps.
type Record struct {
	Kind Kind
	Flag uint8  // the caller's
	Seq  uint64 // 1, 2, …
	Ino  uint64 // of Data: the file, and where in it
	Off  int64
	Time int64
	// Payload is valid until the next record.
	Payload []byte
	// Place is where the payload can be read again.
	Place Place
}

// Place is where a record is.
type Place struct {
	Segment uint64 `json:"g"`
	At      int64  `json:"a"`
	Len     int64  `json:"l"` // of the payload
}

// MaxPayload bounds the payload of a record.
const MaxPayload = 16 << 20

const (
	magic      = 0x4a454542 // "BEEJ"
	headerSize = 56
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged is about a record that is not as it was written.
var errDamaged = errors.New("a record does not have its checksum")

// header gives the bytes before a payload: magic, checksum of all that follows, then the fields.
func header(r *Record) [headerSize]byte {
	var h [headerSize]byte
	binary.LittleEndian.PutUint32(h[0:], magic)
	h[8], h[9] = byte(r.Kind), r.Flag
	binary.LittleEndian.PutUint32(h[12:], uint32(len(r.Payload))) // at most MaxPayload
	binary.LittleEndian.PutUint64(h[16:], r.Seq)
	binary.LittleEndian.PutUint64(h[24:], r.Ino)
	binary.LittleEndian.PutUint64(h[32:], uint64(r.Off))  // read back the same way
	binary.LittleEndian.PutUint64(h[40:], uint64(r.Time)) // read back the same way
	sum := crc32.Update(crc32.Checksum(h[8:], castagnoli), castagnoli, r.Payload)
	binary.LittleEndian.PutUint32(h[4:], sum)
	return h
}

// parse reads a header, and gives the length of the payload.
func parse(h []byte, r *Record) (int, error) {
	n := binary.LittleEndian.Uint32(h[12:])
	if binary.LittleEndian.Uint32(h) != magic || n > MaxPayload {
		return 0, errDamaged
	}
	r.Kind, r.Flag = Kind(h[8]), h[9]
	r.Seq, r.Ino = binary.LittleEndian.Uint64(h[16:]), binary.LittleEndian.Uint64(h[24:])
	r.Off, r.Time = int64(binary.LittleEndian.Uint64(h[32:])), int64(binary.LittleEndian.Uint64(h[40:])) // written the same way
	return int(n), nil
}

// checked reports whether a header and a payload have the header's checksum.
func checked(h, payload []byte) bool {
	return crc32.Update(crc32.Checksum(h[8:], castagnoli), castagnoli, payload) == binary.LittleEndian.Uint32(h[4:])
}
