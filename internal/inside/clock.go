package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"golang.org/x/sys/unix"
)

// ClockCommand is the second argument of bee to print the clock before and after a command,
// and then what computed. A Detail and the command follow.
const ClockCommand = "clock"

// Detail is how much is printed of what computed.
type Detail string

// The details. Names and identities of files cost nothing; reading the files for their digests
// uses the processor after the command.
const (
	Names   Detail = "names"
	Digests Detail = "digests"
)

// A mark is what ClockCommand prints: MarkBegin, the seconds since the boot, and a new line.
// No text has the first byte of it. All marks have MarkLength bytes. FoundBegin begins a mark
// of the same length, whose number is that of the bytes of JSON after it, a fair.Found.
const (
	MarkBegin  = "\x1ebee-clock "
	FoundBegin = "\x1ebee-found "
	MarkLength = len(MarkBegin) + markDigits + 1
	markDigits = 17
)

// MaxFound bounds the bytes after a mark of what computed.
const MaxFound = 1 << 20

// Mark is a mark of a clock.
func Mark(seconds float64) string { return fmt.Sprintf("%s%0*.6f\n", MarkBegin, markDigits, seconds) }

// ReadMark returns the seconds of a mark, and whether a text is one.
func ReadMark(text string) (seconds float64, is bool) {
	rest, begins := strings.CutPrefix(text, MarkBegin)
	digits, ends := strings.CutSuffix(rest, "\n")
	seconds, err := strconv.ParseFloat(digits, 64)
	return seconds, begins && ends && err == nil && len(text) == MarkLength
}

// FoundMark is the mark before n bytes of JSON.
func FoundMark(n int) string { return fmt.Sprintf("%s%0*d\n", FoundBegin, markDigits, n) }

// ReadFoundMark returns the number of bytes after a mark, and whether a text is one.
func ReadFoundMark(text string) (n int, is bool) {
	rest, begins := strings.CutPrefix(text, FoundBegin)
	digits, ends := strings.CutSuffix(rest, "\n")
	n, err := strconv.Atoi(digits)
	return n, begins && ends && err == nil && len(text) == MarkLength && n >= 0 && n <= MaxFound
}

// runWatched runs a command between two marks, prints what computed on all hosts, and returns the exit
// code of the command. Processes of the same run are watched, whose environment has its id.
func runWatched(w io.Writer, detail Detail, args []string) (int, error) {
	others := watchOthers(detail)
	watch := watchHere()
	code, err := runTimed(w, args)
	found := ended(watch, detail)
	others.join(&found)
	if err != nil {
		return code, err
	}
	return code, printFound(w, found)
}

// watchHere looks at the processes of the run on this host.
func watchHere() *fair.Watch {
	return fair.Start(context.Background(), fair.Sought{Variable: runVariable, Value: os.Getenv(runVariable), Tools: path.Dir(Program), Prefix: prefixVariable, Here: true})
}

// ended ends a watch, and returns what was seen.
func ended(w *fair.Watch, detail Detail) fair.Found {
	if detail == Digests {
		return w.Stop()
	}
	return w.Names()
}

// Variables of processes: all of a run have runVariable, and those without a container prefixVariable, by which their
// files are known.
const (
	runVariable    = "BEE_RUN_ID"
	prefixVariable = "BEE_PREFIX"
)

func printFound(w io.Writer, found fair.Found) error {
	text, err := json.Marshal(found)
	if err != nil {
		return err
	}
	if len(text) > MaxFound { // of many hosts that differ
		for _, o := range found.Others {
			found.Unseen = append(found.Unseen, o.Host)
		}
		found.Others = nil
		if text, err = json.Marshal(found); err != nil {
			return err
		}
	}
	if len(text) > MaxFound { // paths of the job's own making: nothing is known then
		text = []byte("{}")
	}
	_, err = io.WriteString(w, FoundMark(len(text))+string(text))
	return err
}

// runTimed runs a command between two marks, and returns its exit code.
func runTimed(w io.Writer, args []string) (int, error) {
	c := exec.Command(args[0], args[1:]...) //nolint:noctx // it ends by the signals that this process passes on
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 16)
	signal.Notify(signals)
	defer signal.Stop(signals)
	if err := printMark(w); err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	for {
		select {
		case s := <-signals:
			if s != unix.SIGCHLD && s != unix.SIGURG { // of this process alone
				c.Process.Signal(s)
			}
			continue
		case err := <-ended:
			if _, is := errors.AsType[*exec.ExitError](err); err != nil && !is {
				return 0, err
			}
		}
		break
	}
	if status, is := c.ProcessState.Sys().(syscall.WaitStatus); is && status.Signaled() {
		return 128 + int(status.Signal()), printMark(w)
	}
	return c.ProcessState.ExitCode(), printMark(w)
}

func printMark(w io.Writer) error {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return err
	}
	_, err := io.WriteString(w, Mark(time.Duration(t.Nano()).Seconds()))
	return err
}
