package console

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Age is the value of a flag for a time in the past: a duration as Go writes it, with days
// and weeks.
type Age time.Duration

// Set implements pflag.Value.
func (a *Age) Set(text string) error {
	var total time.Duration
	rest := text
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		number, after, found := strings.Cut(rest, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return errors.New("expected a time such as 10m, 36h or 7d")
		}
		total, rest = total+time.Duration(n)*unit.length, after
	}
	if rest != "" || text == "" {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return errors.New("expected a time such as 10m, 36h or 7d")
		}
		total += d
	}
	if total < 0 {
		return errors.New("expected a time in the past, such as 7d")
	}
	*a = Age(total)
	return nil
}

func (a *Age) String() string { return time.Duration(*a).String() }

// Type implements pflag.Value.
func (a *Age) Type() string { return "time" }
