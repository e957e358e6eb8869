package benchcmd

import "github.com/bee-hpc/bee/internal/mpi"

// hostPrograms are names of programs that a host needs for a command.
func hostPrograms(argv []string) []string { return mpi.Programs(argv) }
