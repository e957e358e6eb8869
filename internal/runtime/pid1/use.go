package pid1

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/procuse"
	"golang.org/x/sys/unix"
)

// meter measures what the container's processes use, which are all below this one. Here that
// costs no further process, and the memory of the job is the job's.
type meter struct {
	busy sync.Mutex // held while a sample is taken
	of   *procuse.Meter
	err  error     // why there is none
	rest time.Time // when the next one may be taken
}

// restShare is how many times as long as a sample took of a core no other one is taken: of a job
// with very many processes, or much memory, samples are rarer.
const restShare = 400

// newMeter makes the meter before any job runs, which may mount something over /proc.
func newMeter() *meter {
	m := &meter{}
	m.of, m.err = procuse.Open(procuse.Proc, os.Getpid(), 0)
	return m
}

func (m *meter) close() {
	if m.of != nil {
		m.of.Close()
	}
}

// sample is the answer to a request for a sample. One is taken at a time: a process of the job
// may be one that the kernel answers for only after long.
func (m *meter) sample() report {
	switch {
	case m.err != nil:
		return report{Error: m.err.Error()}
	case !m.busy.TryLock():
		return report{Error: "the sample before is not there yet"}
	}
	defer m.busy.Unlock()
	if time.Now().Before(m.rest) {
		return report{Error: "a sample takes so long that the next one is due later"}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	s := m.of.Sample()
	m.rest = time.Now().Add(restShare * (threadTime() - before))
	return report{Sample: &s}
}

// threadTime is what this thread has computed.
func threadTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Use returns what the processes of the container have used so far, and use now.
func (c *Client) Use(ctx context.Context) (core.Sample, error) {
	in, err := c.request(request{Sample: true})
	if err != nil {
		return core.Sample{}, &core.Error{Kind: core.Lost, Op: "measure the container", Err: err}
	}
	defer in.c.Close()
	defer in.closeFiles()
	stop := context.AfterFunc(ctx, func() { in.c.Close() })
	defer stop()
	var answer report
	switch err := in.receive(&answer); {
	case ctx.Err() != nil:
		return core.Sample{}, context.Cause(ctx)
	case err != nil:
		return core.Sample{}, &core.Error{Kind: core.Lost, Op: "measure the container", Err: err}
	case answer.Sample == nil:
		return core.Sample{}, &core.Error{Kind: core.Transient, Op: "measure the container", Err: errors.New(answer.Error), Remedy: core.RemedyAgain}
	}
	return *answer.Sample, answer.Sample.Check()
}
