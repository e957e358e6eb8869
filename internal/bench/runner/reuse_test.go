package runner

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/record"
)

// sharing has a runner measure turns in shared containers. It returns the measurements of each
// container. fails lists, for an environment, the points that fail in each of its containers.
func sharing(r *Runner, fails map[string]string) *[][]Measurement {
	var containers [][]Measurement
	r.Journal.Plan.Reuse = "block"
	r.Measurer = nil
	r.Together = func(_ context.Context, all []Measurement) ([]record.Row, error) {
		containers = append(containers, all)
		rows := make([]record.Row, len(all))
		for i, m := range all {
			rows[i] = record.Row{Status: record.OK, Seconds: 1, Shared: len(all)}
			if f := fails[m.Environment]; f == "all" || f == m.Point.ID {
				rows[i] = record.Row{Status: record.Failed, Error: "it fails", Shared: len(all)}
			}
		}
		return rows, nil
	}
	return &containers
}

// TestPointsShareContainers: in each block there is one container for all points of an
// environment, and one for the baseline again. What failed is tried again alone.
func TestPointsShareContainers(t *testing.T) {
	j, err := record.Create(t.TempDir(), plan())
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, j, nil)
	containers := sharing(r, map[string]string{"bb": "n=2"})
	if end, err := r.Run(t.Context()); err != nil || end != AllBlocks {
		t.Fatalf("%q, %v; expected all blocks", end, err)
	}
	seen, retried := map[what]int{}, 0
	for _, all := range *containers {
		first := all[0]
		if len(all) == 1 && first.Environment == "bb" && first.Point.ID == "n=2" && first.Try == 2 {
			retried++
			continue
		}
		if len(all) != 2 || all[0].Point.ID != "n=1" || all[1].Point.ID != "n=2" {
			t.Errorf("a container has %+v", all)
		}
		seen[what{environment: first.Environment, again: first.Again, block: first.Block}]++
		for _, m := range all {
			if m.Environment != first.Environment || m.Again != first.Again || m.Block != first.Block || m.Place != first.Place {
				t.Errorf("%+v and %+v share a container", first, m)
			}
		}
	}
	if len(seen) != 3*11 || retried != 11 || len(*containers) != 3*11+11 {
		t.Errorf("%d containers, %d of them for what failed", len(*containers), retried)
	}
	places := map[int]int{}
	for w, n := range seen {
		if n != 1 {
			t.Errorf("%d containers of %+v", n, w)
		}
	}
	for _, row := range j.Rows {
		if row.Environment == "bb" && row.Point == "n=1" {
			places[row.Place]++
		}
	}
	if len(places) != 3 {
		t.Errorf("bb is in places %v, expected all three", places)
	}
}

// TestASharedContainerCountsOnce: an environment is given up after three containers that failed,
// whatever number of points each has.
func TestASharedContainerCountsOnce(t *testing.T) {
	j, err := record.Create(t.TempDir(), plan())
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, j, nil)
	containers := sharing(r, map[string]string{"bb": "all"})
	givenUp := 0
	r.Failed = func(_ record.Row, last bool) {
		if last {
			givenUp++
		}
	}
	if end, err := r.Run(t.Context()); err != nil || end != OnlyBase {
		t.Errorf("%q, %v; expected %q", end, err, OnlyBase)
	}
	tried := 0
	for _, all := range *containers {
		if all[0].Environment == "bb" {
			tried++
		}
	}
	if tried != mostTries*mostFailures || givenUp != 1 {
		t.Errorf("%d containers were tried, and it was given up %d times; expected %d, once", tried, givenUp, mostTries*mostFailures)
	}
}

// TestResumeOfSharedContainers ends the process within a turn: the points that are left have a
// container of their own then, and the rows are those of a study that nobody killed.
func TestResumeOfSharedContainers(t *testing.T) {
	dir := t.TempDir()
	p := plan()
	p.Reuse = "block"
	whole, err := record.Create(t.TempDir(), p)
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(t, whole, nil)
	sharing(r, nil)
	if _, err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	j, err := record.Create(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	r = newRunner(t, j, nil)
	sharing(r, nil)
	take := r.Together
	r.Together = func(ctx context.Context, all []Measurement) ([]record.Row, error) {
		if all[0].Block == 2 {
			return nil, errKilled
		}
		return take(ctx, all)
	}
	if _, err := r.Run(t.Context()); !errors.Is(err, errKilled) {
		t.Fatalf("killed: %v", err)
	}
	first := r.blockTurns(2)[0]
	if err := r.append(Measurement{Point: first[0].Point, Environment: first[0].Environment, Again: first[0].Again, Block: 2, Place: first[0].Place, Try: 1}, record.Row{Status: record.OK, Seconds: 1}); err != nil {
		t.Fatal(err)
	}
	r = newRunner(t, j, nil)
	containers := sharing(r, nil)
	if _, err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if alone := (*containers)[0]; len(alone) != 1 || alone[0].Point.ID != first[1].Point.ID || alone[0].Block != 2 {
		t.Errorf("it continued with %+v, expected the other point of %+v", alone, first[0])
	}
	if got, want := set(j.Rows), set(whole.Rows); !slices.Equal(got, want) {
		t.Errorf("%d rows, expected the %d of a study that was not killed", len(got), len(want))
	}
}
