package spec

import (
	"fmt"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file that the parser gets. Its time and memory grow with the square of the
// depth of a file, of the keys of a mapping and of the documents.
const (
	maxDepth     = 64
	maxTokens    = 100_000
	maxKeys      = 10_000
	maxDocuments = 100
)

// The problem of a file with more documents, and what would be right.
const (
	documentsProblem = "a file holds at most %d documents"
	documentsHint    = "write an `array:` for jobs that are alike, or several files"
)

// bounded reports whether a file is small and flat enough to be parsed, and adds the
// problem where it is not.
func (d *decoder) bounded(data []byte) bool {
	const remedy = "put long lists into a file, and name it by `inputs:`"
	var (
		n     nesting
		count = map[token.Type]int{}
	)
	for i, t := range lexer.Tokenize(string(data)) {
		count[t.Type]++
		problem, hint := "", remedy
		switch {
		case i >= maxTokens:
			problem = fmt.Sprintf("a file has at most %d words and signs", maxTokens)
		case count[token.MappingValueType] > maxKeys:
			problem = fmt.Sprintf("a file has at most %d keys", maxKeys)
		case max(count[token.DocumentHeaderType], count[token.DocumentEndType]) > maxDocuments:
			problem, hint = fmt.Sprintf(documentsProblem, maxDocuments), documentsHint
		case n.add(t) > maxDepth:
			problem, hint = fmt.Sprintf("a file nests at most %d levels deep", maxDepth), ""
		default:
			continue
		}
		d.report.problem(t, hint, "%s", problem)
		return false
	}
	return true
}

// nesting is the depth at a token: that of brackets, of indentation, and of what nests
// within a line, such as `- - a`.
type nesting struct {
	flow    int
	columns []int // of the lines around, each further right than the one before
	line    int
	inLine  int
}

func (n *nesting) add(t *token.Token) int {
	if t.Position != nil && t.Position.Line != n.line {
		n.line, n.inLine = t.Position.Line, 0
		if n.flow == 0 {
			n.indent(t.Position.Column)
		}
	}
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		n.flow++
	case token.SequenceEndType, token.MappingEndType:
		n.flow = max(n.flow-1, 0)
		n.inLine = 0
	case token.CollectEntryType:
		n.inLine = 0
	case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType, token.AnchorType, token.TagType:
		n.inLine++
	}
	return n.flow + n.inLine + len(n.columns)
}

func (n *nesting) indent(column int) {
	for len(n.columns) > 0 && n.columns[len(n.columns)-1] >= column {
		n.columns = n.columns[:len(n.columns)-1]
	}
	n.columns = append(n.columns, column)
}
