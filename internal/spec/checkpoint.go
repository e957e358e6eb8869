package spec

import (
	"fmt"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Checkpoint says how a job is brought to save itself, so that it can go on
// elsewhere.
type Checkpoint struct {
	// Signal that asks the job to write its checkpoint and end; default TERM.
	Signal string `yaml:"signal"`
	// Command, in place of a signal, has it write its checkpoint; the job is
	// then ended by TERM. File is a stop file, in the volume, on which it does
	// so and ends by itself.
	Command *Command `yaml:"command"`
	File    string   `yaml:"file"`
	// Every is how often a copy of the volume is also kept while the job runs;
	// 0: never.
	Every time.Duration `yaml:"every"`
	// Grace is what it needs for that; default 60s.
	Grace time.Duration `yaml:"grace"`
	// Paths are what a checkpoint consists of, in the volume; default all of
	// it. An attempt that changed none of it made no progress.
	Paths []string `yaml:"paths"`
}

// DefaultCheckpointGrace is what jobs get that do not say.
const DefaultCheckpointGrace = 60 * time.Second

// SignalNumber is the signal's number, TERM's by default; 0 for no signal.
func (c *Checkpoint) SignalNumber() syscall.Signal {
	if c.Signal == "" {
		return syscall.SIGTERM
	}
	return unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(c.Signal), "SIG"))
}

func (d *decoder) checkCheckpoint(j *Job) {
	c := j.Checkpoint
	if c == nil {
		if j.Resume != nil {
			d.at("resume", "such as `checkpoint: {signal: TERM, grace: 60s}`", "resume: without `checkpoint:` there is nothing to resume from")
		}
		return
	}
	asks := 0
	for _, is := range []bool{c.Signal != "", c.Command != nil, c.File != ""} {
		if is {
			asks++
		}
	}
	if asks > 1 {
		d.at("checkpoint", "", "checkpoint: only one of `signal`, `command` and `file` can be given")
	}
	if c.File != "" && (!path.IsAbs(c.File) || !j.keeps(c.File)) {
		d.at("checkpoint.file", "such as /work/STOP", "checkpoint.file: %s does not lie in the volume %s", c.File, j.Volume)
	}
	if n := c.SignalNumber(); n == 0 || n == syscall.SIGKILL || n == syscall.SIGSTOP {
		d.at("checkpoint.signal", "such as TERM or USR1", "checkpoint.signal: %q is no signal that a job could answer", c.Signal)
	}
	for i, p := range c.Paths {
		at := fmt.Sprintf("checkpoint.paths[%d]", i)
		if !path.IsAbs(p) || !j.keeps(p) {
			d.at(at, "", "%s: %s does not lie in the volume %s: only what is there goes along", at, p, j.Volume)
		}
		if _, err := path.Match(p, ""); err != nil {
			d.at(at, "", "%s: %q is no valid pattern", at, p)
		}
	}
}
