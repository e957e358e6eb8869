package tasklog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStart: the end of a log is found without reading what is before it, also where the data
// of a frame looks like frames, and where the last one is torn.
func TestStart(t *testing.T) {
	var inner bytes.Buffer
	frame := make([]byte, headerSize)
	copy(frame, []byte{1, 0, 0, 0, 0, 0, 0, 0, 0x18, 0, 0, 0, 0, 0, 0, 0})
	inner.Write(bytes.Repeat(frame, 500))
	for name, data := range map[string]string{"text": strings.Repeat("line\n", 20), "binary": string(bytes.Repeat([]byte{1, 0}, 3000)), "frames": inner.String()} {
		path := filepath.Join(t.TempDir(), "log")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w := New(f)
		for range 40 {
			if err := w.Write(Stdout, []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		var ends []int64
		if err := Read(t.Context(), path, 0, func(f Frame) error { ends = append(ends, f.Next); return nil }); err != nil {
			t.Fatal(err)
		}
		size := ends[len(ends)-1]
		for _, bytes := range []int64{1, size / 3, size + 1} {
			for _, end := range []int64{0, size, ends[30]} {
				start, err := Start(path, end, bytes)
				if err != nil {
					t.Fatal(err)
				}
				if end == 0 {
					end = size
				}
				if at := indexOf(ends, start); start != 0 && at < 0 || start > max(end-bytes, 0) || end-bytes-start > int64(len(data))+headerSize && start > 0 {
					t.Errorf("%s: %d bytes before %d begin at %d", name, bytes, end, start)
				}
			}
		}
		if _, err := f.WriteAt([]byte{1, 0, 0, 0, 0, 0, 1, 0, 0x18, 0}, size); err != nil { // a writer that died
			t.Fatal(err)
		}
		start, err := Start(path, 0, size/3)
		if err == nil {
			err = Read(context.Background(), path, start, func(f Frame) error {
				if string(f.Data) != data {
					return errors.New("no frame of the log")
				}
				return nil
			})
		}
		if err != nil {
			t.Errorf("%s, torn: %v", name, err)
		}
	}
}

func indexOf(list []int64, n int64) int {
	for i, v := range list {
		if v == n {
			return i
		}
	}
	return -1
}
