package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/bee-hpc/bee/internal/core"
)

// maxMessage bounds a message, so that a stranger cannot make us allocate.
const maxMessage = 16 << 20

// WriteMessage writes a value as four bytes of length and JSON, at once.
func WriteMessage(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(raw) > maxMessage {
		return fmt.Errorf("message of %d bytes is too long", len(raw))
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...))
	return err
}

// ReadMessage reads what WriteMessage wrote.
func ReadMessage(r io.Reader, into any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxMessage {
		return fmt.Errorf("message of %d bytes is too long", n)
	}
	raw, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil {
		return err
	}
	if len(raw) < int(n) {
		return io.ErrUnexpectedEOF
	}
	return core.DecodeJSON(raw, into)
}
