package spec

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxFile bounds a file, so that one which is no Beefile is refused at once.
const maxFile = 1 << 20

// readBounded reads a file, and of one that is too large only as much as shows that.
func readBounded(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, int64(maxFile+len(mark)+1)))
}

// mark is what some editors begin UTF-8 with.
const mark = "\ufeff"

// unmarked is a file without the mark.
func unmarked(data []byte) []byte { return bytes.TrimPrefix(data, []byte(mark)) }

// root parses the file and gives its one mapping, or nil.
func (d *decoder) root(data []byte) ast.Node {
	documents := d.documents(data)
	if len(documents) > 1 {
		d.report.problem(documents[1].GetToken(), "", "a second document begins here; one file holds one document")
	}
	if len(documents) != 1 {
		return nil
	}
	ast.Walk(d, documents[0])
	return documents[0]
}

// documents parses the file and gives the mapping of each of its documents that is not empty;
// none where one cannot be read.
func (d *decoder) documents(data []byte) []ast.Node {
	data = unmarked(data)
	if len(data) > maxFile {
		d.report.problems = append(d.report.problems, Problem{File: d.report.file, Line: 1, Column: 1, Message: fmt.Sprintf("the file has more than %d bytes", maxFile)})
		return nil
	}
	if !utf8.Valid(data) {
		at := place(data, int64(invalidAt(data)+1)).Position
		d.report.problems = append(d.report.problems, Problem{File: d.report.file, Line: at.Line, Column: at.Column, Message: "this is not text in UTF-8, as YAML has to be"})
		return nil
	}
	if !d.bounded(data) {
		return nil
	}
	f, err := parser.Parse(withoutEmpty(lexer.Tokenize(string(data))), 0, parser.AllowDuplicateMapKey()) // merged reports them, beside all else
	if err != nil {
		d.syntax(err)
		return nil
	}
	var documents []ast.Node
	for _, doc := range f.Docs {
		switch doc.Body.(type) {
		case nil, *ast.DirectiveNode:
			continue
		case *ast.NullNode:
			if len(f.Docs) > 1 { // an empty one between others
				continue
			}
		}
		documents = append(documents, doc.Body)
	}
	switch {
	case len(documents) == 0:
		d.report.problems = append(d.report.problems, Problem{File: d.report.file, Line: 1, Column: 1, Message: "the file is empty"})
	case len(documents) > maxDocuments:
		d.report.problem(begins(documents[maxDocuments]), documentsHint, documentsProblem, maxDocuments)
		return nil
	}
	return documents
}

// withoutEmpty returns the tokens of a file without those that begin empty documents: the parser
// drops all that follows one.
func withoutEmpty(tokens token.Tokens) token.Tokens {
	kept := make(token.Tokens, 0, len(tokens))
	last := token.UnknownType // of what follows, but for comments
	for _, t := range slices.Backward(tokens) {
		if t.Type == token.DocumentHeaderType && (last == token.DocumentHeaderType || last == token.DocumentEndType) {
			continue
		}
		if t.Type != token.CommentType {
			last = t.Type
		}
		kept = append(kept, t)
	}
	slices.Reverse(kept)
	return kept
}

// syntax makes a problem of the parser's own error.
func (d *decoder) syntax(err error) {
	p := Problem{File: d.report.file, Line: 1, Column: 1, Message: "not valid YAML: " + firstLine(err.Error())}
	if e, ok := err.(interface{ GetToken() *token.Token }); ok && e.GetToken() != nil { // the parser's own, bare
		message := "not valid YAML: " + messageOf(err)
		if d.tabBegins(e.GetToken()) {
			message = "a tab begins this line: YAML wants spaces there"
		}
		d.report.problem(e.GetToken(), "", "%s", message)
		return
	}
	d.report.problems = append(d.report.problems, p)
}

// tabBegins reports whether the line of a token is indented by a tab.
func (d *decoder) tabBegins(at *token.Token) bool {
	if at.Position == nil || at.Position.Line < 1 || at.Position.Line > len(d.report.lines) {
		return false
	}
	return strings.HasPrefix(strings.TrimLeft(d.report.lines[at.Position.Line-1], " "), "\t")
}

func messageOf(err error) string {
	if e, ok := err.(interface{ GetMessage() string }); ok {
		return e.GetMessage()
	}
	return firstLine(err.Error())
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
