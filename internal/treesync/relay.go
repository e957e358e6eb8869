package treesync

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/bee-hpc/bee/internal/core"
)

// RelayKnown carries what a receiver reports what he knows to the sender, and what
// the sender answers: what Basis.SendKnown has written, and no byte more.
func RelayKnown(sender, receiver io.ReadWriter) error {
	for {
		bits, n, err := readHead(receiver)
		if err != nil {
			return err
		}
		length := int64(n)
		if bits != offerMark {
			length *= int64(len(sum{}))
			if bits&keyed != 0 {
				length += int64(len(nameKey{}))
			}
		}
		if n > maxKnown {
			return errDamaged
		}
		if _, err := sender.Write(head(bits, n)); err != nil {
			return err
		}
		if _, err := io.CopyN(sender, receiver, length); err != nil || bits != offerMark {
			return err
		}
		var answer [4]byte
		if _, err := io.ReadFull(sender, answer[:]); err != nil {
			return cut(err)
		}
		if binary.LittleEndian.Uint32(answer[:]) > maxEntries/8 {
			return errDamaged
		}
		if _, err := receiver.Write(answer[:]); err != nil {
			return err
		}
		if _, err := io.CopyN(receiver, sender, int64(binary.LittleEndian.Uint32(answer[:]))); err != nil {
			return err
		}
	}
}

// Relay carries a stream on, block by block, until its sender ends it. A receiver
// who has not got all of it by then learns that no more comes: his connection
// need not be closed for that, so he can still say what has become of it.
func Relay(receiver io.Writer, sender io.Reader) error {
	buf := make([]byte, blockHead+blockSize)
	n, err := io.ReadFull(sender, buf[:magicLen])
	for err == nil {
		if _, err := receiver.Write(buf[:n]); err != nil {
			return err
		}
		if _, err = io.ReadFull(sender, buf[:blockHead]); err != nil {
			break
		}
		size := int(binary.LittleEndian.Uint32(buf) &^ packedBlock)
		if size > blockSize {
			return errDamaged
		}
		n = blockHead + size
		_, err = io.ReadFull(sender, buf[blockHead:n])
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	_, err = receiver.Write(make([]byte, blockHead))
	return err
}

// Receiver is the far end of a stream that is sent.
type Receiver interface {
	io.WriteCloser
	// Outcome reports, once all is written, whether it has arrived; at once where
	// that cannot be any more.
	Outcome() error
}

// Deliver sends a stream and gives what has become of it. A receiver who has
// failed is not sent the rest.
func Deliver(to Receiver, send func(w io.Writer) error) error {
	outcome := make(chan error, 1)
	go func() {
		err := to.Outcome()
		if err != nil {
			to.Close()
		}
		outcome <- err
	}()
	sent := send(to)
	if sent != nil {
		to.Close() // else it would wait for the rest
	}
	err := <-outcome
	if err != nil && sent != nil && (core.IsKind(err, core.Lost) || core.IsKind(err, core.Transient) && core.OwnRemedy(err) == "") {
		return sent // which says what broke the way, unless the receiver did: with a full disk, for one
	}
	return err // without one, all has arrived, whatever the end of the way looked like
}
