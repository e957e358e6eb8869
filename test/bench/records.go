package main

import (
	"context"

	"github.com/bee-hpc/bee/test/records"
)

// manyRecords is how many runs an installation has that was used for years, or cases an array at most.
const manyRecords = 100_000

// records times the commands that look into the record, with many runs that
// are over and a few that are not, and with an array of as many cases.
func (b *bench) records(rounds int) error {
	ctx := context.Background()
	runs, cases := b.dir+"/records", b.dir+"/cases"
	if err := records.Runs(ctx, runs, manyRecords); err != nil {
		return err
	}
	if err := records.Cases(ctx, cases, manyRecords); err != nil {
		return err
	}
	for _, c := range []struct {
		what, dir string
		args      []string
	}{
		{"`bee ps`, 100,000 recorded runs", runs, []string{"ps"}},
		{"`bee ps -a --limit 20`, 100,000 recorded runs", runs, []string{"ps", "-a", "--limit", "20"}},
		{"`bee ps`, an array of 100,000 cases", cases, []string{"ps"}},
		{"`bee ps --limit 20 ARRAY`, an array of 100,000 cases", cases, []string{"ps", "--limit", "20", "old"}},
	} {
		many, err := b.median(rounds, append([]string{b.bee, "--state-dir", c.dir}, c.args...)...)
		if err != nil {
			return err
		}
		none, err := b.median(rounds, b.bee, "--state-dir", b.dir+"/empty", "ps")
		if err != nil {
			return err
		}
		b.row(c.what, many, "none recorded", none)
	}
	return nil
}
