package sshlink

import (
	"context"
	"errors"
	"io"
)

// mostOutput bounds what Output reads, in bytes.
const mostOutput = 64 << 10

// Output runs a command on a host by a login of its own, without an agent, and returns what it
// writes. It never asks the user anything.
func (p *Client) Output(ctx context.Context, host, command string) (string, error) {
	c, words := p.command(ctx, host, command)
	out, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := p.start(c); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { c.Process.Kill() })
	defer stop()
	text, err := io.ReadAll(io.LimitReader(out, mostOutput))
	if len(text) == mostOutput {
		c.Process.Kill()
	}
	if err = errors.Join(err, c.Wait()); err == nil {
		return string(text), nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	return "", p.explain(host, words.String(), err)
}
