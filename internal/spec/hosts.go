package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// maxHosts bounds what one pattern may mean.
const maxHosts = 20000

// ExpandHosts gives the hosts of a pattern such as ann@n[01-16,20].x, in the
// way of Slurm: widths of numbers are kept.
func ExpandHosts(pattern string) ([]string, error) {
	open := strings.IndexByte(pattern, '[')
	if open < 0 {
		if pattern == "" || strings.ContainsAny(pattern, "] \t") || strings.HasPrefix(pattern, "-") {
			return nil, fmt.Errorf("%q is no host name", pattern)
		}
		return []string{pattern}, nil
	}
	length := strings.IndexByte(pattern[open:], ']')
	if length < 0 {
		return nil, fmt.Errorf("%q: a bracket is not closed", pattern)
	}
	before, inside, after := pattern[:open], pattern[open+1:open+length], pattern[open+length+1:]
	rest := []string{""}
	if after != "" {
		var err error
		if strings.ContainsRune(after, '[') {
			if rest, err = ExpandHosts(after); err != nil {
				return nil, err
			}
		} else {
			rest = []string{after}
		}
	}
	var hosts []string
	for _, part := range strings.Split(inside, ",") {
		numbers, err := expandRange(part)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", pattern, err)
		}
		if len(hosts)+len(numbers)*len(rest) > maxHosts {
			return nil, fmt.Errorf("%q means more than %d hosts", pattern, maxHosts)
		}
		for _, n := range numbers {
			for _, r := range rest {
				hosts = append(hosts, before+n+r)
			}
		}
	}
	return hosts, nil
}

func expandRange(part string) ([]string, error) {
	first, last, isRange := strings.Cut(part, "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err1 != nil || err2 != nil || from < 0 || to < from || to-from >= maxHosts {
		return nil, fmt.Errorf("%q is no range of numbers", part)
	}
	numbers := make([]string, 0, to-from+1)
	for i := from; i <= to; i++ {
		numbers = append(numbers, fmt.Sprintf("%0*d", len(first), i))
	}
	return numbers, nil
}
