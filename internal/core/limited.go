package core

import "io"

// Limited is a writer that passes on the first bytes, and drops the others.
type Limited struct {
	W    io.Writer
	Left int // bytes that are passed on yet
}

// Write implements io.Writer.
func (l *Limited) Write(p []byte) (int, error) {
	n := min(len(p), l.Left)
	l.Left -= n
	if _, err := l.W.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}
