package spec

import (
	"regexp"
	"strings"
)

// meanings are what the documents say of keys, by their path without indexes.
type meanings map[string]string

// read takes the tables of a page that begin with "key", or "key of `vm`", for the
// keys below a path. What only a page has, such as links, is left out.
func (m meanings) read(page, below string) {
	link := regexp.MustCompile(`\[([^]]+)\]\([^)]+\)| \(below\)`)
	code := regexp.MustCompile("`([^`]+)`")
	at, inside := "", false
	for _, line := range strings.Split(page, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		switch {
		case !strings.HasPrefix(line, "| "):
			inside = inside && strings.HasPrefix(line, "|--")
		case !inside && (cells[0] == "key" || strings.HasPrefix(cells[0], "key of ")):
			at, inside = below, true
			if parent := code.FindStringSubmatch(cells[0]); parent != nil {
				at = join(below, parent[1])
			}
		case inside && len(cells) > 1:
			says := link.ReplaceAllString(cells[1], "$1")
			if len(cells) > 2 {
				says += "; default: " + link.ReplaceAllString(cells[2], "$1")
			}
			for _, key := range code.FindAllStringSubmatch(cells[0], -1) {
				m[join(at, key[1])] = says
			}
		}
	}
}
