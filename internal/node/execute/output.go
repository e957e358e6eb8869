package execute

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Output passes on what a command writes to its pipes. The zero value is ready.
type Output struct {
	pipes   sync.WaitGroup
	passing atomic.Int32 // pipes of which someone is given something just now
	passed  atomic.Int64 // bytes
}

// pieceSize is how much is passed on at once, at most, in bytes.
const pieceSize = 32 << 10

// Pass gives what comes by a pipe to someone, until it ends or he wants no more.
func (o *Output) Pass(from io.Reader, to func(data []byte) error) {
	o.pipes.Go(func() {
		buf := make([]byte, pieceSize)
		for {
			n, err := from.Read(buf)
			if n > 0 && o.give(buf[:n], to) != nil || err != nil {
				return
			}
		}
	})
}

func (o *Output) give(data []byte, to func(data []byte) error) error {
	o.passing.Add(1)
	defer o.passing.Add(-1)
	err := to(data)
	o.passed.Add(int64(len(data)))
	return err
}

// Wait waits until the pipes have ended.
func (o *Output) Wait() { o.pipes.Wait() }

// Bounds of what is waited for once a command has ended.
const (
	// quiet is for how long, all in all, nobody has to be given something: what was in a
	// pipe comes without a pause.
	quiet = 500 * time.Millisecond
	looks = 10
	// mostLeft is more than two pipes hold, in bytes.
	mostLeft = 1 << 20
)

// Drain waits for the rest of the output of a command that has ended, however slowly it
// is taken. A process that was left in the background may hold the pipes open for ever,
// and write to them: it is not waited for.
func (o *Output) Drain() {
	ended := make(chan struct{})
	go func() { o.Wait(); close(ended) }()
	tick := time.NewTicker(quiet / looks)
	defer tick.Stop()
	for before, n := o.passed.Load(), 0; n < looks && o.passed.Load()-before < mostLeft; {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		if o.passing.Load() == 0 {
			n++
		}
	}
}
