package crashes

import (
	"slices"
	"strings"
)

// unnamedFatal is the reason of a fatal error that left no line of its own.
const unnamedFatal = "fatal error of the Go runtime"

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
	// The runtime writes the line of a fatal error to standard error alone. The goroutine with
	// the error runs, and comes first. A dump by a signal was seen without its first lines, where
	// the runtime hung in it.
	first, _, _ := strings.Cut(text, "\n\n")
	head, _, _ := strings.Cut(text, "\n")
	running := strings.HasPrefix(head, "goroutine ") && strings.Contains(head, " [running")
	if !running && !strings.HasPrefix(head, "runtime stack:") || withoutResources(first) {
		return ""
	}
	return unnamedFatal
}

// withoutResources reports whether a stack is of a process that got no memory or threads.
func withoutResources(stack string) bool {
	return slices.ContainsFunc([]string{
		".allocLarge(", "mcache).refill(", "mheap).grow(", "mheap).sysAlloc(", "runtime.sysMap", "runtime.sysUsed", "runtime.sysReserve",
		"runtime.persistentalloc", "runtime.stackalloc(", "runtime.newosproc(",
	}, func(function string) bool { return strings.Contains(stack, function) })
}
