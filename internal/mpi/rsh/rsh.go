// Package rsh is the launch agent that an image's own mpirun starts in place
// of ssh: `/.bee/rsh [-flags] HOST command…`.
package rsh

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/runtime/prefix"
	"github.com/bee-hpc/bee/internal/wire"
)

// Main runs the agent: it drops leading flags, takes the host, joins the rest
// with blanks for /bin/sh -c, as ssh does, and ends with the command's code.
func Main(args []string) int {
	code, err := run(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bee rsh: %v\n", err)
	}
	return code
}

func run(args []string) (int, error) {
	host, command, err := parse(args)
	if err != nil {
		return 255, err
	}
	socket := os.Getenv("BEE_NODE_SOCKET")
	if socket == "" {
		socket = "/.bee/run/node.sock"
	}
	ctx := context.Background()
	conn, err := wire.DialUnix(ctx, socket)
	if err != nil {
		return 255, fmt.Errorf("reach this host's node: %w", err)
	}
	c, err := client.NewLocal(conn)
	if err != nil {
		return 255, err
	}
	defer c.Close()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	dir, _ := os.Getwd()
	env, dir, command := prefix.Portable(carried(os.Environ()), dir, command)
	exit, err := c.Exec(ctx, nodecall.ExecRequest{
		Host: host, Dir: dir, Env: env,
		Args: []string{"/bin/sh", "-c", command},
	}, os.Stdin, os.Stdout, os.Stderr, signals)
	if err != nil && exit.Code == 0 {
		exit.Code = 255
	}
	return exit.Code, err
}

// parse drops the flags, takes the host and joins the rest.
func parse(args []string) (host, command string, err error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}
	if len(args) < 2 {
		return "", "", errors.New("usage: rsh HOST COMMAND [ARG...]")
	}
	return args[0], strings.Join(args[1:], " "), nil
}
