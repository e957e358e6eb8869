package far

import (
	"bytes"
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// TestPiecesStayInTheirFile refuses content that is outside of its file, or ends too early.
func TestPiecesStayInTheirFile(t *testing.T) {
	sent := func(off int64, data string, end bool) *bytes.Buffer {
		var b bytes.Buffer
		err := send(&b, off, []byte(data))
		if err == nil && end {
			err = send(&b, 0, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return &b
	}
	got := ""
	put := func(_ int64, p []byte) error {
		got += string(p)
		return nil
	}
	if err := pieces(sent(2, "data", true), 6, put); err != nil || got != "data" {
		t.Errorf("%q, %v", got, err)
	}
	for name, from := range map[string]*bytes.Buffer{
		"behind the end":       sent(3, "data", true),
		"before the beginning": sent(-1, "data", true),
		"too large":            sent(0, string(make([]byte, piece+1)), true),
		"no end":               sent(0, "data", false),
		"half a piece":         bytes.NewBuffer(sent(0, "data", false).Bytes()[:14]),
	} {
		if err := pieces(from, 6, func(int64, []byte) error { return nil }); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestFaults passes errors on by what they are.
func TestFaults(t *testing.T) {
	for _, want := range []error{remote.ErrForeign, fs.ErrClosed, remote.ErrLarge, syscall.ENOENT, syscall.ENOSPC} {
		if got := faultOf(&fs.PathError{Op: "open", Path: "f", Err: want}).err(opStat, "h:f"); !errors.Is(got, want) {
			t.Errorf("%v became %v", want, got)
		}
	}
	if got := faultOf(fsutil.ErrNotPlain).err(opStat, "h:f"); !errors.Is(got, syscall.ELOOP) {
		t.Errorf("a link became %v", got)
	}
	if faultOf(nil) != nil {
		t.Error("no error became one")
	}
	if (request{Op: opRead, Size: mostRead + 1}).Check() == nil || (request{Name: "a\x00b"}).Check() == nil || (reply{Read: -1}).Check() == nil {
		t.Error("a hostile message was accepted")
	}
}
