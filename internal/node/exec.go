package node

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/wire"
)

// handleExec runs a command in this node's container, or passes the call on
// to the node that it means.
func (n *node) handleExec(ctx context.Context, s *wire.Stream) error {
	var r client.ExecRequest
	if err := s.Params(&r); err != nil {
		return err
	}
	n.mu.Lock()
	members, b := n.members, n.box
	n.mu.Unlock()
	rank, err := execTarget(r, members, n.config.Rank)
	if err != nil {
		return err
	}
	if rank != n.config.Rank {
		return n.passExec(ctx, s, r, rank)
	}
	if b == nil {
		return &core.Error{Kind: core.NotFound, Op: "start in the container of", Object: n.config.Host.Name, Err: errors.New("it does not run (yet, or any more)")}
	}
	if err := s.Reply(nil); err != nil {
		return err
	}
	return b.exec(ctx, s, r)
}

// passExec joins the caller's stream with one to the right node.
func (n *node) passExec(ctx context.Context, s *wire.Stream, r client.ExecRequest, rank int) error {
	p, err := n.peer(ctx, rank)
	if err != nil {
		return err
	}
	r.Host, r.Rank = "", rank
	far, err := p.Open(ctx, client.CallExec, r, nil)
	if err != nil {
		return err
	}
	defer far.Close()
	if err := s.Reply(nil); err != nil {
		return err
	}
	go func() {
		io.Copy(far, s) //nolint:errcheck // its end is what counts:
		far.Close()     // the caller is gone, so shall be the process
	}()
	_, err = io.Copy(s, far)
	return err
}

// exec runs a command to its end.
func (b *box) exec(ctx context.Context, s io.ReadWriter, r client.ExecRequest) error {
	e, err := execute.New(s, r)
	if err != nil {
		return e.Refuse(err)
	}
	defer e.Close()
	start := b.Exec
	c := driver.Command{Args: r.Args, Env: mergeEnv(b.env, r.Env), Dir: r.Dir, User: b.user, TTY: r.TTY}
	if c.Dir == "" {
		c.Dir = b.workdir
	}
	if r.Guest {
		g, err := b.guest()
		if err != nil {
			return e.Refuse(err)
		}
		start, c.Env, c.Dir, c.User = g.ExecInGuest, r.Env, r.Dir, ""
	}
	c.Stdin, c.Stdout, c.Stderr = e.Files()
	p, err := start(ctx, c)
	if err != nil {
		return e.Refuse(err)
	}
	return e.Attend(ctx, p)
}

// mergeEnv puts more over env.
func mergeEnv(env, more []string) []string {
	if len(more) == 0 {
		return env
	}
	index := make(map[string]int, len(env))
	out := append([]string{}, env...)
	for i, e := range out {
		key, _, _ := strings.Cut(e, "=")
		index[key] = i
	}
	for _, e := range more {
		key, _, _ := strings.Cut(e, "=")
		if i, ok := index[key]; ok {
			out[i] = e
		} else {
			out = append(out, e)
		}
	}
	return out
}
