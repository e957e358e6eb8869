package topic

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/docs"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extensions "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown is the page of a topic as it is written.
func markdown(t *testing.T, topic docs.Topic) []byte {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("../../../docs", topic.File))
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// TestPagesAreThoseOfTheDocumentation: what is embedded is made of the documentation. BEE_TEST_WRITE=1 makes it.
func TestPagesAreThoseOfTheDocumentation(t *testing.T) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	write := func(l line) {
		if err := e.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	for _, topic := range docs.Topics() {
		p := parse(markdown(t, topic), topic.File)
		head := line{Topic: topic.Name, Title: p.Title}
		for _, also := range p.Also {
			head.Also = append(head.Also, also.Name)
		}
		write(head)
		for i := range p.Blocks {
			write(line{Block: &p.Blocks[i]})
		}
	}
	if os.Getenv(testkit.WriteGolden) != "" {
		if err := os.WriteFile("pages.jsonl", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != pages {
		t.Errorf("pages.jsonl is not made of the pages of docs: set %s=1, and run this test again", testkit.WriteGolden)
	}
}

// parse reads Markdown: that of CommonMark, with tables.
func parse(source []byte, file string) Page {
	p := parser.NewParser(
		parser.WithBlockParsers(parser.DefaultBlockParsers()...),
		parser.WithInlineParsers(parser.DefaultInlineParsers()...),
		parser.WithParagraphTransformers(append(parser.DefaultParagraphTransformers(), util.Prioritized(extension.NewTableParagraphTransformer(), 200))...), // as extension.Table
		parser.WithASTTransformers(util.Prioritized(extension.NewTableASTTransformer(), 0)),
	)
	r := reader{source: source, file: file, dir: path.Dir(file)}
	r.blocks(p.Parse(text.NewReader(source)), 0)
	for _, t := range docs.Topics() {
		if t.File != file && slices.Contains(r.linked, t.File) {
			r.page.Also = append(r.page.Also, t)
		}
	}
	return r.page
}

// reader makes a page of a tree of Markdown.
type reader struct {
	source []byte
	file   string // of the page, and dir is its directory
	dir    string
	linked []string
	page   Page
}

// blocks adds the blocks below a node, which are in lists of that depth.
func (r *reader) blocks(parent ast.Node, depth int) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 1 && r.page.Title == "" {
				r.page.Title = r.text(n).String()
			} else {
				r.add(Block{Heading: n.Level, Text: r.text(n)})
			}
		case *ast.List:
			r.list(n, depth+1)
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			r.add(Block{Code: r.lines(n), Depth: depth})
		case *extensions.Table:
			r.add(Block{Rows: r.rows(n), Depth: depth})
		case *ast.HTMLBlock, *ast.ThematicBreak: // comments
		case *ast.Paragraph, *ast.TextBlock:
			r.add(Block{Text: r.text(n), Depth: depth})
		default:
			r.blocks(n, depth)
		}
	}
}

func (r *reader) add(b Block) { r.page.Blocks = append(r.page.Blocks, b) }

func (r *reader) list(l *ast.List, depth int) {
	number := l.Start
	for item := l.FirstChild(); item != nil; item = item.NextSibling() {
		first := len(r.page.Blocks)
		r.blocks(item, depth)
		if len(r.page.Blocks) == first {
			continue
		}
		b := &r.page.Blocks[first]
		b.Item = "*"
		if l.IsOrdered() {
			b.Item = strconv.Itoa(number) + "."
			number++
		}
	}
}

func (r *reader) lines(n ast.Node) (all []string) {
	for i := range n.Lines().Len() {
		line := n.Lines().At(i)
		all = append(all, strings.TrimRight(string(line.Value(r.source)), "\n"))
	}
	return all
}

func (r *reader) rows(table ast.Node) (all [][]Text) {
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []Text
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, r.text(cell))
		}
		all = append(all, cells)
	}
	return all
}

// text returns what stands in a node. Of links to other pages, it has the words.
func (r *reader) text(n ast.Node) Text {
	var t Text
	r.spans(n, Span{}, &t)
	return t
}

func (r *reader) spans(parent ast.Node, as Span, t *Text) {
	put := func(text string) {
		as.Text = text
		*t = append(*t, as)
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			value := n.Value(r.source)
			if !as.Code && !n.IsRaw() {
				value = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
			}
			put(string(value))
			if n.SoftLineBreak() || n.HardLineBreak() {
				put(" ")
			}
		case *ast.String:
			put(string(n.Value))
		case *ast.CodeSpan:
			var code Text
			r.spans(n, Span{Code: true}, &code)
			*t = append(*t, Span{Text: strings.ReplaceAll(code.String(), "\n", " "), Code: true})
		case *ast.Emphasis:
			r.spans(n, Span{Strong: true}, t)
		case *ast.AutoLink:
			put(string(n.Label(r.source)))
		case *ast.Link:
			r.spans(n, as, t)
			*t = append(*t, r.link(string(n.Destination), r.text(n).String())...)
		case *ast.RawHTML: // a comment
		default:
			r.spans(n, as, t)
		}
	}
}

// link notes a link to another page, and returns what stands behind its words: the address, the
// topic that the page is, unless the words name it, or the path of the page.
func (r *reader) link(target, words string) Text {
	page, _, _ := strings.Cut(target, "#")
	if strings.Contains(page, "://") {
		return Text{{Text: " (" + target + ")"}}
	}
	file := path.Join(r.dir, page)
	if page == "" || file == r.file {
		return nil
	}
	r.linked = append(r.linked, file)
	for _, t := range docs.Topics() {
		if t.File == file && strings.Contains(strings.ToLower(words), t.Name) {
			return nil
		} else if t.File == file {
			return Text{{Text: " ("}, {Text: "bee help " + t.Name, Code: true}, {Text: ")"}}
		}
	}
	return Text{{Text: " (" + path.Join("docs", file) + ")"}}
}
