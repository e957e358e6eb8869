// Package measure reads progress and metrics from what a job prints, and thins the
// points of a metric. It is pure: it reads no file, and knows nothing of runs or hosts.
// No decision may depend on what it returns, as the text is the job's own.
package measure

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Pattern finds numbers in lines. RE2 matches in time linear to the line.
type Pattern struct {
	re *regexp.Regexp
	// literal is in each line that matches; "": none is known.
	literal string
	// size is the number of instructions: the work for one byte of a line.
	size int
}

const (
	// maxPattern bounds the text of a pattern in bytes.
	maxPattern = 1000
	// maxSize bounds its instructions, as repeats such as (a{100}){100} multiply them.
	maxSize = 200
)

// ParsePattern parses a pattern with one to most groups.
func ParsePattern(text string, most int) (Pattern, error) {
	if len(text) > maxPattern {
		return Pattern{}, fmt.Errorf("the pattern has %d bytes, at most %d are possible: shorten it", len(text), maxPattern)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return Pattern{}, fmt.Errorf("parse pattern: %w: use the syntax of RE2", err)
	}
	switch groups := re.NumSubexp(); {
	case groups == 0:
		return Pattern{}, errors.New("the pattern has no group: put the number in parentheses, as in 'step (\\d+)'")
	case groups > most:
		return Pattern{}, fmt.Errorf("the pattern has %d groups, at most %d are possible: write (?:…) for a group that is no number", groups, most)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return Pattern{}, fmt.Errorf("parse pattern: %w: use the syntax of RE2", err)
	}
	tree = tree.Simplify()
	program, err := syntax.Compile(tree)
	if err != nil {
		return Pattern{}, fmt.Errorf("compile pattern: %w: use the syntax of RE2", err)
	}
	if size := len(program.Inst); size > maxSize {
		return Pattern{}, fmt.Errorf("the pattern has %d steps, at most %d are possible: write fewer repeats", size, maxSize)
	}
	return Pattern{re: re, literal: literalOf(tree), size: len(program.Inst)}, nil
}

// literalOf returns the longest text that is known to be in each match.
func literalOf(tree *syntax.Regexp) string {
	switch tree.Op {
	case syntax.OpLiteral:
		if tree.Flags&syntax.FoldCase == 0 {
			return string(tree.Rune)
		}
	case syntax.OpConcat:
		longest := ""
		for _, sub := range tree.Sub {
			if text := literalOf(sub); len(text) > len(longest) {
				longest = text
			}
		}
		return longest
	case syntax.OpCapture, syntax.OpPlus:
		return literalOf(tree.Sub[0])
	}
	return ""
}
