package command

import (
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// MemoryOptions are the options by which docker and podman limit the memory of a container
// to what its environment asks for, without further swap.
func MemoryOptions(env []string) []string {
	for _, v := range env {
		text, is := strings.CutPrefix(v, core.MemoryVariable+"=")
		if n, err := strconv.ParseInt(text, 10, 64); is && err == nil && n > 0 {
			limit := strconv.FormatInt(n, 10)
			return []string{"--memory=" + limit, "--memory-swap=" + limit}
		}
	}
	return nil
}
