package topic

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// space is what separates two columns, and leastColumn the width below which none is wrapped.
const (
	space       = 2
	leastColumn = 10
)

// table returns the lines of a table in a width: as columns, or each cell on lines of its own
// where columns would be too narrow.
func (s *sheet) table(rows [][]Text, width int) []string {
	var cells [][]string
	for _, r := range rows {
		var texts []string
		for _, c := range r {
			texts = append(texts, s.inline(c))
		}
		cells = append(cells, texts)
	}
	if len(cells) == 0 {
		return nil
	}
	head, body := cells[0], cells[1:]
	if widths, fit := columns(cells, width); fit {
		return inColumns(head, body, widths)
	}
	return stacked(head, body, width)
}

// columns returns the widths that columns have in a width, and whether that is enough for them.
func columns(cells [][]string, width int) (widths []int, fit bool) {
	var least []int
	for _, row := range cells {
		for i, c := range row {
			if i == len(widths) {
				widths, least = append(widths, 1), append(least, leastColumn)
			}
			widths[i] = max(widths[i], runewidth.StringWidth(c))
			for word := range strings.SplitSeq(c, " ") {
				least[i] = max(least[i], min(runewidth.StringWidth(word), 2*leastColumn))
			}
		}
	}
	total := space * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > width; total-- {
		widest := -1
		for i, w := range widths {
			if w > least[i] && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return nil, false
		}
		widths[widest]--
	}
	return widths, true
}

// inColumns returns rows below their head. A gap follows each row where a cell before the last one
// has several lines.
func inColumns(head []string, body [][]string, widths []int) (lines []string) {
	if strings.Join(head, "") != "" {
		var names, rule []string
		for i, h := range head {
			if names = append(names, ""); h != "" {
				names[i] = strong(h)
			}
			rule = append(rule, strings.Repeat("-", widths[i]))
		}
		top, _ := beside(names, widths)
		lines = append(top, strings.Join(rule, strings.Repeat(" ", space)))
	}
	gaps := false
	var each [][]string
	for _, row := range body {
		one, tall := beside(row, widths)
		each, gaps = append(each, one), gaps || tall
	}
	for i, one := range each {
		if gaps && i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, one...)
	}
	return lines
}

// beside returns the lines of cells that stand side by side. Tall: one before the last has several.
func beside(cells []string, widths []int) (lines []string, tall bool) {
	var wrapped [][]string
	most := 0
	for i, c := range cells {
		wrapped = append(wrapped, wrap(c, widths[i]))
		most = max(most, len(wrapped[i]))
		tall = tall || len(wrapped[i]) > 1 && i < len(cells)-1
	}
	for n := range most {
		var b strings.Builder
		for i, cell := range wrapped {
			text := ""
			if n < len(cell) {
				text = cell[n]
			}
			b.WriteString(text + strings.Repeat(" ", max(widths[i]-runewidth.StringWidth(text), 0)+space))
		}
		lines = append(lines, b.String())
	}
	return lines, tall
}

// stacked returns rows as their first cell, and the others below it, each behind its head.
func stacked(head []string, body [][]string, width int) (lines []string) {
	for i, row := range body {
		if i > 0 {
			lines = append(lines, "")
		}
		for n, cell := range row {
			if cell == "" {
				continue
			}
			at := 0
			if n > 0 {
				at = codeIndent
				if head[n] != "" {
					cell = head[n] + ": " + cell
				}
			}
			for _, line := range wrap(cell, width-at) {
				lines = append(lines, strings.Repeat(" ", at)+line)
			}
		}
	}
	return lines
}

// wrap breaks a text between words, and a word only where it has no room: at a no-break space if it
// has one. What is strong ends on each line, and continues on the next.
func wrap(text string, width int) []string {
	width = max(width, leastColumn)
	var lines []string
	now := ""
	for word := range strings.SplitSeq(text, " ") {
		if next := now + " " + word; now != "" && runewidth.StringWidth(next) <= width {
			now = next
			continue
		} else if now != "" {
			lines = append(lines, now)
		}
		for now = word; runewidth.StringWidth(now) > width; {
			start := runewidth.Truncate(now, width, "")
			rest := now[len(start):]
			if at := strings.LastIndex(start, noBreak); at > 0 && !strings.HasPrefix(rest, noBreak) {
				start, rest = start[:at], now[at:]
			}
			lines, now = append(lines, start), strings.TrimPrefix(rest, noBreak)
		}
	}
	lines = append(lines, now)
	open := false
	for i, line := range lines {
		if open {
			line = on + line
		}
		if open = strings.LastIndex(line, on) > strings.LastIndex(line, off); open {
			line += off
		}
		lines[i] = line
	}
	return lines
}
