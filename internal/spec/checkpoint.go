package spec

import (
	"fmt"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Checkpoint describes how a job writes its checkpoint, so that it can continue elsewhere.
type Checkpoint struct {
	// Mode is who saves the job: app (default), the job itself; vm, the virtual
	// machines around it, as they are; or auto: vm where there are machines and
	// nothing here reports how the job would do it.
	Mode string `yaml:"mode"`
	// Signal that asks the job to write its checkpoint and end; default TERM.
	Signal string `yaml:"signal"`
	// Command, in place of a signal, makes the job write its checkpoint; TERM ends the job
	// afterwards. File is a stop file in the volume: once it exists, the job writes its
	// checkpoint and ends. In the Beefile it may be relative to the workdir.
	Command *Command `yaml:"command"`
	File    string   `yaml:"file"`
	// Every is how often a copy of the volume is also kept while the job runs;
	// 0: never.
	Every time.Duration `yaml:"every"`
	// Grace is what that needs; default 60s, and 3m in mode vm.
	Grace time.Duration `yaml:"grace"`
	// Paths are what a checkpoint consists of, in the volume; default all of
	// it. They may be relative likewise. An attempt that changed none of it made no progress.
	Paths []string `yaml:"paths"`
	// Keep has the checkpoints stay after the run has succeeded, until `bee rm`.
	Keep bool `yaml:"keep" json:",omitempty"`
}

// Defaults of Checkpoint.Grace: of any mode but vm, and of vm.
const (
	DefaultCheckpointGrace   = 60 * time.Second
	DefaultVMCheckpointGrace = 3 * time.Minute
)

// Words of Checkpoint.Mode.
const (
	CheckpointApp  = "app"
	CheckpointVM   = "vm"
	CheckpointAuto = "auto"
)

// SavesVM reports whether the job's virtual machines are saved, and not the job by
// itself.
func (j *Job) SavesVM() bool {
	c := j.Checkpoint
	if c == nil || j.VM == nil || j.VM.When == VMNever || j.VM.When == VMAuto {
		return false
	}
	return c.Mode == CheckpointVM || c.Mode == CheckpointAuto && !c.asks() && j.Resume == nil && len(c.Paths) == 0
}

// ContinuesAfterCheckpoint reports whether the job continues once its checkpoint is taken, as it
// is not asked to end for it.
func (j *Job) ContinuesAfterCheckpoint() bool {
	c := j.Checkpoint
	return c != nil && (c.Every > 0 || c.Command != nil || j.SavesVM())
}

// asks reports whether the Beefile says how the job is asked to write its checkpoint.
func (c *Checkpoint) asks() bool { return c.Signal != "" || c.Command != nil || c.File != "" }

// savesVM finds what mode vm cannot go with.
func (jc *jobCheck) savesVM() {
	j := jc.job
	c := j.Checkpoint
	jc.report.oneOf("checkpoint.mode", c.Mode)
	if !jc.report.allRead("vm", "checkpoint.mode") {
		return
	}
	if c.Mode == CheckpointVM {
		switch {
		case j.VM == nil || j.VM.When == VMNever:
			jc.report.at("checkpoint.mode", "`vm: true`, or mode app for a job that saves itself", "checkpoint.mode: vm saves virtual machines, and the job has none")
		case j.VM.When == VMAuto:
			jc.report.at("checkpoint.mode", "`vm: true`", "checkpoint.mode: vm wants virtual machines on every site, and `vm: auto` does not")
		case c.asks():
			jc.report.at("checkpoint", "", "checkpoint: in mode vm the job is not asked to save itself: leave `signal`, `command` and `file` out")
		case len(c.Paths) > 0:
			jc.report.atKey("checkpoint.paths", "", "checkpoint.paths: in mode vm all of the machines is saved: leave them out")
		case j.Resume != nil:
			jc.report.atKey("resume", "", "resume: in mode vm the command continues by itself: leave it out")
		}
	}
	if !j.SavesVM() || !jc.report.allRead("checkpoint", "resume", "volume") {
		return
	}
	for i, o := range j.Outputs {
		if from := j.inWorkdir(o.From); path.IsAbs(from) && !below(from, j.Volume.Path) {
			at := fmt.Sprintf("outputs[%d].from", i)
			jc.report.at(at, "", "%s: %s lies outside the volume %s, which is all that can be brought out of machines that are saved", at, from, j.Volume.Path)
		}
	}
	if j.Nodes > 1 && j.VM.Fabric == "none" {
		jc.report.at("vm.fabric", "", "vm.fabric: machines that are saved together need their own network: mpirun reaches the other hosts by it")
	}
}

// SignalNumber is the signal's number, TERM's by default; 0 for no signal.
func (c *Checkpoint) SignalNumber() syscall.Signal {
	if c.Signal == "" {
		return syscall.SIGTERM
	}
	return unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(c.Signal), "SIG"))
}

// checkpoint finds what cannot be in a `checkpoint:`, and what needs one.
func (jc *jobCheck) checkpoint() {
	j := jc.job
	c := j.Checkpoint
	if c == nil {
		if !jc.report.wasRead("checkpoint") {
			return
		}
		if j.Resume != nil {
			jc.report.atKey("resume", "such as `checkpoint: {signal: TERM, grace: 60s}`", "resume: without `checkpoint:` there is nothing to resume from")
		}
		if j.Store != "" {
			jc.report.atKey("store", "such as `checkpoint: {signal: TERM, grace: 60s}`", "store: without `checkpoint:` there is nothing to keep there")
		}
		return
	}
	jc.savesVM()
	jc.report.positive("checkpoint.grace", c.Grace, "the default")
	asks := 0
	for _, is := range []bool{c.Signal != "", c.Command != nil, c.File != ""} {
		if is {
			asks++
		}
	}
	if asks > 1 {
		jc.report.at("checkpoint", "", "checkpoint: only one of `signal`, `command` and `file` can be given")
	}
	placed := jc.report.allRead("volume", "inputs", "workdir")
	if file := j.inWorkdir(c.File); c.File != "" && (!path.IsAbs(file) || placed && !strings.HasPrefix(file, strings.TrimSuffix(path.Clean(j.Volume.Path), "/")+"/")) {
		jc.report.at("checkpoint.file", "such as "+j.Volume.Path+"/STOP", "checkpoint.file: %s does not lie in the volume %s", c.File, j.Volume.Path)
	}
	if n := c.SignalNumber(); n == 0 || n == syscall.SIGKILL || n == syscall.SIGSTOP {
		jc.report.at("checkpoint.signal", "such as TERM or USR1", "checkpoint.signal: %q is no signal that a job could answer", c.Signal)
	}
	for i, p := range c.Paths {
		at := fmt.Sprintf("checkpoint.paths[%d]", i)
		if in := j.inWorkdir(p); !path.IsAbs(in) || placed && !below(in, j.Volume.Path) {
			jc.report.at(at, "such as "+j.Volume.Path+"/state; `volume:` may name another directory", "%s: %s does not lie in the volume %s: only what is there goes along", at, p, j.Volume.Path)
		}
		if _, err := path.Match(p, ""); err != nil {
			jc.report.at(at, "", "%s: %q is no valid pattern", at, p)
		}
	}
}

// inWorkdir gives a path of a container that may be relative to the job's workdir. It
// stays relative where the Beefile names none: the image's is not known yet.
func (j *Job) inWorkdir(p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join(j.Workdir, p)
}
