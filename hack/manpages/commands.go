package main

import (
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/docs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandPages returns the pages of c and of all commands below it.
func commandPages(c *cobra.Command) []page {
	pages := []page{commandPage(c)}
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			pages = append(pages, commandPages(s)...)
		}
	}
	return pages
}

func commandPage(c *cobra.Command) page {
	p := page{name: pageName(c), section: "1", title: c.Short}
	var b strings.Builder
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.nf\n\\fB%s\\fR\n.fi\n", escape(c.UseLine()))
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", paragraphs(text))
	if below := available(c); len(below) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, s := range below {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s.\n", escape(s.Name()), lines(inline(s.Short)))
			p.also = append(p.also, pageName(s)+"(1)")
		}
	}
	options(&b, "OPTIONS", c.NonInheritedFlags())
	options(&b, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n%s", verbatim(c.Example))
	}
	p.body = b.String()
	if c.HasParent() {
		p.also = append([]string{pageName(c.Parent()) + "(1)"}, p.also...)
	} else {
		for _, t := range docs.Topics() {
			p.also = append(p.also, t.Man+"("+t.Section+")")
		}
	}
	return p
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func available(c *cobra.Command) (below []*cobra.Command) {
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			below = append(below, s)
		}
	}
	return below
}

func options(b *strings.Builder, section string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", section)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		name := `\fB` + escape("--"+f.Name) + `\fR`
		if f.Shorthand != "" {
			name = `\fB` + escape("-"+f.Shorthand) + `\fR, ` + name
		}
		if value != "" {
			name += ` \fI` + escape(value) + `\fR`
		}
		fmt.Fprintf(b, ".TP\n%s\n%s.\n", name, lines(inline(text)))
	})
}
