package output

import (
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/creack/pty"
	"github.com/mattn/go-runewidth"
)

var escape = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// onPTY returns what is written to a terminal of a width.
func onPTY(t *testing.T, columns uint16, write func(tty *os.File)) string {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // it ends with EIO
		read <- string(text)
	}()
	write(tty)
	tty.Close()
	return strings.ReplaceAll(<-read, "\r\n", "\n")
}

func utf8Terminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("LC_ALL", "C.UTF-8")
	t.Setenv("NO_COLOR", "")
}

func exampleRows(table *Table) {
	table.Row("RUN", "NAME", "STATE", "STARTED", "WHY")
	table.Row("aaaa1111", strings.Repeat("long-name-", 8), Cell{"running", Busy}, "2026-01-02 03:04:05", "")
	table.Row("bbbb2222", "世界", Cell{"queued", Wait}, "2026-01-02 03:04:05", "it waits for a site that has \x1b[2Jroom, which takes a long time\n")
}

func TestAListFitsItsTerminal(t *testing.T) {
	utf8Terminal(t)
	for columns, want := range map[uint16][]string{
		40:  {"aaaa1111", "…", "bbbb2222"},
		80:  {"aaaa1111", "…", "2026-01-02 03:04:05"},
		200: {"aaaa1111", strings.Repeat("long-name-", 8), "2026-01-02 03:04:05", `\x1b[2Jroom, which takes a long time`},
	} {
		text := onPTY(t, columns, func(tty *os.File) {
			table := On(tty, Auto).List(3)
			exampleRows(table)
			if err := table.Flush(); err != nil {
				t.Error(err)
			}
		})
		if !strings.Contains(text, "\x1b[36mrunning") && columns > 40 {
			t.Errorf("%d columns: no colour in %q", columns, text)
		}
		text = escape.ReplaceAllString(text, "")
		for line := range strings.Lines(text) {
			if got := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); got > int(columns) {
				t.Errorf("%d of %d columns: %q", got, columns, line)
			}
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%d columns: %q lacks %q", columns, text, w)
			}
		}
		if strings.Contains(text, "03:04:05") != (columns > 40) {
			t.Errorf("%d columns: the optional column: %q", columns, text)
		}
	}
}

func TestKeptColumnsAreShortenedLast(t *testing.T) {
	utf8Terminal(t)
	for columns, want := range map[uint16]bool{40: true, 20: false} {
		text := onPTY(t, columns, func(tty *os.File) {
			table := On(tty, Auto).List(3).Keep(2)
			table.Row("RUN", "NAME", "STATE", "STARTED")
			table.Row("aaaa1111", "long-name-of-a-run", "succeeded", "2026-01-02 03:04:05")
			if err := table.Flush(); err != nil {
				t.Error(err)
			}
		})
		if strings.Contains(text, "succeeded") != want {
			t.Errorf("%d columns: %q", columns, text)
		}
	}
}

func TestProseIsWrapped(t *testing.T) {
	utf8Terminal(t)
	words := strings.Repeat("word ", 30) + strings.Repeat("x", 50) + " end"
	for _, columns := range []uint16{40, 80, 200} {
		text := onPTY(t, columns, func(tty *os.File) {
			table := On(tty, Never).Prose()
			table.Row("reason", words)
			table.Gap()
			table.Row("a longer name", "short")
			if err := table.Flush(); err != nil {
				t.Error(err)
			}
		})
		for line := range strings.Lines(text) {
			if len(line) > int(columns)+1 && !strings.Contains(line, "xxx") {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
		if got := strings.Join(strings.Fields(text), " "); got != "reason "+words+" a longer name short" {
			t.Errorf("%d columns: words are lost: %q", columns, got)
		}
	}
}

// TestNothingIsShortenedInAPipe, nor has colours or other characters there.
func TestNothingIsShortenedInAPipe(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	for color, colored := range map[Color]bool{Auto: false, Never: false, Always: true} {
		var out bytes.Buffer
		table := On(&out, color).List(3)
		exampleRows(table)
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), "\x1b[36mrunning\x1b[0m") != colored {
			t.Errorf("%q: %q", color, out.String())
		}
		for _, w := range []string{strings.Repeat("long-name-", 8), "03:04:05", "世界", "a long time\n"} {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%q lacks %q", out.String(), w)
			}
		}
	}
}

func TestColoursCanBeSwitchedOff(t *testing.T) {
	for _, c := range []struct {
		name, term, noColor string
		color               Color
		want                bool
	}{
		{"a terminal", "xterm", "", Auto, true},
		{"NO_COLOR", "xterm", "1", Auto, false},
		{"a dumb terminal", "dumb", "", Auto, false},
		{"--color=never", "xterm", "", Never, false},
		{"--color=always", "dumb", "1", Always, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			utf8Terminal(t)
			t.Setenv("TERM", c.term)
			t.Setenv("NO_COLOR", c.noColor)
			text := onPTY(t, 80, func(tty *os.File) { On(tty, c.color).Error(errors.New("wrong")) })
			if escape.MatchString(text) != c.want || !strings.Contains(text, "wrong") {
				t.Errorf("got %q", text)
			}
		})
	}
	var color Color
	if err := color.Set("sometimes"); err == nil {
		t.Error("sometimes is no colour")
	}
}

func TestALocaleWithoutUTF8HasASCII(t *testing.T) {
	utf8Terminal(t)
	t.Setenv("LC_ALL", "C")
	text := onPTY(t, 40, func(tty *os.File) {
		s := On(tty, Never)
		s.Say("→ größer …")
		table := s.List()
		exampleRows(table)
		if err := table.Flush(); err != nil {
			t.Error(err)
		}
	})
	if strings.ContainsFunc(text, func(r rune) bool { return r > 126 }) || !strings.Contains(text, "bee: -> gr??er ...") && !strings.Contains(text, "bee: -> gr?") {
		t.Errorf("got %q", text)
	}
}

// TestAnErrorIsWrittenOnce, whatever has joined it with itself.
func TestAnErrorIsWrittenOnce(t *testing.T) {
	one := &core.Error{Kind: core.Invalid, Op: "find", Err: errors.New("nothing"), Remedy: "Set HOME."}
	again := &core.Error{Kind: core.Invalid, Op: "find", Err: errors.New("nothing"), Remedy: "Set HOME."}
	var out bytes.Buffer
	On(&out, Auto).Error(errors.Join(one, errors.Join(again, errors.New("other"))))
	if want := "bee: find: nothing\n     Set HOME.\nbee: other\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
