package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A page is one manual page; body is roff in the macros of man(7).
type page struct {
	name, section, title string
	body                 string
	also                 []string // as name(section)
	tables               bool     // it has tables of tbl(1)
}

func (p page) roff(version, date string) string {
	var b strings.Builder
	if p.tables {
		b.WriteString("'\\\" t\n") // which preprocessors it needs (man(1))
	}
	fmt.Fprintf(&b, ".TH %s %s %s %q BEE\n", strings.ToUpper(p.name), p.section, date, "bee "+version)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n%s", p.name, escape(p.title), p.body)
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(p.also, ",\n"))
	return b.String()
}

// paragraphs turns the text of a help into roff. Lines that are indented stay as they are.
func paragraphs(text string) string {
	var b strings.Builder
	for i, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		switch {
		case strings.HasPrefix(block, " "):
			fmt.Fprintf(&b, ".PP\n%s", verbatim(block))
			continue
		case i > 0:
			b.WriteString(".PP\n")
		}
		fmt.Fprintln(&b, lines(inline(block)))
	}
	return b.String()
}

// verbatim is text whose lines stay as they are.
func verbatim(text string) string {
	return fmt.Sprintf(".nf\n%s\n.fi\n", lines(escape(text)))
}

var (
	link = regexp.MustCompile(`\[([^]]+)\]\([^)]+\)`)
	code = regexp.MustCompile("`([^`]+)`")
)

// inline turns Markdown within a paragraph into roff: code is bold, links show their words.
func inline(markdown string) string {
	text := escape(link.ReplaceAllString(markdown, "$1"))
	return code.ReplaceAllString(text, `\fB$1\fR`)
}

func escape(text string) string {
	return strings.NewReplacer(`\`, `\e`, `-`, `\-`, "…", "...", "\t", "    ").Replace(text)
}

// lines guards lines that begin with what roff reads as a macro.
func lines(text string) string {
	all := strings.Split(text, "\n")
	for i, l := range all {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			all[i] = `\&` + l
		}
	}
	return strings.Join(all, "\n")
}
