package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/bee-hpc/bee/internal/core"
)

// table writes rows whose columns stand one below the other. What its cells say
// comes from files, sites and tools, so none of it may break a row.
type table struct {
	w    *tabwriter.Writer
	text *bytes.Buffer
	out  io.Writer
}

func newTable(out io.Writer) table {
	var text bytes.Buffer
	return table{tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0), &text, out}
}

// row adds a row. Further lines of its last cell stand below it.
func (t table) row(cells ...any) {
	last := len(cells) - 1
	for _, c := range cells[:last] {
		fmt.Fprint(t.w, strings.ReplaceAll(printable(fmt.Sprint(c)), "\n", "; "), "\t") //nolint:errcheck // to memory
	}
	below := "\n" + strings.Repeat("\t", last)
	fmt.Fprintln(t.w, strings.ReplaceAll(strings.TrimRight(printable(fmt.Sprint(cells[last])), "\n"), "\n", below)) //nolint:errcheck // to memory
}

// gap adds an empty line.
func (t table) gap() { fmt.Fprintln(t.w) } //nolint:errcheck // to memory

// flush writes the table, whose lines end with what they say: the columns are
// padded even where nothing stands behind them.
func (t table) flush() error {
	t.w.Flush() //nolint:errcheck // to memory
	for line := range strings.Lines(t.text.String()) {
		if _, err := fmt.Fprintln(t.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// printable is core.Printable of a text that may be a long one.
func printable(s string) string { return core.Printable(s, 1<<20) }
