// Package tasklog is the record of what a task wrote: an append-only file of
// frames, each a piece of standard output or standard error with its time. It
// knows nothing of nodes or of who reads it.
//
// A frame is a header of 16 bytes, big endian (stream 1, three bytes of zero,
// length 4, Unix time in nanoseconds 8), then its data. A writer that died in
// the midst of a frame leaves a torn tail, which readers ignore.
package tasklog

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"
)

// Stream reports which of a task's outputs a frame belongs to.
type Stream byte

// The streams.
const (
	Stdout Stream = 1
	Stderr Stream = 2
)

// Frame is one piece of output.
type Frame struct {
	Stream Stream    `json:"stream"`
	Time   time.Time `json:"time"`
	Data   []byte    `json:"data"`
	// Next is the offset, in the file, of the frame after this one.
	Next int64 `json:"next"`
}

const (
	headerSize = 16
	maxData    = 1 << 20
)

// Writer appends frames and wakes those who follow. It is safe for use by
// several goroutines.
type Writer struct {
	mu     sync.Mutex
	f      *os.File
	size   int64
	closed bool
	wake   chan struct{} // closed and replaced at each write
}

// New begins a log in an empty file, which Close closes.
func New(f *os.File) *Writer { return &Writer{f: f, wake: make(chan struct{})} }

// Write appends one frame in one system call.
func (w *Writer) Write(s Stream, data []byte) error {
	for len(data) > 0 {
		piece := data[:min(len(data), maxData)]
		data = data[len(piece):]
		raw := make([]byte, headerSize+len(piece))
		raw[0] = byte(s)
		binary.BigEndian.PutUint32(raw[4:], uint32(len(piece)))
		binary.BigEndian.PutUint64(raw[8:], uint64(time.Now().UnixNano()))
		copy(raw[headerSize:], piece)
		if err := w.append(raw); err != nil {
			return fmt.Errorf("write task output: %w", err)
		}
	}
	return nil
}

func (w *Writer) append(raw []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.f.WriteAt(raw, w.size); err != nil {
		return err // the next frame overwrites what was torn
	}
	w.size += int64(len(raw))
	close(w.wake)
	w.wake = make(chan struct{})
	return nil
}

// Close ends the log; followers get what is there and end.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	close(w.wake)
	return w.f.Close()
}

// Follow gives the frames from an offset on, and waits for more until the log
// is closed, the context ends or fn gives an error. With wait false it ends at
// the present end.
func (w *Writer) Follow(ctx context.Context, path string, offset int64, wait bool, fn func(Frame) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	offset = max(offset, 0)
	for {
		w.mu.Lock()
		wake, closed := w.wake, w.closed
		w.mu.Unlock()
		if offset, err = read(f, offset, fn); err != nil || closed || !wait {
			return err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Read gives the whole frames of a log file from an offset on.
func Read(ctx context.Context, path string, offset int64, fn func(Frame) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = read(f, max(offset, 0), func(frame Frame) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fn(frame)
	})
	return err
}

// read gives whole frames and the offset after the last of them.
func read(f io.ReaderAt, offset int64, fn func(Frame) error) (int64, error) {
	r := bufio.NewReaderSize(io.NewSectionReader(f, offset, math.MaxInt64-offset), 64<<10)
	var header [headerSize]byte
	for {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return offset, notEOF(err)
		}
		length := binary.BigEndian.Uint32(header[4:])
		if s := Stream(header[0]); s != Stdout && s != Stderr || length > maxData {
			return offset, fmt.Errorf("task output is damaged at byte %d", offset)
		}
		frame := Frame{Stream: Stream(header[0]), Time: time.Unix(0, int64(binary.BigEndian.Uint64(header[8:]))), Data: make([]byte, length)}
		if _, err := io.ReadFull(r, frame.Data); err != nil {
			return offset, notEOF(err)
		}
		offset += headerSize + int64(length)
		frame.Next = offset
		if err := fn(frame); err != nil {
			return offset, err
		}
	}
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// Send writes a frame to a stream, in the form of the file.
func Send(w io.Writer, f Frame) error {
	raw := make([]byte, headerSize+8+len(f.Data))
	raw[0] = byte(f.Stream)
	binary.BigEndian.PutUint32(raw[4:], uint32(len(f.Data)))
	binary.BigEndian.PutUint64(raw[8:], uint64(f.Time.UnixNano()))
	binary.BigEndian.PutUint64(raw[headerSize:], uint64(f.Next))
	copy(raw[headerSize+8:], f.Data)
	_, err := w.Write(raw)
	return err
}

// Receive reads what Send wrote; a bare io.EOF between two frames.
func Receive(r io.Reader) (Frame, error) {
	var header [headerSize + 8]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return Frame{}, err
	}
	length := binary.BigEndian.Uint32(header[4:])
	if length > maxData {
		return Frame{}, fmt.Errorf("frame of %d bytes is too long", length)
	}
	f := Frame{
		Stream: Stream(header[0]), Time: time.Unix(0, int64(binary.BigEndian.Uint64(header[8:]))),
		Next: int64(binary.BigEndian.Uint64(header[headerSize:])), Data: make([]byte, length),
	}
	if _, err := io.ReadFull(r, f.Data); err != nil {
		return Frame{}, io.ErrUnexpectedEOF
	}
	return f, nil
}
