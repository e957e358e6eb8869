package head

import (
	"context"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/plan"
)

// stubborn is a process that ends only when it is killed.
type stubborn struct {
	driver.Process
	killed chan struct{}
}

func (p stubborn) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-p.killed:
		return core.Exit{Signal: int(syscall.SIGKILL)}, nil
	case <-ctx.Done():
		return core.Exit{}, ctx.Err()
	}
}

func (p stubborn) Signal(ctx context.Context, s os.Signal) error {
	if s == syscall.SIGKILL && ctx.Err() == nil {
		close(p.killed)
	}
	return nil
}

// TestNoticeWhileASlotEnds: what is left of the notice bounds the grace that the job has already.
func TestNoticeWhileASlotEnds(t *testing.T) {
	for name, c := range map[string]struct {
		left, want time.Duration // both after the first ten seconds
	}{
		"shorter":    {20 * time.Second, 30 * time.Second},
		"very short": {0, 10*time.Second + leastGrace},
		"longer":     {2 * time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &Head{plan: &plan.Plan{Grace: time.Minute}, end: newEnding(0)}
				cm := &commands{plan: h.plan, end: h.end, saver: &saver{plan: h.plan}}
				p, begun := stubborn{killed: make(chan struct{})}, time.Now()
				h.end.stop(errSlotEnds, time.Minute)
				go func() {
					time.Sleep(10 * time.Second) // in virtual time
					h.TakenBack(c.left)
				}()
				if _, err := cm.await(h.end.over, p); err != errSlotEnds { //nolint:errorlint // the same value
					t.Errorf("the attempt ended as %v", err)
				}
				if took := time.Since(begun); took != c.want {
					t.Errorf("the job was killed after %s, expected %s", took, c.want)
				}
				<-p.killed
				time.Sleep(time.Hour) // all timers are over
			})
		})
	}
}
