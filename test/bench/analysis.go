package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
)

// The analysis of ten times as many rows takes mostGrowth times as long at most: it is about
// in proportion to them.
const (
	manyRows   = 100_000
	mostGrowth = 30
)

// analysis times the reports of a large study.
func (b *bench) analysis(rounds int) error {
	rounds = min(rounds, 5)
	var took, compared, processor [2]time.Duration
	for i, rows := range []int{manyRows, manyRows / 10} {
		dir := filepath.Join(b.dir, fmt.Sprintf("analysis-%d", rows))
		later := dir + "-later"
		if err := errors.Join(measured(dir, rows, 1), measured(later, rows, 2)); err != nil {
			return err
		}
		var err error
		if took[i], err = b.median(rounds, b.bee, "bench", "report", dir, "--csv"); err != nil {
			return err
		}
		if processor[i], err = b.processor(rounds, b.bee, "bench", "report", dir, "--html"); err != nil {
			return err
		}
		if compared[i], err = b.median(rounds, b.bee, "bench", "compare", dir, later, "--json"); err != nil {
			return err
		}
	}
	b.row("`bee bench report --csv`, 100,000 rows", took[0], "10,000 rows", took[1])
	b.row("processor time of `bee bench report --html`, 100,000 rows, on one core", processor[0], "10,000 rows", processor[1])
	b.row("`bee bench compare`, twice 100,000 rows", compared[0], "twice 10,000 rows", compared[1])
	if compared[0] > mostGrowth*compared[1] {
		return fmt.Errorf("the comparison of %d rows took %s, expected %d times that of a tenth at most, which took %s", 2*manyRows, round(compared[0]), mostGrowth, round(compared[1]))
	}
	if took[0] > mostGrowth*took[1] {
		return fmt.Errorf("the analysis of %d rows took %s, expected %d times that of a tenth at most, which took %s", manyRows, round(took[0]), mostGrowth, round(took[1]))
	}
	return nil
}

// processor is the median processor time of a command that computes on one core.
func (b *bench) processor(rounds int, args ...string) (time.Duration, error) {
	times := make([]time.Duration, rounds)
	for i := range times {
		c := b.command(args...)
		c.Env, c.Stdout = append(c.Environ(), "GOMAXPROCS=1"), nil
		if err := c.Run(); err != nil {
			return 0, err
		}
		times[i] = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// measured writes results of a study of three environments in 20 counted blocks, with as many
// points as make so many rows.
func measured(dir string, rows int, seed uint64) (err error) {
	environments := []string{"native", "rootless", "docker"}
	p := record.Plan{
		Study: "large", Method: "robust", Margin: 0.05, Least: 10, Most: 20, Baseline: "native",
		Metrics: []record.Metric{{Name: "seconds", Unit: "s", Better: "lower", Primary: true}},
	}
	for _, name := range environments {
		p.Environments = append(p.Environments, record.Environment{Name: name})
	}
	const blocks = 21
	turns := append(environments, environments[0])
	for i := range rows / blocks / len(turns) {
		p.Points = append(p.Points, record.Point{ID: fmt.Sprintf("size=%d", i), Environments: environments})
	}
	j, err := record.Create(dir, p)
	if err == nil {
		err = j.Close()
	}
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, record.RowsFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	rng, e := rand.New(rand.NewPCG(seed, 2)), json.NewEncoder(w)
	for block := range blocks {
		for _, point := range p.Points {
			for place, name := range turns {
				r := record.Row{
					Schema: record.Schema, Point: point.ID, Environment: name, Again: place == len(turns)-1, Block: block, Place: place, Status: record.OK,
					Metrics: map[string][]record.Figure{"seconds": {{Value: 10 * math.Exp(rng.NormFloat64()*0.01)}}},
				}
				if err := e.Encode(r); err != nil {
					return err
				}
			}
		}
	}
	return w.Flush()
}
