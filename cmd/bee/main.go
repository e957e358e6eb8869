// Command bee runs Docker images of MPI applications on the machines that its
// user has accounts on. This file only picks the entry point; everything that
// people type is in internal/cli.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/cli"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/guest"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/mpi/ranks"
	"github.com/bee-hpc/bee/internal/mpi/rsh"
	"github.com/bee-hpc/bee/internal/node"
	"github.com/bee-hpc/bee/internal/provider/slurm"
	"github.com/bee-hpc/bee/internal/reservation"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/runtime/rootless"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/mount"
	"golang.org/x/sys/unix"
)

func main() {
	unix.Umask(unix.Umask(0) &^ 0o700) // what bee makes it can use, whatever its caller's umask
	os.Exit(run(os.Args))
}

// run dispatches the entry points that BEE's own processes use on hosts and
// in containers before the command line is set up, because they are started
// often and must start fast.
func run(args []string) int {
	if filepath.Base(args[0]) == "rsh" {
		return rsh.Main(args[1:])
	}
	if len(args) > 1 {
		switch args[1] {
		case emulate.HolderArg:
			return emulate.HolderMain(args[2:])
		case rootless.ChildCommand:
			return rootless.ChildMain()
		case pid1.Command:
			return pid1.Main(args[2:])
		case ranks.Command, ranks.WaitCommand:
			return ranks.Main(args[1:])
		case slurm.HostArg:
			return slurm.HostMain(args[2:], catalog.Starter())
		case sshlink.RemoteArg:
			return catalog.Agent().Main()
		case qemu.ServerCommand:
			return qemu.ServerMain(args[2:])
		case api.Command:
			return guest.Main(args[2:], catalog.GuestEngine, catalog.BareEngine)
		case burst.Command:
			return burst.Main(args[2:], catalog.FarVolume)
		case mount.Command:
			return mount.Main(args[2:])
		case inside.Command:
			return inside.Main(args[2:])
		case "node":
			reservation.JoinPath(os.Getenv(reservation.Variable))
			return node.Main(catalog.NodeOptions(), args[2:])
		}
	}
	return cli.Main(context.Background(), args[1:])
}
