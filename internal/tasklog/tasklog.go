// Package tasklog is the record of what a task wrote: an append-only file of
// frames, each a piece of standard output or standard error with its time. It
// knows nothing of nodes or of who reads it.
//
// A frame is a header of 16 bytes, big endian (stream 1, case 3, length 4, Unix time in
// nanoseconds 8), then its data. The case is that of a pack, from 1; 0: the task is no pack.
// A writer that died within a frame leaves a torn tail, which readers ignore.
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
	Case   int       `json:"case,omitempty"` // of a pack, from 1
	Time   time.Time `json:"time"`
	Data   []byte    `json:"data"`
	// Next is the offset, in the file, of the frame after this one.
	Next int64 `json:"next"`
}

// Bytes is how many a frame has in the file.
func (f Frame) Bytes() int64 { return headerSize + int64(len(f.Data)) }

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
func (w *Writer) Write(s Stream, data []byte) error { return w.WriteOf(0, s, data) }

// WriteOf is Write for a case of a pack.
func (w *Writer) WriteOf(number int, s Stream, data []byte) error {
	for len(data) > 0 {
		piece := data[:min(len(data), maxData)]
		data = data[len(piece):]
		raw := make([]byte, headerSize+len(piece))
		setHeader(raw, Frame{Stream: s, Case: number, Time: time.Now(), Data: piece})
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
		frame, length := ofHeader(header[:])
		if frame.Stream != Stdout && frame.Stream != Stderr || length > maxData {
			return offset, fmt.Errorf("task output is damaged at byte %d", offset)
		}
		frame.Data = make([]byte, length)
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

// mostCase is the last number that a header has room for.
const mostCase = 1<<24 - 1

// setHeader fills the header of a frame.
func setHeader(raw []byte, f Frame) {
	binary.BigEndian.PutUint32(raw, uint32(f.Stream)<<24|uint32(f.Case&mostCase))
	binary.BigEndian.PutUint32(raw[4:], uint32(len(f.Data)))
	binary.BigEndian.PutUint64(raw[8:], uint64(f.Time.UnixNano()))
}

// ofHeader returns the frame of a header, without its data, and their length.
func ofHeader(raw []byte) (f Frame, length uint32) {
	f.Stream, f.Case = Stream(raw[0]), int(binary.BigEndian.Uint32(raw)&mostCase)
	f.Time = time.Unix(0, int64(binary.BigEndian.Uint64(raw[8:])))
	return f, binary.BigEndian.Uint32(raw[4:])
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
	setHeader(raw, f)
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
	f, length := ofHeader(header[:])
	if length > maxData {
		return Frame{}, fmt.Errorf("frame of %d bytes is too long", length)
	}
	f.Next, f.Data = int64(binary.BigEndian.Uint64(header[headerSize:])), make([]byte, length)
	if _, err := io.ReadFull(r, f.Data); err != nil {
		return Frame{}, io.ErrUnexpectedEOF
	}
	return f, nil
}
