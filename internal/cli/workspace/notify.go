package workspace

import (
	"context"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/notify"
)

// AddReceivers adds the receivers of the user's sites file to a run.
func (a *Workspace) AddReceivers(sub *submission.Submission) error {
	f, err := a.FindSites()
	sub.Notify = f.Notify
	return err
}

// NotifyBeside has a supervisor send the notifications of a run that this process controls,
// so that no receiver delays it.
func (s *Session) NotifyBeside(id string) {
	if !notify.Has(s.Store, id) {
		return
	}
	if err := s.Background(id); err != nil {
		s.Log.Warn("send notifications in the background", "run", id, "err", err)
	}
}

// Notifier returns what finds and sends the notifications of a run, without the texts that
// it sends; nil: there are none.
func (s *Session) Notifier(ctx context.Context, id string) (*notify.Notifier, error) {
	if !notify.Has(s.Store, id) {
		return nil, nil // as documented
	}
	n := notify.Notifier{Store: s.Store, Log: s.Log, Run: id, Secret: submission.ReadSecret}
	run, err := s.Store.Run(ctx, id)
	if core.IsKind(err, core.NotFound) { // it was removed, which is found again below the lock
		return &n, nil
	}
	if err != nil {
		return nil, err
	}
	sub, err := submission.Of(run)
	if err != nil {
		return nil, err
	}
	for _, r := range sub.Job.Notify {
		n.Receivers = append(n.Receivers, notify.Receiver{Notify: r, Dir: sub.Job.Dir})
	}
	for _, r := range sub.Notify {
		n.Receivers = append(n.Receivers, notify.Receiver{Notify: r, Dir: filepath.Dir(sub.SitesFile)})
	}
	for i := range n.Receivers { // a directory that is gone keeps no command from running
		if info, err := os.Stat(n.Receivers[i].Dir); err != nil || !info.IsDir() {
			n.Receivers[i].Dir = "/"
		}
	}
	return &n, nil
}

// unsent returns the runs with notifications to send that no process sends.
func (s *Session) unsent(ctx context.Context) ([]string, error) {
	ids, err := notify.Unattended(s.Store)
	if err != nil {
		return nil, err
	}
	var unsent []string
	for _, id := range ids {
		n, err := s.Notifier(ctx, id)
		if n == nil || err != nil { // of another version of bee, which can
			continue
		}
		pending, err := n.Pending(ctx)
		if err != nil {
			return unsent, err
		}
		if pending {
			unsent = append(unsent, id)
		}
	}
	return unsent, nil
}
