package main

import (
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/docs"
	"github.com/bee-hpc/bee/internal/cli/topic"
)

// topicPage returns the page of a topic: the same text as on the site of the documentation.
func topicPage(t docs.Topic) (page, error) {
	read, err := topic.Read(t)
	if err != nil {
		return page{}, err
	}
	p := page{name: t.Man, section: t.Section, title: t.Short, also: []string{"bee(1)"}}
	for _, other := range read.Also {
		p.also = append(p.also, other.Man+"("+other.Section+")")
	}
	var b strings.Builder
	if len(read.Blocks) > 0 && read.Blocks[0].Heading == 0 {
		b.WriteString(".SH DESCRIPTION\n")
	}
	depth, afterHeading := 0, true
	for _, block := range read.Blocks {
		for ; depth < block.Depth-1; depth++ { // an item of one list stands in by itself
			b.WriteString(".RS\n")
		}
		for ; depth > max(block.Depth-1, 0); depth-- {
			b.WriteString(".RE\n")
		}
		switch {
		case block.Heading > 0:
			fmt.Fprintf(&b, ".%s %s\n", map[bool]string{true: "SH", false: "SS"}[block.Heading <= 2], quoted(styled(block.Text)))
		case block.Code != nil:
			fmt.Fprintf(&b, ".RS 4\n%s.RE\n", verbatim(strings.Join(block.Code, "\n")))
		case block.Rows != nil:
			p.tables = true
			if !afterHeading {
				b.WriteString(".sp\n")
			}
			table(&b, block.Rows)
		case block.Item == "*":
			fmt.Fprintf(&b, ".IP \\(bu 2\n%s\n", lines(styled(block.Text)))
		case block.Item != "":
			fmt.Fprintf(&b, ".IP %s 4\n%s\n", block.Item, lines(styled(block.Text)))
		case block.Depth > 0:
			fmt.Fprintf(&b, ".IP\n%s\n", lines(styled(block.Text)))
		case afterHeading:
			fmt.Fprintln(&b, lines(styled(block.Text)))
		default:
			fmt.Fprintf(&b, ".PP\n%s\n", lines(styled(block.Text)))
		}
		afterHeading = block.Heading > 0
	}
	for ; depth > 0; depth-- {
		b.WriteString(".RE\n")
	}
	p.body = b.String()
	return p, nil
}

// styled turns a text into roff: code is bold, what is strong is italic.
func styled(t topic.Text) string {
	var b strings.Builder
	for _, s := range t {
		switch text := escape(s.Text); {
		case s.Code:
			b.WriteString(`\fB` + text + `\fR`)
		case s.Strong:
			b.WriteString(`\fI` + text + `\fR`)
		default:
			b.WriteString(text)
		}
	}
	return b.String()
}

// quoted is the argument of a macro.
func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `\(dq`) + `"` }

// widest is up to how many characters a column takes what its widest cell needs.
const widest = 24

// table writes rows for tbl(1). The last column takes the room that the others leave.
func table(b *strings.Builder, rows [][]topic.Text) {
	var format []string
	for i := range rows[0] {
		needs := 0
		for _, row := range rows {
			needs = max(needs, len([]rune(row[i].String())))
		}
		switch {
		case i == len(rows[0])-1:
			format = append(format, "lx")
		case needs > widest:
			format = append(format, fmt.Sprintf("lw(%dn)", widest))
		default:
			format = append(format, "l")
		}
	}
	var head []string
	for _, f := range format {
		head = append(head, strings.Replace(f, "l", "lb", 1))
	}
	fmt.Fprintf(b, ".TS\nallbox;\n%s\n%s.\n", strings.Join(head, " "), strings.Join(format, " "))
	for _, row := range rows {
		var cells []string
		for _, c := range row {
			if text := styled(c); text == "" {
				cells = append(cells, "")
			} else {
				cells = append(cells, "T{\n"+lines(text)+"\nT}")
			}
		}
		b.WriteString(strings.Join(cells, "\t") + "\n")
	}
	b.WriteString(".TE\n")
}
