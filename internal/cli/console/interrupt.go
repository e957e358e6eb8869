package console

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// UntilInterrupt is for commands that clean up where they are interrupted. A second
// interrupt does not wait for that.
func UntilInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, done := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, done)
	return ctx, done
}
