package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// errStuck reports a guest that answers no more, or not in time.
var errStuck = errors.New("the guest is stuck")

// errNotUp reports a guest that did not boot in time: for want of memory, such as, or as software
// emulation has lost its way.
var errNotUp = errors.New("the guest did not come up")

// replaceable reports whether another guest may take the place of one that failed so: nothing of the
// user's has run in it.
func replaceable(err error) bool { return errors.Is(err, errStuck) || errors.Is(err, errNotUp) }

// lockup is what a guest's kernel says, every half a minute, of a processor that
// does nothing else any more, with for how many seconds. Few processes need it.
var lockup = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`soft lockup - CPU#\d+ stuck for (\d+)s`) })

// lockupTime is for how long a processor of a guest that boots is waited for: on
// a host that does too much, one may well seem stuck the first time it is looked at.
const lockupTime = 45 * time.Second

// lockedUp gives the line by which a console reports a processor that is stuck
// for good. Software emulation may lose the signal that it waits for.
func lockedUp(console []byte) string {
	for _, m := range lockup().FindAllSubmatch(console, -1) {
		if s, err := strconv.Atoi(string(m[1])); err == nil && time.Duration(s)*time.Second >= lockupTime {
			return string(m[0])
		}
	}
	return ""
}

// within bounds a step of the guest by the time for which its host lets it run: a
// guest that others keep from the processors is slow, and not stuck. Whatever its
// host does, it ends after ten times the limit.
func (vm *machine) within(ctx context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		begun, waited := time.Now(), vm.Waited()
		for left := limit; left > 0; {
			select {
			case <-time.After(left):
			case <-ctx.Done():
				return
			}
			passed := time.Since(begun)
			left = min(limit-passed+waited(), 10*limit-passed)
		}
		cancel(cause)
	}()
	return ctx, func() { cancel(nil) }
}

// unlessStuck bounds the time in which a guest has to boot, and ends it where the
// guest's kernel itself says that it is stuck: a guest that is may be replaced at once.
func (vm *machine) unlessStuck(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := vm.within(ctx, limit, fmt.Errorf("%w within %v in which it could run", errNotUp, limit))
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			select {
			case <-time.After(lockupTime / 20): // nothing reports when its console has a new line
			case <-ctx.Done():
				return
			}
			text, _ := os.ReadFile(vm.made.Console)
			if line := lockedUp(text); line != "" {
				cancel(fmt.Errorf("%w: %s", errStuck, line))
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		stop()
	}
}

// bootTimeout is generous: software emulation is slow.
const bootTimeout = 5 * time.Minute
