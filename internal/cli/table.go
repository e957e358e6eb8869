package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// table writes rows whose columns stand one below the other. What its cells say
// comes from files, sites and tools, so none of it may break a row.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer) table { return table{tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)} }

// row adds a row. Further lines of its last cell stand below it.
func (t table) row(cells ...any) {
	last := len(cells) - 1
	for _, c := range cells[:last] {
		fmt.Fprint(t.w, strings.ReplaceAll(printable(fmt.Sprint(c)), "\n", "; "), "\t")
	}
	below := "\n" + strings.Repeat("\t", last)
	fmt.Fprintln(t.w, strings.ReplaceAll(strings.TrimRight(printable(fmt.Sprint(cells[last])), "\n"), "\n", below))
}

// gap adds an empty line.
func (t table) gap() { fmt.Fprintln(t.w) }

func (t table) flush() error { return t.w.Flush() }

// printable gives a text in which nothing but its line breaks does more to a
// terminal than to show: names and messages of others may hold anything.
func printable(s string) string {
	s = strings.ToValidUTF8(s, string(unicode.ReplacementChar))
	if strings.IndexFunc(s, isControl) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteByte(' ')
		case isControl(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isControl(r rune) bool {
	return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}
