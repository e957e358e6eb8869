package drivertest

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
)

// onTerminal looks at the terminal that it has, and says its size for each line.
const onTerminal = `test -t 0 -a -t 1 -a -t 2 || { echo "not three terminals: up"; exit; }
t=$(tty) || { echo "no name: $t up"; exit; }
case $t in /dev/pts/*) ;; *) echo "the name is $t up"; exit ;; esac
test -c "$t" || { echo "$t does not exist: up"; exit; }
echo "opened by name" >"$t" && echo up
while read line; do stty size; done`

// terminal runs a command on a terminal: it has a name in the container, the command sees
// its sizes, and what is typed reaches it as signals do.
func (s RuntimeSuite) terminal(t *testing.T) {
	box, _ := s.shared.start()
	p, err := box.Exec(t.Context(), driver.Command{
		Args: []string{"sh", "-c", onTerminal}, Env: []string{"PATH=/bin:/usr/bin"}, Terminal: &driver.TerminalSize{Rows: 33, Cols: 77},
	})
	if err != nil {
		t.Fatal(err)
	}
	end := p.Terminal()
	if end == nil {
		t.Fatal("there is no terminal")
	}
	late := time.AfterFunc(suiteTimeout, func() { end.Close() })
	defer late.Stop()
	defer end.Close()
	printed, piece := "", make([]byte, 256)
	await := func(text string) {
		t.Helper()
		for !strings.Contains(printed, text) {
			n, err := end.Read(piece)
			if printed += string(piece[:n]); err != nil && !strings.Contains(printed, text) {
				t.Fatalf("no %q in %q: %v", text, printed, err)
			}
		}
	}
	press := func(keys string) {
		t.Helper()
		if _, err := end.Write([]byte(keys)); err != nil {
			t.Fatal(err)
		}
	}
	await("up")
	if !strings.HasPrefix(printed, "opened by name\r\n") {
		t.Fatalf("it says %q", printed)
	}
	press("\n")
	await("33 77")
	if err := end.Resize(44, 88); err != nil {
		t.Fatal(err)
	}
	for printed = ""; !strings.Contains(printed, "44 88"); { // that of a guest follows a little later
		printed = ""
		press("\n")
		await(" ")
		await("\r\n")
	}
	go io.Copy(io.Discard, end) // as the contract is; its end is the process's
	press("\x03")               // Ctrl-C
	if exit, err := p.Wait(t.Context()); err != nil || exit.Signal != int(syscall.SIGINT) {
		t.Errorf("after Ctrl-C: %+v, %v", exit, err)
	}
}
