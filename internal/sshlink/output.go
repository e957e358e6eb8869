package sshlink

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
)

// mostOutput bounds what Output reads, in bytes.
const mostOutput = 64 << 10

// Output runs a command on a host by a login of its own, without an agent, and returns what it
// writes. It never asks the user anything.
func (p *Client) Output(ctx context.Context, host, command string) (string, error) {
	argv := sshCommand(host, p.configs.options(ctx, p.s.Program, host, p.s.Options), command)
	c := exec.CommandContext(ctx, p.s.Program, argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as in login
	c.Env = append(os.Environ(), "SSH_ASKPASS_REQUIRE=never")
	words := &lastWords{}
	c.Stderr, c.WaitDelay = words, lingers
	out, err := c.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := c.Start(); err != nil {
		return "", &core.Error{Kind: core.Unsupported, Op: "start", Object: p.s.Program, Err: err, Remedy: "Install the OpenSSH client."}
	}
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
	return "", p.explain(host, strings.TrimSpace(words.String()), err)
}
