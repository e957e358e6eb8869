package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Cell is a cell of a table with a style.
type Cell struct {
	Text  any
	Style Style
}

// Table writes rows whose columns stand one below the other. A gap begins a new block,
// with columns of its own. Nothing in a cell can break a row.
type Table struct {
	screen *Screen
	blocks [][]row
	// prose: the last column is wrapped on a terminal; else columns are shortened.
	prose    bool
	optional []int
	// kept are columns that others are shortened before.
	kept []int
}

type row struct {
	cells []string
	below []string // further lines of the last cell
	style []Style
}

// List returns a table whose widest columns are shortened on a terminal. Where that is not
// enough, the optional columns, counted from 0, are left out in their order.
func (s *Screen) List(optional ...int) *Table {
	return &Table{screen: s, blocks: make([][]row, 1), optional: optional}
}

// Keep has columns, counted from 0, shortened only where a terminal is too narrow for all that can
// be left out.
func (t *Table) Keep(columns ...int) *Table {
	t.kept = columns
	return t
}

// Prose returns a table whose last column is wrapped on a terminal.
func (s *Screen) Prose() *Table { return &Table{screen: s, blocks: make([][]row, 1), prose: true} }

// Row adds a row of cells and other values. Further lines of its last cell stand below it.
func (t *Table) Row(values ...any) {
	var r row
	for i, v := range values {
		c, is := v.(Cell)
		if !is {
			c = Cell{Text: v}
		}
		text := t.screen.text(fmt.Sprint(c.Text))
		if i < len(values)-1 {
			text = strings.ReplaceAll(text, "\n", "; ")
		} else {
			lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
			text, r.below = lines[0], lines[1:]
		}
		r.cells, r.style = append(r.cells, text), append(r.style, c.Style)
	}
	last := len(t.blocks) - 1
	t.blocks[last] = append(t.blocks[last], r)
}

// Gap adds an empty line.
func (t *Table) Gap() { t.blocks = append(t.blocks, nil) }

// space is what separates two columns.
const space = 2

// Flush writes the table. No line ends with spaces.
func (t *Table) Flush() error {
	var b strings.Builder
	for i, block := range t.blocks {
		if i > 0 {
			b.WriteString("\n")
		}
		switch widths := widthsOf(block); {
		case t.screen.terminal && t.prose:
			t.write(&b, wrapped(block, widths, t.screen.columns), widths)
		case t.screen.terminal:
			t.write(&b, t.fitted(block, &widths), widths)
		default:
			t.write(&b, block, widths)
		}
	}
	for line := range strings.Lines(b.String()) {
		if _, err := io.WriteString(t.screen, line); err != nil {
			return err
		}
	}
	return nil
}

// widthsOf are the widths of columns.
func widthsOf(block []row) []int {
	var widths []int
	for _, r := range block {
		for i, c := range r.cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], runewidth.StringWidth(c))
		}
		for _, line := range r.below {
			widths[len(r.cells)-1] = max(widths[len(r.cells)-1], runewidth.StringWidth(line))
		}
	}
	return widths
}

func (t *Table) write(b *strings.Builder, block []row, widths []int) {
	for _, r := range block {
		var line, indent strings.Builder
		for i, c := range r.cells {
			pad := strings.Repeat(" ", max(widths[i]-runewidth.StringWidth(c), 0)+space)
			line.WriteString(t.screen.paint(c, r.style[i]))
			if i < len(r.cells)-1 {
				line.WriteString(pad)
				indent.WriteString(strings.Repeat(" ", widths[i]+space))
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		for _, below := range r.below {
			b.WriteString(strings.TrimRight(indent.String()+below, " ") + "\n")
		}
	}
}

// leastProse is the width below which no text is wrapped.
const leastProse = 20

// wrapped wraps the last cells of a block for a terminal.
func wrapped(block []row, widths []int, columns int) []row {
	all := slices.Clone(block)
	for i := range all {
		r := &all[i]
		room := columns
		for _, w := range widths[:max(len(r.cells)-1, 0)] {
			room -= w + space
		}
		if room < leastProse || len(r.cells) == 0 {
			continue
		}
		var lines []string
		for _, line := range append([]string{r.cells[len(r.cells)-1]}, r.below...) {
			lines = append(lines, wrap(line, room)...)
		}
		r.cells = append(slices.Clone(r.cells[:len(r.cells)-1]), lines[0])
		r.below = lines[1:]
	}
	return all
}

// wrap breaks a line between words. A word that is too long has a line of its own.
func wrap(line string, width int) []string {
	if runewidth.StringWidth(line) <= width {
		return []string{line}
	}
	var lines []string
	now := ""
	for word := range strings.SplitSeq(line, " ") {
		if next := now + " " + word; now != "" && runewidth.StringWidth(next) > width {
			lines, now = append(lines, now), word
		} else if now == "" {
			now = word
		} else {
			now = next
		}
	}
	return append(lines, now)
}

// least are the widths down to which columns are shortened: first those with which optional
// columns are left out, then all others.
const (
	leastUsual = 8
	leastEver  = 4
)

// fitted shortens and leaves out columns until a block fits on the terminal. The first
// column is never shortened, as it has what commands are given.
func (t *Table) fitted(block []row, widths *[]int) []row {
	left := make([]int, len(*widths))
	for i := range left {
		left[i] = i
	}
	for _, out := range append([]int{-1}, t.optional...) {
		left = slices.DeleteFunc(left, func(i int) bool { return i == out })
		if w, fits := narrowed(*widths, left, t.kept, leastUsual, t.screen.columns); fits {
			*widths = w
			return t.only(block, left, w)
		}
	}
	w, _ := narrowed(*widths, left, nil, leastEver, t.screen.columns)
	*widths = w
	return t.only(block, left, w)
}

// narrowed returns the widths of the columns that are left, made narrower until they fit. The first
// one and those that are kept are not.
func narrowed(widths, left, kept []int, least, columns int) (w []int, fits bool) {
	total := 0
	for _, i := range left {
		w = append(w, widths[i])
		total += widths[i] + space
	}
	total -= space
	for total > columns {
		widest := 0
		for i := 1; i < len(w); i++ {
			if !slices.Contains(kept, left[i]) && (widest == 0 || w[i] > w[widest]) {
				widest = i
			}
		}
		if widest == 0 || w[widest] <= least {
			return w, false
		}
		w[widest]--
		total--
	}
	return w, true
}

// only returns rows with the columns that are left, shortened to their widths.
func (t *Table) only(block []row, left, widths []int) []row {
	ending := "…"
	if t.screen.ascii {
		ending = ".."
	}
	all := make([]row, len(block))
	for n, r := range block {
		short := func(text string, width int) string { return runewidth.Truncate(text, width, ending) }
		for at, i := range left {
			if i >= len(r.cells) {
				continue
			}
			all[n].cells = append(all[n].cells, short(r.cells[i], widths[at]))
			all[n].style = append(all[n].style, r.style[i])
			if i == len(r.cells)-1 {
				for _, line := range r.below {
					all[n].below = append(all[n].below, short(line, widths[at]))
				}
			}
		}
	}
	return all
}
