package qemu

import (
	"context"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// NoRings reports why a guest of this host cannot have a network device whose rings
// another process serves (vhost-user), for which its memory has to be shared; "": it
// can. The QEMU that travels with guest images knows what that takes.
func NoRings(ctx context.Context) string {
	fd, err := unix.MemfdCreate("bee-rings", unix.MFD_CLOEXEC)
	if err != nil {
		return "memory cannot be shared with it (memfd_create: " + err.Error() + ")"
	}
	unix.Close(fd)
	if _, err := exec.LookPath(Program()); err != nil {
		return ""
	}
	return lacksRings(ctx, Program())
}

// lacksRings asks a QEMU. One that does not answer is asked for more soon, and reports
// why it does not work.
func lacksRings(ctx context.Context, program string) string {
	for _, part := range []struct{ option, kind string }{{"-netdev", "vhost-user"}, {"-object", "memory-backend-memfd"}} {
		out, err := exec.CommandContext(ctx, program, part.option, "help").Output()
		if err == nil && !slices.Contains(strings.Fields(string(out)), part.kind) {
			return program + " is built without " + part.kind
		}
	}
	return ""
}
