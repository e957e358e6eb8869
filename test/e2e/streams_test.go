package e2e

import (
	"os"
	"strings"
	"testing"
)

func TestOutputThatCannotBeShownIsTold(t *testing.T) {
	for name, want := range map[string]int{"true": 200, "exit 3": 3} {
		b, job := busyboxJob(t, "run: echo hello; "+name)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		var printed strings.Builder
		c := b.Command("run", "-q", job)
		c.Stdout, c.Stderr = full, &printed
		c.Run() //nolint:errcheck // its code is looked at
		if code := c.ProcessState.ExitCode(); code != want || !strings.Contains(printed.String(), "no space left on device") || !strings.Contains(printed.String(), "bee logs") {
			t.Errorf("%s: code %d, want %d: %s", name, code, want, printed.String())
		}
	}
}

// TestStreamsOfAJob are as it writes them: bytes of any kind, a line of any length, and each of
// the two apart. A job may close both.
func TestStreamsOfAJob(t *testing.T) {
	b, job := busyboxJob(t, "run: |", `  printf 'a\0b\377\n\033[31mc'; echo err >&2; head -c 5000000 /dev/zero | tr '\0' x`, "  exec >&- 2>&-; exit 3")
	r, want := b.Try("run", job), "a\x00b\xff\n\x1b[31mc"+strings.Repeat("x", 5_000_000)
	if r.Code != 3 || r.Stdout != want || !strings.Contains(r.Stderr, "err\n") {
		t.Errorf("code %d, %d bytes, %q", r.Code, len(r.Stdout), r.Stderr)
	}
	if l := b.Try("logs", "small"); l.Stdout != want {
		t.Errorf("its log has %d bytes, want %d", len(l.Stdout), len(want))
	}
}
