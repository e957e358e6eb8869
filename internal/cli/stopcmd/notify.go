package stopcmd

import (
	"bytes"
	"context"
	"fmt"

	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/notify"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
)

// sendNotifications sends the notifications of a run until no more are expected.
func sendNotifications(ctx context.Context, s *workspace.Session, id string, text runText) error {
	first, err := notify.OfArray(ctx, s.Store, id)
	if err != nil {
		return err
	}
	if first != "" {
		id = first
	}
	n, err := s.Notifier(ctx, id)
	if n == nil || err != nil {
		return err
	}
	n.Body = func(ctx context.Context, run state.Run) ([]byte, error) { return jsonOf(ctx, s, run) }
	n.Text = func(ctx context.Context, run state.Run) (string, error) { return textOf(ctx, s, run, text) }
	return n.Serve(ctx)
}

// jsonOf is a run as bee show --json prints it, or an array as bee run --json does.
func jsonOf(ctx context.Context, s *workspace.Session, run state.Run) ([]byte, error) {
	var b bytes.Buffer
	if run.ID == run.Case.Array {
		array, err := s.Store.Arrays().Array(ctx, run.ID)
		if err == nil {
			err = s.Workspace.WritingTo(&b, &b).WriteJSON(runview.OfArray(array))
		}
		return b.Bytes(), err
	}
	v, err := runview.Of(ctx, s, run)
	if err != nil {
		return nil, err
	}
	err = s.Workspace.WritingTo(&b, &b).WriteJSON(v)
	return b.Bytes(), err
}

// textOf is a run as bee show prints it, below a sentence about its state.
func textOf(ctx context.Context, s *workspace.Session, run state.Run, text runText) (string, error) {
	if run.ID == run.Case.Array {
		array, err := s.Store.Arrays().Array(ctx, run.ID)
		return fmt.Sprintf("Array %s (%s) is %s: %s.\n\n`bee ps %s` lists its cases.\n", array.Name, array.ID, array.State(), runview.ArrayText(array), array.ID), err
	}
	v, err := runview.Of(ctx, s, run)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n", report.StateText(run))
	err = text(&b, v)
	return b.String(), err
}
