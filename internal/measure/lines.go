package measure

import (
	"bytes"
	"slices"
	"strings"
)

const (
	// maxLine bounds what is matched of one line, in bytes.
	maxLine = 1 << 10
	// maxSteps bounds the work of all patterns between two ticks, in bytes of lines times
	// instructions of the pattern: about 10 ms of a core at worst.
	maxSteps = 1 << 18
)

// Lines matches the output of a job with patterns: a line with each of them, in their order, then the next line. The
// cost is bounded: where more lines may match between two ticks than maxSteps permits, the newest is matched, of each
// pattern.
type Lines struct {
	patterns []*candidate
	// partial is the begin of a line whose end has not come.
	partial []byte
	// at is the place of what is read now, in the output.
	at int
	// steps are left until the next tick, of most.
	steps, most int
}

// candidate is a pattern with the lines that may match it.
type candidate struct {
	matched
	literal []byte
	// next is where the literal is next in what is read.
	next int
	// newest is a line that was not tried, as all steps are used up, and the place of it.
	newest []byte
	place  int
}

// NewLines calls found with the groups of each line that matches.
func NewLines(p Pattern, found func(groups []string)) *Lines { return newLines(matched{p, found}) }

func newLines(all ...matched) *Lines {
	l := &Lines{steps: maxSteps, most: maxSteps}
	for _, m := range all {
		l.patterns = append(l.patterns, &candidate{matched: m, literal: []byte(m.pattern.literal)})
	}
	return l
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
		for _, c := range l.patterns {
			if bytes.Contains(l.partial, c.literal) {
				l.try(c, l.partial, l.at)
			}
		}
		l.at++
		l.partial, piece = l.partial[:0], piece[end+1:]
	}
	last := bytes.LastIndexByte(piece, '\n') + 1
	l.whole(piece[:last])
	l.at += last
	l.keep(piece[last:])
}

// keep appends to the line whose end has not come, up to its bound.
func (l *Lines) keep(piece []byte) {
	l.partial = append(l.partial, piece[:min(len(piece), maxLine-len(l.partial))]...)
}

// whole reads lines that have ended.
func (l *Lines) whole(text []byte) {
	from := 0
	for _, c := range l.patterns {
		c.find(text, from)
	}
	for l.steps > 0 {
		at := len(text)
		for _, c := range l.patterns {
			at = min(at, c.next)
		}
		if at == len(text) {
			return
		}
		begin := from + bytes.LastIndexByte(text[from:at], '\n') + 1
		end := begin + bytes.IndexByte(text[begin:], '\n')
		from = end + 1
		for _, c := range l.patterns {
			if c.next <= end {
				l.try(c, text[begin:end], l.at+begin)
				c.find(text, from)
			}
		}
	}
	for _, c := range l.patterns {
		if c.next == len(text) {
			continue
		}
		if at := bytes.LastIndex(text[from:len(text)-1], c.literal); at >= 0 {
			begin := from + bytes.LastIndexByte(text[from:from+at], '\n') + 1
			l.try(c, text[begin:begin+bytes.IndexByte(text[begin:], '\n')], l.at+begin)
		}
	}
}

// find finds the literal in a text, from a place on; where it is not, next is the end.
func (c *candidate) find(text []byte, from int) {
	if c.next = len(text); from < len(text) {
		if at := bytes.Index(text[from:], c.literal); at >= 0 {
			c.next = from + at
		}
	}
}

// try matches a line, or remembers the line until the next tick.
func (l *Lines) try(c *candidate, text []byte, at int) {
	text = text[:min(len(text), maxLine)]
	if l.steps <= 0 {
		c.newest, c.place = append(c.newest[:0], text...), at
		return
	}
	l.steps -= (len(text) + 1) * c.pattern.size
	c.newest = c.newest[:0]
	groups := c.pattern.re.FindSubmatch(text)
	if groups == nil {
		return
	}
	texts := make([]string, 0, len(groups)-1)
	for _, g := range groups[1:] {
		texts = append(texts, strings.TrimSpace(string(g)))
	}
	c.found(texts)
}

// Tick permits further steps, and matches the newest lines that were not tried, in their order. Callers
// call Tick about once a second, and when the output has ended.
func (l *Lines) Tick() {
	l.steps = l.most
	var waiting []*candidate
	for _, c := range l.patterns {
		if len(c.newest) > 0 {
			waiting = append(waiting, c)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *candidate) int { return a.place - b.place })
	for _, c := range waiting {
		l.try(c, bytes.Clone(c.newest), c.place)
	}
}
