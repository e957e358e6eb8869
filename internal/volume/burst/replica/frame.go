package replica

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
)

// Kinds of frames. All numbers are little-endian.
const (
	frameBytes   = 'B' // segment, offset, length, bytes of the journal
	frameIndex   = 'I' // segment, offset, length, number of segments that are kept, these, the index
	frameNote    = 'N' // length, the note
	frameAsk     = 'A' // round, and whether everything has to be on the disk
	frameDrained = 'E' // the volume is over

	frameHave  = 'h' // of a follower: round, segment, offset
	frameAlive = 'l' // of a follower
)

// Bounds of what frames have, in bytes.
const (
	pieceSize = 1 << 20
	mostNote  = 1 << 21
	mostIndex = 1 << 32
	mostKept  = 1 << 20
)

// errFrame is about a frame that there is not.
var errFrame = &core.Error{Kind: core.Invalid, Op: "copy journal", Err: errors.New("the other process sends no frame"), Remedy: core.RemedyVersions}

// frame is what a leader sends.
type frame struct {
	kind    byte
	piece   buffer.Piece
	note    []byte
	round   uint64
	durable bool
}

// numbers writes a kind and numbers.
func numbers(w *bufio.Writer, kind byte, list ...uint64) error {
	if err := w.WriteByte(kind); err != nil {
		return err
	}
	for _, n := range list {
		if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, n)); err != nil {
			return err
		}
	}
	return nil
}

// writePiece writes a piece of the journal.
func writePiece(w *bufio.Writer, p buffer.Piece) error {
	at := uint64(p.At.At) // never negative
	if p.Index == nil {
		if err := numbers(w, frameBytes, p.At.Segment, at, uint64(len(p.Bytes))); err != nil {
			return err
		}
		_, err := w.Write(p.Bytes)
		return err
	}
	list := append([]uint64{p.At.Segment, at, uint64(len(p.Index)), uint64(len(p.Kept))}, p.Kept...)
	if err := numbers(w, frameIndex, list...); err != nil {
		return err
	}
	_, err := w.Write(p.Index)
	return err
}

func writeNote(w *bufio.Writer, note []byte) error {
	if err := numbers(w, frameNote, uint64(len(note))); err != nil {
		return err
	}
	_, err := w.Write(note)
	return err
}

func writeAsk(w *bufio.Writer, round uint64, durable bool) error {
	flag := uint64(0)
	if durable {
		flag = 1
	}
	return numbers(w, frameAsk, round, flag)
}

// readNumbers reads so many numbers.
func readNumbers(r io.Reader, n int) ([]uint64, error) {
	list := make([]uint64, 0, min(n, 1<<10))
	var b [8]byte
	for range n {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return nil, err
		}
		list = append(list, binary.LittleEndian.Uint64(b[:]))
	}
	return list, nil
}

// readBytes reads so many bytes, and allocates no more than come.
func readBytes(r io.Reader, n, most uint64) ([]byte, error) {
	if n > most {
		return nil, errFrame
	}
	raw, err := io.ReadAll(io.LimitReader(r, int64(n))) // bounded
	if err == nil && uint64(len(raw)) < n {
		err = io.ErrUnexpectedEOF
	}
	return raw, err
}

// readFrame reads what a leader sends.
func readFrame(r *bufio.Reader) (f frame, err error) {
	if f.kind, err = r.ReadByte(); err != nil {
		return f, err
	}
	var n []uint64
	switch f.kind {
	case frameBytes:
		if n, err = readNumbers(r, 3); err == nil {
			f.piece.Bytes, err = readBytes(r, n[2], pieceSize)
		}
	case frameIndex:
		if n, err = readNumbers(r, 4); err == nil && n[3] > mostKept {
			err = errFrame
		}
		if err == nil {
			f.piece.Kept, err = readNumbers(r, int(n[3])) // bounded
		}
		if err == nil {
			f.piece.Index, err = readBytes(r, n[2], mostIndex)
		}
	case frameNote:
		if n, err = readNumbers(r, 1); err == nil {
			f.note, err = readBytes(r, n[0], mostNote)
		}
		return f, err
	case frameAsk:
		if n, err = readNumbers(r, 2); err == nil {
			f.round, f.durable = n[0], n[1] != 0
		}
		return f, err
	case frameDrained:
		return f, nil
	default:
		return f, errFrame
	}
	if err == nil && n[1] > 1<<62 {
		err = errFrame
	}
	if err == nil {
		f.piece.At = buffer.Position{Segment: n[0], At: int64(n[1])} // bounded
	}
	return f, err
}

// readHave reads what a follower sends: a round of 0 is that of frameAlive.
func readHave(r *bufio.Reader) (round uint64, at buffer.Position, err error) {
	kind, err := r.ReadByte()
	if err != nil || kind == frameAlive {
		return 0, at, err
	}
	if kind != frameHave {
		return 0, at, errFrame
	}
	n, err := readNumbers(r, 3)
	if err == nil && n[2] > 1<<62 {
		err = errFrame
	}
	if err != nil {
		return 0, at, err
	}
	return n[0], buffer.Position{Segment: n[1], At: int64(n[2])}, nil // bounded
}
