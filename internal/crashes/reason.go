package crashes

import (
	"slices"
	"strings"
)

// Reason returns the line of the runtime that names the fault, or "" where the text is of no
// fault of the program, as for signals of others and a machine without memory or threads.
func Reason(text string) string {
	text = strings.TrimLeft(text, "\n")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch fatal, is := strings.CutPrefix(line, "fatal error: "); {
		case strings.HasPrefix(line, "panic: "):
			return line
		case is && (strings.Contains(fatal, "out of memory") || strings.Contains(fatal, "cannot allocate") || strings.Contains(fatal, "newosproc")):
			return ""
		case is:
			return line
		}
	}
	// The runtime writes the line of a fatal error to standard error alone.
	first, _, _ := strings.Cut(text, "\n\n")
	if !strings.HasPrefix(text, "goroutine ") && !strings.HasPrefix(text, "runtime stack:") || withoutResources(first) {
		return ""
	}
	return "fatal error of the Go runtime"
}

// withoutResources reports whether a stack is of a process that got no memory or threads.
func withoutResources(stack string) bool {
	return slices.ContainsFunc([]string{
		".allocLarge(", "mcache).refill(", "mheap).grow(", "mheap).sysAlloc(", "runtime.sysMap", "runtime.sysUsed", "runtime.sysReserve",
		"runtime.persistentalloc", "runtime.stackalloc(", "runtime.newosproc(",
	}, func(function string) bool { return strings.Contains(stack, function) })
}
