package cloud

import (
	"fmt"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
)

// mostNames is how many names an error lists.
const mostNames = 20

// Nearest returns names that a cloud has for messages, quoted: those that begin as a word does first, and not all of many.
func Nearest(word string, names []string) []string {
	common := func(name string) (n int) {
		for n < min(len(name), len(word)) && name[n] == word[n] {
			n++
		}
		return n
	}
	slices.Sort(names)
	names = slices.Compact(names)
	slices.SortStableFunc(names, func(x, y string) int { return common(y) - common(x) })
	quoted := make([]string, min(len(names), mostNames))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%q", core.Printable(names[i], 80))
	}
	return quoted
}
