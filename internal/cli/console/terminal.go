package console

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/term"
)

// OnTerminal reports whether someone can be asked.
func OnTerminal() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd()))
}

// Agrees asks a question on the terminal, and reports whether the answer is yes.
func (a *Console) Agrees(question string) bool {
	fmt.Fprint(a.Stderr, question+" [y/N] ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return err == nil && (answer == "y" || answer == "yes")
}

// CheckTerminal refuses to lend a terminal where there is none.
func CheckTerminal() error {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	return &core.Error{Kind: core.Invalid, Op: "give the command a terminal", Err: errors.New("standard input is none"), Remedy: "Leave out -t, or run it from a terminal."}
}

// TerminalSize returns rows and columns of this process's terminal.
func TerminalSize() [2]uint16 {
	cols, rows, err := term.GetSize(int(os.Stdin.Fd()))
	if err != nil {
		return [2]uint16{24, 80}
	}
	return [2]uint16{uint16(rows), uint16(cols)}
}

// RawTerminal has this process's terminal pass every key on. What it returns ends that.
func RawTerminal() (restore func(), err error) {
	fd := int(os.Stdin.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { core.BestEffort(term.Restore(fd, before)) }, nil // the terminal may be gone
}

// Resizes gets a value when the size of this process's terminal has changed, until stop is
// called.
func Resizes() (changed <-chan struct{}, stop func()) {
	signals, done, sizes := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{}, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-signals:
			case <-done:
				return
			}
			select {
			case sizes <- struct{}{}:
			default: // the reader asks for the size as it is then
			}
		}
	}()
	return sizes, func() {
		signal.Stop(signals)
		close(done)
	}
}
