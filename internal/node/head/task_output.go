package head

import (
	"errors"
	"os"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/mpi/ranks"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// taskOutput stores what the job's commands write, or those of a case of a pack.
type taskOutput struct {
	log    *tasklog.Writer
	number int // of the case; 0: the job is no pack
	host   string
	end    *ending
	// numbers are read from the output; nil: none.
	numbers *numbers
}

// ofCase is the output of a case, from which no numbers are read.
func (o taskOutput) ofCase(number int) taskOutput {
	o.number, o.numbers = number, nil
	return o
}

// keep returns what stores a stream. Where that fails, the attempt ends, and the rest is taken
// all the same: the process that relays it is not to wait.
func (o taskOutput) keep(s tasklog.Stream) func(data []byte) error {
	failed, stream := false, o.numbers.stream()
	return func(data []byte) error {
		if stream != nil {
			stream.Add(data)
		}
		if failed {
			return nil
		}
		err := o.log.WriteOf(o.number, s, data)
		if failed = err != nil; failed {
			kind := core.Permanent
			if fsutil.IsFull(err) { // another site may have room
				kind = core.Lost
			}
			o.end.finish(&core.Error{Kind: kind, Err: err, Op: "keep the task's output", Remedy: "Free space on " + o.host + ", where the output is kept."})
		}
		return nil
	}
}

// notStarted is the exit of a command that could not be started, where that is its own fault.
func (o taskOutput) notStarted(err error) (core.Exit, error) {
	if e, ok := errors.AsType[*pid1.StartError](err); ok {
		core.BestEffort(o.log.WriteOf(o.number, tasklog.Stderr, []byte("bee: "+e.Message+"\n"))) // the exit code says it too
		return core.Exit{Code: e.Code}, nil
	}
	return core.Exit{}, err
}

// piped is a process whose output is stored as it comes.
type piped struct {
	process driver.Process
	output  execute.Output
	pipes   [2]*os.File
}

// start starts a command with pipes for its output.
func (o taskOutput) start(c driver.Command, begin func(driver.Command) (driver.Process, error)) (*piped, error) {
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return nil, err
	}
	p := &piped{pipes: [2]*os.File{outR, errR}}
	c.Stdout, c.Stderr = outW, errW
	p.process, err = begin(c)
	outW.Close() // the command has them
	errW.Close()
	if err != nil {
		p.close()
		return nil, err
	}
	p.output.Pass(outR, o.keep(tasklog.Stdout))
	p.output.Pass(errR, o.keep(tasklog.Stderr))
	return p, nil
}

// close closes the pipes, which something in the background may write to still.
func (p *piped) close() {
	for _, f := range p.pipes {
		f.Close()
	}
}

// taskEnv is the environment of a task in a container.
func taskEnv(b *container.Container) []string {
	return append(slices.Clone(b.Env), ranks.TaskVariable+"=1")
}
