package output

import (
	"strconv"
	"strings"
)

// CSVText returns a text as a cell of a table that a spreadsheet may open. A text that would be
// a formula there gets a quote before it, and a number stays as it is.
func CSVText(text string) string {
	text = Printable(text)
	if _, err := strconv.ParseFloat(text, 64); err == nil || !strings.ContainsAny(text[:min(len(text), 1)], "=+-@\t\r") {
		return text
	}
	return "'" + text
}
