package state

import (
	"slices"
	"strings"
	"testing"
)

// TestWhatIsNotOverIsFoundByItsIndex: commands that list it read nothing of the runs and
// attempts that are over, which may be 100,000.
func TestWhatIsNotOverIsFoundByItsIndex(t *testing.T) {
	s := open(t, t.TempDir())
	active, _ := Filter{Active: true}.query()
	for table, where := range map[string]string{"runs": active, "attempts": unreleased} {
		plan, err := rows(t.Context(), s.db, func(scan func(...any) error) (step string, err error) {
			err = scan(new(int), new(int), new(int), &step)
			return step, err
		}, "EXPLAIN QUERY PLAN SELECT * FROM "+table+" "+where)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan) == 0 || !strings.Contains(plan[0], " USING INDEX ") || strings.Contains(plan[0], "runs_by_created") {
			t.Errorf("%s: %q", table, plan)
		}
	}
}

// TestListsReadNoCase: arrays are counted in an index, and what lists other runs, or those of a name,
// reads none of their cases.
func TestListsReadNoCase(t *testing.T) {
	s := open(t, t.TempDir())
	allAlone, _ := Filter{Alone: true}.query()
	activeAlone, _ := Filter{Alone: true, Active: true}.query()
	for query, index := range map[string]string{
		countCases + "TRUE GROUP BY array_id, state":                                "COVERING INDEX runs_of_arrays",
		countCases + "array_id=? GROUP BY array_id, state":                          "COVERING INDEX runs_of_arrays",
		countCases + "array_name=? GROUP BY array_id, state":                        "COVERING INDEX runs_of_arrays",
		"SELECT * FROM runs " + allAlone:                                            "INDEX runs_alone",
		"SELECT case_number FROM runs WHERE " + liveCases + " ORDER BY case_number": "COVERING INDEX runs_in_turn",
		dueCases:                            "COVERING INDEX runs_in_turn (array_id=? AND case_number<?)",
		liveArrays:                          "COVERING INDEX runs_in_turn",
		lastEnd:                             "COVERING INDEX runs_of_arrays_by_end",
		"SELECT * FROM runs " + activeAlone: "INDEX runs_alone_by_state",
		"SELECT * FROM runs " + ofName:      "INDEX runs_by_name",
	} {
		plan, err := rows(t.Context(), s.db, func(scan func(...any) error) (step string, err error) {
			err = scan(new(int), new(int), new(int), &step)
			return step, err
		}, "EXPLAIN QUERY PLAN "+query, slices.Repeat([]any{"x"}, strings.Count(query, "?"))...)
		if err != nil || len(plan) == 0 || !strings.Contains(plan[0]+" ", " USING "+index+" ") {
			t.Errorf("%s: %v, %q", query, err, plan)
		}
	}
}

func TestRunsAreCounted(t *testing.T) {
	s := open(t, t.TempDir())
	for id, in := range map[string]RunState{"run1": Succeeded, "run2": Succeeded, "run3": Queued} {
		if err := s.PutRun(t.Context(), Run{ID: id, State: in, Submission: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.CountRuns(t.Context())
	if err != nil || len(got) != 2 || got[Succeeded] != 2 || got[Queued] != 1 {
		t.Errorf("%v, %v", got, err)
	}
}
