package wire

import (
	"io"
	"time"
)

// Splice joins two connections until one of them ends.
func Splice(a, b io.ReadWriteCloser) error {
	done := make(chan error, 2)
	go func() { _, err := io.Copy(a, b); done <- err }()
	go func() { _, err := io.Copy(b, a); done <- err }()
	err := <-done
	a.Close()
	b.Close()
	select {
	case <-done: //nolint:errcheck // the first end shows it
	case <-time.After(time.Second):
	}
	return err
}
