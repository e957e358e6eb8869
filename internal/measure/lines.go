package measure

import (
	"bytes"
	"strings"
)

const (
	// maxLine bounds what is matched of one line, in bytes.
	maxLine = 1 << 10
	// maxSteps bounds the work of a pattern between two ticks, in bytes of lines times
	// instructions of the pattern: about 10 ms of a core at worst.
	maxSteps = 1 << 18
)

// Lines matches the output of a job with one pattern. The cost is bounded: where more
// lines may match between two ticks than maxSteps permits, the newest of them is matched.
type Lines struct {
	pattern Pattern
	found   func(groups []string)
	// partial is the begin of a line whose end has not come.
	partial []byte
	// newest is a line that may match and was not tried, as all steps are used up.
	newest []byte
	// steps are left until the next tick, of most.
	steps, most int
}

// NewLines calls found with the groups of each line that matches.
func NewLines(p Pattern, found func(groups []string)) *Lines {
	return &Lines{pattern: p, found: found, steps: maxSteps, most: maxSteps}
}

// Add reads a piece of output.
func (l *Lines) Add(piece []byte) {
	if len(l.partial) > 0 {
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			l.keep(piece)
			return
		}
		l.keep(piece[:end])
		if bytes.Contains(l.partial, []byte(l.pattern.literal)) {
			l.line(l.partial)
		}
		l.partial, piece = l.partial[:0], piece[end+1:]
	}
	last := bytes.LastIndexByte(piece, '\n') + 1
	l.whole(piece[:last])
	l.keep(piece[last:])
}

// keep appends to the line whose end has not come, up to its bound.
func (l *Lines) keep(piece []byte) {
	l.partial = append(l.partial, piece[:min(len(piece), maxLine-len(l.partial))]...)
}

// whole reads lines that have ended.
func (l *Lines) whole(text []byte) {
	literal := []byte(l.pattern.literal)
	for l.steps > 0 && len(text) > 0 {
		at := bytes.Index(text, literal)
		if at < 0 {
			return
		}
		begin := bytes.LastIndexByte(text[:at], '\n') + 1
		end := begin + bytes.IndexByte(text[begin:], '\n')
		l.line(text[begin:end])
		text = text[end+1:]
	}
	if len(text) == 0 {
		return
	}
	if at := bytes.LastIndex(text[:len(text)-1], literal); at >= 0 {
		begin := bytes.LastIndexByte(text[:at], '\n') + 1
		l.line(text[begin : begin+bytes.IndexByte(text[begin:], '\n')])
	}
}

// line matches a line, or remembers the line until the next tick.
func (l *Lines) line(text []byte) {
	text = text[:min(len(text), maxLine)]
	if l.steps <= 0 {
		l.newest = append(l.newest[:0], text...)
		return
	}
	l.steps -= (len(text) + 1) * l.pattern.size
	l.newest = l.newest[:0]
	groups := l.pattern.re.FindSubmatch(text)
	if groups == nil {
		return
	}
	texts := make([]string, 0, len(groups)-1)
	for _, g := range groups[1:] {
		texts = append(texts, strings.TrimSpace(string(g)))
	}
	l.found(texts)
}

// Tick permits further steps, and matches the newest line that was not tried. Callers
// call Tick about once a second, and when the output has ended.
func (l *Lines) Tick() {
	l.steps = l.most
	if len(l.newest) > 0 {
		l.line(bytes.Clone(l.newest))
	}
}
