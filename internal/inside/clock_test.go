package inside

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"golang.org/x/sys/unix"
)

// TestRunTimed prints the clock before and after a command, and ends as that does.
func TestRunTimed(t *testing.T) {
	for _, c := range []struct {
		command string
		code    int
	}{{"sleep 0.05", 0}, {"exit 7", 7}, {"kill -9 $$", 128 + int(unix.SIGKILL)}} {
		var out bytes.Buffer
		code, err := runTimed(&out, []string{"/bin/sh", "-c", c.command})
		text := out.String()
		begin, is := ReadMark(text[:min(MarkLength, len(text))])
		end, is2 := ReadMark(text[min(MarkLength, len(text)):])
		if !is || !is2 || err != nil || code != c.code {
			t.Errorf("%s: %q, code %d, %v", c.command, text, code, err)
		}
		if c.code == 0 && end-begin < 0.05 {
			t.Errorf("a sleep of 50 ms took from %v to %v", begin, end)
		}
	}
	if _, err := runTimed(&bytes.Buffer{}, []string{"/absent"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestRunWatched prints what computed after the marks of a command, without digests only if they
// are not wanted.
func TestRunWatched(t *testing.T) {
	t.Setenv(runVariable, "of-this-test")
	for detail, digests := range map[Detail]bool{Names: false, Digests: true} {
		var out bytes.Buffer
		code, err := runWatched(&out, detail, []string{"/bin/sh", "-c", "sleep 0.5; exit 7"})
		text := out.String()
		if err != nil || code != 7 || len(text) < 3*MarkLength {
			t.Fatalf("%s: %q, code %d, %v", detail, text, code, err)
		}
		n, is := ReadFoundMark(text[2*MarkLength : 3*MarkLength])
		var found fair.Found
		if err := json.Unmarshal([]byte(text[3*MarkLength:]), &found); err != nil || !is || n != len(text)-3*MarkLength {
			t.Fatalf("%s: %q, %v", detail, text, err)
		}
		if len(found.Files) == 0 || found.Cores == 0 || digests != (len(found.Programs) > 0) {
			t.Errorf("%s: %+v", detail, found)
		}
	}
	for _, text := range []string{FoundMark(-1), FoundMark(MaxFound + 1), Mark(5), FoundBegin} {
		if n, is := ReadFoundMark(text); is {
			t.Errorf("%q is a mark of %d bytes", text, n)
		}
	}
}
