// Command bee runs Docker images of MPI applications on the machines that its
// user has accounts on. This file only picks the entry point; everything that
// people type is in internal/cli.
package main

import (
	"os"

	"github.com/bee-hpc/bee/internal/emulate"
)

func main() {
	os.Exit(run(os.Args))
}

// run dispatches the entry points that BEE's own processes use on hosts and
// in containers before the command line is set up, because they are started
// often and must start fast.
func run(args []string) int {
	if len(args) > 1 {
		switch args[1] {
		case emulate.HolderArg:
			return emulate.HolderMain(args[2:])
		// case "node": return node.Main(args[2:])
		}
	}
	return 0
}
