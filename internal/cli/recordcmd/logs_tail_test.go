package recordcmd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/tasklog"
)

func TestTail(t *testing.T) {
	for _, c := range []struct {
		lines  int
		pieces []string
		want   string
	}{
		{2, []string{"a\nb\nc\nd\n"}, "c\nd\n"},
		{2, []string{"a\n", "b\n", "c", "d\n"}, "b\ncd\n"},
		{1, []string{"a\nb"}, "b"},
		{9, []string{"a\n", "b\n"}, "a\nb\n"},
		{0, []string{"a\n", "b\n"}, ""},
		{2, []string{"a\n", "\n", "\n"}, "\n\n"},
		{3, nil, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			x := newTail(c.lines, func(_ int, f tasklog.Frame) error { out.Write(f.Data); return nil })
			for _, p := range c.pieces {
				if err := x.piece(1, tasklog.Frame{Data: []byte(p), Time: time.Now().Add(-time.Hour)}); err != nil {
					t.Fatal(err)
				}
			}
			x.end()
			if out.String() != c.want {
				t.Errorf("%q, the last %d: %q, expected %q", c.pieces, c.lines, out.String(), c.want)
			}
		})
	}
}

// TestTailThatIsFollowed shows old lines after a rest, and new ones at once.
func TestTailThatIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		x := newTail(1, func(n int, f tasklog.Frame) error { fmt.Fprintf(&out, "%d:%s", n, f.Data); return nil })
		old := time.Now().Add(-time.Hour)
		for _, p := range []string{"a\n", "b\n"} {
			x.piece(1, tasklog.Frame{Data: []byte(p), Time: old}) //nolint:errcheck // it has none
		}
		if out.Len() > 0 {
			t.Errorf("shown at once: %q", out.String())
		}
		time.Sleep(2 * tailRest) // in virtual time
		synctest.Wait()
		x.piece(2, tasklog.Frame{Data: []byte("c\n"), Time: time.Now()}) //nolint:errcheck // it has none
		if out.String() != "1:b\n2:c\n" {
			t.Errorf("shown %q", out.String())
		}
	})
}

func TestTailThatCannotBeShown(t *testing.T) {
	full := errors.New("the disk is full")
	x := newTail(1, func(int, tasklog.Frame) error { return full })
	if err := x.piece(1, tasklog.Frame{Data: []byte("a\n")}); err != nil {
		t.Fatal(err)
	}
	x.end()
	if !errors.Is(x.lastError(), full) {
		t.Errorf("got %v", x.lastError())
	}
}
