package measure

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
)

// Two clocks are flagged that differ by more than a share of the time, and by more than a
// message may take to arrive.
const (
	mostApart   = 0.01
	clockJitter = 100 * time.Millisecond
)

// timed has a job print the clock of its guest or host before and after its command, and what computed
// there. A job without a command of its own stays as it is.
func timed(job *spec.Job, detail inside.Detail) {
	clock := []string{inside.Program, inside.Command, inside.ClockCommand, string(detail)}
	if job.Run != nil { // on a bare host, bee has another path, which other hosts of the run have to know
		setProgram(job)
	}
	switch {
	case job.Run == nil:
	case job.Run.Shell != "":
		text := "exec " + `"$` + beeProgram + `" ` + strings.Join(clock[1:], " ") + " /bin/sh -c " + shell.Quote(job.Run.Shell)
		job.Run = &spec.Command{Shell: text, Argv: []string{"/bin/sh", "-c", text}}
	case len(job.Run.Argv) > 0:
		job.Run = &spec.Command{Argv: slices.Concat(clock, job.Run.Argv)}
	}
}

// Clock takes the marks of a guest's clock out of the output of a job, and notes when each
// was printed by the clock of the host. It also takes out what computed in the guest.
type Clock struct {
	W    io.Writer
	held []byte // the beginning of what may be a mark
	// found is what follows the last mark of what computed, and left how much is to come of it.
	found []byte
	left  int
	// The first mark and the last, by both clocks: a job may print any number of them.
	marks       int
	first, last struct {
		guest float64
		host  time.Time
	}
}

// Write writes output that was printed at a time of the host.
func (c *Clock) Write(at time.Time, data []byte) error {
	data = append(c.held, data...)
	c.held = nil
	for len(data) > 0 {
		if n := min(c.left, len(data)); n > 0 {
			c.found, data, c.left = append(c.found, data[:n]...), data[n:], c.left-n
			continue
		}
		i := bytes.IndexByte(data, inside.MarkBegin[0])
		if i < 0 {
			break
		}
		if _, err := c.W.Write(data[:i]); err != nil {
			return err
		}
		if data = data[i:]; len(data) < inside.MarkLength {
			c.held = bytes.Clone(data)
			return nil
		}
		n := 1
		if seconds, is := inside.ReadMark(string(data[:inside.MarkLength])); is {
			n, c.last.guest, c.last.host = inside.MarkLength, seconds, at
			if c.marks++; c.marks == 1 {
				c.first = c.last
			}
		} else if length, is := inside.ReadFoundMark(string(data[:inside.MarkLength])); is {
			n, c.found, c.left = inside.MarkLength, nil, length
		} else if _, err := c.W.Write(data[:1]); err != nil {
			return err
		}
		data = data[n:]
	}
	_, err := c.W.Write(data)
	return err
}

// Close writes what is no mark.
func (c *Clock) Close() error {
	_, err := c.W.Write(c.held)
	c.held = nil
	return err
}

// Found is what computed in the guest; false: nothing was printed of it.
func (c *Clock) Found() (f fair.Found, known bool) {
	if len(c.found) == 0 || c.left > 0 {
		return f, false
	}
	known = json.Unmarshal(c.found, &f) == nil
	return f, known
}

// Elapsed are the times of the command by both clocks; 0: not known.
func (c *Clock) Elapsed() (guest, host time.Duration) {
	if c.marks < 2 {
		return 0, 0
	}
	return time.Duration((c.last.guest - c.first.guest) * float64(time.Second)), c.last.host.Sub(c.first.host)
}

// apart are flags about the clock of a guest.
func apart(guest, host time.Duration) []string {
	difference := math.Abs((guest - host).Seconds())
	switch {
	case guest <= 0 || host <= 0:
		return []string{"nothing verified the clock of the guest"}
	case difference > mostApart*host.Seconds()+clockJitter.Seconds():
		return []string{"the clock of the guest and that of its host differ by more than 1 %"}
	}
	return nil
}
