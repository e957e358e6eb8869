package retention

import (
	"context"
	"errors"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// Find finds the run that a user means among those in a store. A record that cannot be
// read hides its own run only.
func Find(ctx context.Context, place driver.Store, word string) (string, Record, error) {
	names, err := place.Runs(ctx)
	if err != nil {
		return "", Record{}, err
	}
	var (
		found []Record
		at    []string
		known []string
		bad   error
	)
	for _, name := range names {
		_, id, ok := driver.ParseRunName(name)
		if !ok {
			continue
		}
		raw, err := place.Run(name).Noted(ctx)
		if err != nil {
			return "", Record{}, err
		}
		if raw == nil {
			continue
		}
		r, err := ParseRecord(id, raw)
		if err != nil {
			if id == word {
				bad = err
			}
			continue
		}
		if len(known) < mostNamed {
			known = append(known, r.Run.ID+" ("+r.Run.Name+")")
		}
		if r.Run.ID == word || r.Run.Name == word {
			found, at = append(found, r), append(at, name)
		}
	}
	switch {
	case len(found) == 1:
		return at[0], found[0], nil
	case len(found) == 0 && bad != nil:
		return "", Record{}, bad
	case len(found) == 0:
		return "", Record{}, &core.Error{
			Kind: core.NotFound, Op: "find run", Object: word, Err: errors.New("it is not in " + place.String()),
			Remedy: "There are: " + strings.Join(append(known, "no others"), ", ") + ".",
		}
	}
	return "", Record{}, &core.Error{
		Kind: core.Invalid, Op: "find run", Object: word, Err: errors.New("several in " + place.String() + " have that name"),
		Remedy: "Give its id: " + strings.Join(known, ", ") + ".",
	}
}

// mostNamed is how many runs of a store are named to the user.
const mostNamed = 100
