package rpc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bee-hpc/bee/internal/core"
)

// checker is a type that can report whether its values make sense.
type checker interface{ Check() error }

// encode gives a value as JSON of at most limit bytes.
func encode(v any, limit int) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(raw) > limit {
		return nil, tooLong(uint64(len(raw)), limit)
	}
	return raw, nil
}

func tooLong(n uint64, limit int) error {
	return &core.Error{Kind: core.Invalid, Op: "send or read a message", Err: fmt.Errorf("it has %d bytes, more than the %d of its kind", n, limit), Remedy: core.RemedyVersions}
}

// decode reads one value of JSON, and checks it. Fields that the type does not have
// and data behind the value are refused: both ends have the same types, as they have
// the same version.
func decode(raw []byte, into any) error {
	if err := core.CheckJSON(raw); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if len(bytes.TrimSpace(raw[d.InputOffset():])) > 0 {
		return errors.New("there is data behind the value")
	}
	if c, is := into.(checker); is {
		return c.Check()
	}
	return nil
}

// Decode reads one value of JSON as strictly as that of a call, and checks it.
func Decode[T any](raw []byte) (T, error) {
	var v T
	if err := decode(raw, &v); err != nil {
		return v, &core.Error{Kind: core.Invalid, Op: "read a message", Err: err}
	}
	return v, nil
}

// appendFrame appends four bytes of length and the data.
func appendFrame(to, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(data))), data...) // bounded by encode
}

// readFrame reads what appendFrame gave. It allocates no more than has come.
func readFrame(r io.Reader, limit int) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if uint64(n) > uint64(limit) { // a limit is positive
		return nil, tooLong(uint64(n), limit)
	}
	raw, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && len(raw) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	return raw, err
}

// Send writes a message of at most limit bytes to the stream of a call.
func Send(w io.Writer, message any, limit int) error {
	raw, err := encode(message, limit)
	if err == nil {
		_, err = w.Write(appendFrame(nil, raw))
	}
	return err
}

// Receive reads a message that Send wrote, and checks it. The end of the stream
// before a message is io.EOF.
func Receive[T any](r io.Reader, limit int) (T, error) {
	raw, err := readFrame(r, limit)
	if err != nil {
		var none T
		return none, err
	}
	return Decode[T](raw)
}
