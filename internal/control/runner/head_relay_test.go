package runner

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestRelayIsBegunAgain once it has ended, until the run is over, but not on a head that knows none.
func TestRelayIsBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &Runner{
			Log:         slog.New(slog.NewTextHandler(&log, nil)),
			RelayBucket: func(context.Context, string, net.Listener, *slog.Logger) error { return nil },
		}
		sub := submission.Submission{Job: spec.Job{Volume: spec.Volume{Kind: spec.VolumeBurst, Remote: "s3://bucket/run7"}}}
		w := &headWatch{rec: &record{of: control(c, state.Run{ID: "r"}, sub)}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		times := 0
		w.relay(ctx, relaying{relay: func() error {
			if times++; times == 4 {
				cancel()
			}
			return errors.New("the connection broke")
		}})
		if warned := strings.Count(log.String(), "level=WARN"); times != 4 || warned != 1 {
			t.Errorf("it was begun %d times, and %d were logged: %s", times, warned, log.String())
		}
		times = 0
		w.relay(t.Context(), relaying{relay: func() error {
			times++
			return &core.Error{Kind: core.Unsupported, Op: "answer call", Object: "relay-bucket", Err: errors.New("there is no such call here")}
		}})
		if times != 1 {
			t.Errorf("a head that knows no relay was asked %d times", times)
		}
	})
}

// relaying is a head of which a relay alone is asked for.
type relaying struct {
	headlink.Head
	relay func() error
}

// Relay implements headlink.Head.
func (r relaying) Relay(context.Context, func(context.Context, net.Listener) error) error {
	return r.relay()
}
