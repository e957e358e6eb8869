package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// lostAnswerLimit is how long a site that its user declares lost may take to answer, and
// so to show that it is not.
const lostAnswerLimit = 20 * time.Second

// HoldLost notes, in its user's name, that a run shall not wait any more for the
// site of its present attempt. It returns what may continue there, and what is lost. A
// Drive that waits for the site sees it; where there is none, one is needed.
// Invalid: no site has it, or the one that has it answers.
func (c *Controller) HoldLost(ctx context.Context, run state.Run, sites []spec.Site) (string, error) {
	refuse := func(why, remedy string) (string, error) {
		return "", &core.Error{Kind: core.Invalid, Op: "hold for lost the site of run", Object: run.ID, Err: errors.New(why), Remedy: remedy}
	}
	attempts, err := c.Store.Attempts(ctx, run.ID)
	if err != nil {
		return "", err
	}
	if run.State == state.Suspended || len(attempts) == 0 || attempts[len(attempts)-1].Released() || attempts[len(attempts)-1].Lease == nil {
		return refuse("it waits for no site that has it", "`bee show "+run.ID+"` shows its state.")
	}
	last := attempts[len(attempts)-1]
	if slices.ContainsFunc(sites, func(s spec.Site) bool { return s.Name == last.Site }) {
		return refuse("it cannot continue on "+last.Site+", which is the one", "Name other sites with --site.")
	}
	if c.answers(ctx, run) {
		return refuse("site "+last.Site+" answers", "`bee stop "+run.ID+"` ends the run, and `bee move "+run.ID+"` moves it.")
	}
	loss, err := c.Loss(ctx, run, last)
	if err != nil {
		return "", err
	}
	_, err = c.Requests().Ask(ctx, run.ID, attempts, state.RequestSiteLost, sites)
	return report.Loss(last.N, loss), err
}

// answers reports whether the head's host of a run's present attempt can be reached.
func (c *Controller) answers(ctx context.Context, run state.Run) bool {
	ctx, cancel := context.WithTimeout(ctx, lostAnswerLimit)
	defer cancel()
	lease, _, err := c.Live(ctx, run)
	defer func() {
		if lease != nil {
			lease.Disconnect()
		}
	}()
	if err == nil && len(lease.Hosts()) > 0 && lease.Hosts()[0].Name != "" {
		host := lease.Hosts()[0]
		conn, derr := lease.Dial(ctx, 0, protocol.SocketPath(host.Dir, 0))
		if err = derr; err == nil {
			conn.Close()
		}
	}
	return ctx.Err() == nil && (err == nil || !core.IsKind(err, core.Transient))
}
