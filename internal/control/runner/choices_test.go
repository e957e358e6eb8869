package runner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// choice is one decision of a history: the nth that was made about something.
// It is known by that name, not by its place among all the others, so that a
// history that is kept means the same after the model has learnt more.
type choice struct {
	what string
	n    int
}

// choices is a history's decisions. 0 always means that nothing goes wrong, and
// is not written down.
type choices struct {
	mu    sync.Mutex // for who looks at a history that does not end
	given map[choice]int
	seen  map[string]int
	// draw decides in place of given, where what it decides is written down; nil: what is
	// not given is 0.
	draw func(what string, nth, n int) int
}

// of decides about something between n ways.
func (c *choices) of(what string, n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]int{}
	}
	k := choice{what, c.seen[what]}
	c.seen[what] = k.n + 1
	if c.draw == nil {
		return c.given[k] % n
	}
	v := c.draw(what, k.n, n)
	if v != 0 {
		if c.given == nil {
			c.given = map[choice]int{}
		}
		c.given[k] = v
	}
	return v % n
}

// String is the history in words: what, and the how manieth of them where it is
// not the first.
func (c *choices) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(c.given), func(a, b choice) int {
		return cmp.Or(cmp.Compare(a.what, b.what), cmp.Compare(a.n, b.n))
	})
	words := make([]string, len(keys))
	for i, k := range keys {
		words[i] = fmt.Sprintf("%s#%d=%d", k.what, k.n, c.given[k])
		if k.n == 0 {
			words[i] = fmt.Sprintf("%s=%d", k.what, c.given[k])
		}
	}
	return strings.Join(words, " ")
}

// parseChoices reads what String has written.
func parseChoices(text string) (map[choice]int, error) {
	given := map[choice]int{}
	for _, word := range strings.Fields(text) {
		name, value, _ := strings.Cut(word, "=")
		what, nth, is := strings.Cut(name, "#")
		v, err := strconv.Atoi(value)
		n := 0
		if err == nil && is {
			n, err = strconv.Atoi(nth)
		}
		if err != nil {
			return nil, fmt.Errorf("%q is no choice such as launch.a#2=1", word)
		}
		given[choice{what, n}] = v
	}
	return given, nil
}
