package nodecall

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
)

// Frames of an exec stream: a byte of kind, four of length, the data.
const (
	FrameStdin  = 'i' // empty: end of input
	FrameSignal = 's' // one byte, the signal's number
	FrameStdout = 'o'
	FrameStderr = 'e'
	FrameExit   = 'x' // JSON of an ExitFrame; the last frame
	FrameCredit = 'c' // empty: one more FrameStdin may be sent
	FrameResize = 'r' // rows and columns of the terminal, 16 bits each

	FrameWritten = 'w' // of CallInput alone: how much the command has been given, 64 bits
)

// StdinCredit is how many FrameStdin may be on their way or wait for the
// program at once, each of StdinPiece bytes at most.
const (
	StdinCredit = 8
	StdinPiece  = 32 << 10
)

const maxFrame = 1 << 20

// ExitFrame is how a command ended, or why it could not be started.
type ExitFrame struct {
	Exit   core.Exit   `json:"exit"`
	Failed rpc.Failure `json:"failed,omitzero"`
}

// Check implements the check of package rpc.
func (x ExitFrame) Check() error {
	if err := x.Exit.Check(); err != nil {
		return err
	}
	return x.Failed.Check()
}

// WriteFrame writes one frame at once.
func WriteFrame(w io.Writer, kind byte, data []byte) error {
	raw := make([]byte, 5+len(data))
	raw[0] = kind
	binary.BigEndian.PutUint32(raw[1:], uint32(len(data)))
	copy(raw[5:], data)
	_, err := w.Write(raw)
	return err
}

// ReadFrame reads one frame.
func ReadFrame(r io.Reader) (byte, []byte, error) {
	var header [5]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(header[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes is too long", n)
	}
	data, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(data) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	return header[0], data, err
}
