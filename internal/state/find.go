package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// Meaning is what a word that names a run is for. It decides what happens where
// several runs have that name, and how short a beginning of an id may be: what
// only looks may guess, what ends or forgets a run may not.
type Meaning int

const (
	// ToSee takes the newest run of a name.
	ToSee Meaning = iota
	// ToReach takes the one run of a name that is not over, where there is one,
	// and refuses several.
	ToReach
	// ToEnd is ToReach with beginnings of ids of at least minBeginning letters.
	ToEnd
	// ToForget refuses a name that several runs have, over or not, and beginnings
	// like ToEnd.
	ToForget
)

// addNames has the runs of a name found without reading all others, and the arrays of a name without
// reading their cases.
const addNames = `
CREATE INDEX IF NOT EXISTS runs_by_name ON runs(name, created);
DROP INDEX IF EXISTS runs_by_array_name;
`

// ofName are the runs of a name, newest first.
const ofName = "WHERE name=? ORDER BY created DESC"

// minBeginning is how many letters of an id are enough to end or forget a run.
const minBeginning = 4

// FindRun gives the run that a user means: by id, by name, or by a beginning of
// an id that only one has. It is Invalid where the word is empty or means
// several, and NotFound where it means none.
func (s *Store) FindRun(ctx context.Context, word string, why Meaning) (Run, error) {
	if word == "" {
		return Run{}, &core.Error{
			Kind: core.Invalid, Op: "find run", Err: errors.New("its name is empty"),
			Remedy: "Look whether a variable in your script is not set; `bee ps -a` lists all runs.",
		}
	}
	ids, err := ids(ctx, s.db, "SELECT id FROM runs WHERE id >= ? AND id < ? LIMIT 3", word, word+"\x7f")
	if err != nil {
		return Run{}, err
	}
	for _, id := range ids {
		if id == word {
			return s.Run(ctx, id)
		}
	}
	named, err := s.runs(ctx, ofName, word)
	if err != nil {
		return Run{}, err
	}
	switch {
	case len(named) > 0:
		return oneOf(word, named, why)
	case len(ids) > 0 && len(word) < minBeginning && (why == ToEnd || why == ToForget):
		return Run{}, &core.Error{
			Kind: core.Invalid, Op: "find run", Object: word,
			Err:    fmt.Errorf("no run has that name, and as the beginning of an id (%s) it is too short", strings.Join(ids, ", ")),
			Remedy: fmt.Sprintf("Give at least %d letters of the id.", minBeginning),
		}
	case len(ids) == 1:
		return s.Run(ctx, ids[0])
	case len(ids) > 1:
		return Run{}, &core.Error{
			Kind: core.Invalid, Op: "find run", Object: word,
			Err:    fmt.Errorf("several runs begin with it (%s, …)", strings.Join(ids, ", ")),
			Remedy: "Give more letters of the id.",
		}
	}
	if err := s.Arrays().refuse(ctx, word); err != nil {
		return Run{}, err
	}
	return Run{}, notFound(sql.ErrNoRows, "find run", word, "`bee ps -a` lists all runs.")
}

// oneOf chooses among the runs of one name, newest first.
func oneOf(name string, runs []Run, why Meaning) (Run, error) {
	if why == ToSee {
		return runs[0], nil
	}
	several := runs
	if why != ToForget {
		several = nil
		for _, r := range runs {
			if !r.State.Final() {
				several = append(several, r)
			}
		}
	}
	switch len(several) {
	case 0:
		return runs[0], nil
	case 1:
		return several[0], nil
	}
	var list []string
	for _, r := range several {
		list = append(list, r.ID+" ("+string(r.State)+")")
	}
	return Run{}, &core.Error{
		Kind: core.Invalid, Op: "find run", Object: name,
		Err: fmt.Errorf("%d runs have that name: %s", len(several), strings.Join(list, ", ")), Remedy: "Give the id of the one that you mean.",
	}
}
