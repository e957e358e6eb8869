package command

import (
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
)

// MemoryOptions are the options by which docker and podman limit the memory of a container
// to what its environment asks for, without further swap.
func MemoryOptions(env []string) []string {
	n := core.MemoryLimit(env)
	if n == 0 {
		return nil
	}
	limit := strconv.FormatInt(n, 10)
	return []string{"--memory=" + limit, "--memory-swap=" + limit}
}
