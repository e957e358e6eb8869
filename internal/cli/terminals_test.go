package cli

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/creack/pty"
	"github.com/mattn/go-runewidth"
)

// onPTY runs a command on a terminal of a width, and returns what that shows.
func (d *desk) onPTY(columns uint16, args ...string) string {
	d.t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		d.t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: columns}); err != nil {
		d.t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // it ends with EIO
		read <- string(text)
	}()
	if err := d.beeTo(tty, args...); err != nil {
		d.t.Errorf("%s: %v", strings.Join(args, " "), err)
	}
	tty.Close()
	return strings.ReplaceAll(<-read, "\r\n", "\n")
}

func TestTablesFitTerminals(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("LC_ALL", "C.UTF-8")
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: strings.Repeat("long-name-", 12), State: state.Running},
		state.Run{ID: "bbbb2222", Name: "md", State: state.Failed, Kind: "permanent", Message: strings.Repeat("it went wrong ", 20) + "\x1b[2J", Remedy: "Look again."})
	for _, columns := range []uint16{40, 80, 200} {
		for _, line := range []string{"ps -a", "show bbbb2222"} {
			text := d.onPTY(columns, append(strings.Fields(line), "--color=never")...)
			for l := range strings.Lines(text) {
				if got := runewidth.StringWidth(strings.TrimSuffix(l, "\n")); got > int(columns) {
					t.Errorf("%s: %d of %d columns: %q", line, got, columns, l)
				}
			}
			if !strings.Contains(text, "bbbb2222") || !strings.Contains(text, "failed") || strings.Contains(text, "\x1b") {
				t.Errorf("%s, %d columns: %q", line, columns, text)
			}
			if line != "ps -a" && strings.Count(text, "wrong") != 20 {
				t.Errorf("%d columns: words are lost: %q", columns, text)
			}
		}
		if text := d.onPTY(columns, "ps", "-a"); !strings.Contains(text, "\x1b[31mfailed\x1b[0m") {
			t.Errorf("%d columns: no colour: %q", columns, text)
		}
	}
	if err := d.bee("ps", "-a"); err != nil || !strings.Contains(d.out.String(), strings.Repeat("long-name-", 12)) || strings.Contains(d.out.String(), "\x1b") {
		t.Errorf("in a pipe: %q, %v", d.out.String(), err)
	}
}

// TestWithoutHomeThereIsOneError.
func TestWithoutHomeThereIsOneError(t *testing.T) {
	for _, v := range []string{"HOME", "BEE_STATE", "BEE_CACHE", "XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(v, "")
		os.Unsetenv(v) //nolint:errcheck // it is put back
	}
	var out strings.Builder
	a := newApp(nil, &out)
	err := a.Paths()
	if err == nil {
		t.Fatal("it finds a home directory")
	}
	a.PrintError(err)
	if strings.Count(out.String(), "home directory") != 1 || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("got %q", out.String())
	}
}
