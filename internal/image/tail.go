package image

import (
	"strings"
	"sync"
)

// tail keeps the last lines of a program's output, and passes each on.
type tail struct {
	mu    sync.Mutex // a program writes to both its outputs
	lines []string
	part  string
	line  func(string)
	skip  func(string) bool // lines that are neither kept nor reported
}

const tailLines = 15

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.part += string(b)
	for {
		l, rest, ok := strings.Cut(t.part, "\n")
		if !ok {
			return len(b), nil
		}
		t.part = rest
		if t.skip != nil && t.skip(l) {
			continue
		}
		if t.lines = append(t.lines, l); len(t.lines) > tailLines {
			t.lines = t.lines[1:]
		}
		if t.line != nil && strings.TrimSpace(l) != "" {
			t.line(l)
		}
	}
}

func (t *tail) String() string {
	return strings.TrimRight(strings.Join(append(t.lines, t.part), "\n"), "\n")
}
