package core

import (
	"strconv"
	"strings"
)

// CoresVariable, in the environment of a container's first process, is the number of cores
// that the container's processes may use, of those of its host. CoreSetVariable has the numbers
// of these cores, with commas. Where it is absent, or the process may not use all of them,
// containers that share a host have theirs one after the other, by the number of their node.
const (
	CoresVariable   = "BEE_LIMIT_CORES"
	CoreSetVariable = "BEE_LIMIT_CORE_SET"
)

// MemoryVariable, in the same environment, is the memory in bytes that the container's processes
// may use together. Runtimes limit it, where the host allows.
const MemoryVariable = "BEE_LIMIT_MEMORY"

// MemoryLimit is the value of MemoryVariable in an environment; 0: none.
func MemoryLimit(env []string) int64 {
	for _, v := range env {
		text, is := strings.CutPrefix(v, MemoryVariable+"=")
		if n, err := strconv.ParseInt(text, 10, 64); is && err == nil && n > 0 {
			return n
		}
	}
	return 0
}
