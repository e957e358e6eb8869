package qemu

import (
	"context"
	"os/exec"
	"time"
)

// sandbox is the filter of system calls by which QEMU starts no program, changes no user
// and moves itself to no other processors: state of devices that another site has written
// may have a fault of QEMU's in it. What BEE uses works with it: servers of directories
// are started by BEE and not by QEMU, and BEE itself binds processors from outside.
const sandbox = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

// askTimeout bounds the time in which QEMU prints its version.
const askTimeout = 30 * time.Second

// HasSandbox reports whether a QEMU is built with seccomp. One that does not even print
// its version counts as such: its start shows what is wrong with it.
func HasSandbox(ctx context.Context, program []string) bool {
	return prints(ctx, program, "-sandbox", sandbox, "-version") || !prints(ctx, program, "-version")
}

// prints reports whether QEMU succeeds with arguments that start no machine.
func prints(ctx context.Context, program []string, args ...string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	argv := append(append([]string{}, program[1:]...), args...)
	return exec.CommandContext(ctx, program[0], argv...).Run() == nil
}
