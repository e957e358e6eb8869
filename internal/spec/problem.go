package spec

import (
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// Problem is one thing that is wrong in a file.
type Problem struct {
	File    string `json:"file"` // or the flag of the command line
	Line    int    `json:"line"` // from 1; 0: of a flag
	Column  int    `json:"column"`
	Message string `json:"message"`
	// Source is the offending line.
	Source string `json:"source,omitempty"`
	// Hint says what would be right, such as the nearest key.
	Hint string `json:"hint,omitempty"`
}

// Errors are all problems of a file.
type Errors struct{ Problems []Problem }

// Error shows every problem with its line.
func (e *Errors) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": " + p.Message)
		if p.Hint != "" {
			fmt.Fprintf(&b, " (%s)", p.Hint)
		}
		if p.Source != "" {
			source, column := excerpt(p.Source, max(p.Column-1, 0))
			fmt.Fprintf(&b, "\n    %s\n    %s^", source, strings.Repeat(" ", column))
		}
	}
	return b.String()
}

// excerpt is what is shown of a line: what stands about a column, counted from 0,
// and the column in that.
func excerpt(line string, column int) (string, int) {
	const before, most = 60, 160
	text := []rune(line)
	if len(text) <= most {
		return line, column
	}
	from := min(max(column-before, 0), len(text)-1)
	return string(text[from:min(from+most, len(text))]), column - from
}

// asError gives the problems as an error of kind Invalid, or nil.
func asError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &core.Error{Kind: core.Invalid, Err: &Errors{sorted(problems)}}
}

// typos is how many letters of a word may be wrong for it to be another one.
func typos(word string) int {
	switch {
	case len(word) < 3:
		return 0
	case len(word) < 6:
		return 1
	case len(word) < 10:
		return 2
	}
	return 3
}

// nearest gives the word most like the given one, if it differs by a small typo.
func nearest(word string, words []string) string {
	best, bestDistance := "", 1+typos(word)
	for _, w := range words {
		if d := distance(word, w); d < bestDistance {
			best, bestDistance = w, d
		}
	}
	for _, w := range words {
		if best == "" && (shortens(word, w) || len(w) >= 3 && strings.HasPrefix(word, w)) {
			best = w
		}
	}
	return best
}

// shortens reports whether a word of three letters or more, such as img, is what people
// may write for a longer one: all of it is there in the same order, from the beginning.
func shortens(short, word string) bool {
	if len(short) < 3 || short[0] != word[0] {
		return false
	}
	for i := range len(word) {
		if short != "" && word[i] == short[0] {
			short = short[1:]
		}
	}
	return short == ""
}

// distance counts the letters that are missing, wrong, too many or exchanged with their
// neighbour: Damerau's, of whole words without change in between.
func distance(a, b string) int {
	before, row := []int(nil), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

// Nearest returns the word that differs from the given one by a small typo, or "".
func Nearest(word string, words []string) string { return nearest(word, words) }
