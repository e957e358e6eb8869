package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// turns compares a program in a container of bee's with the same program on
// the machine itself.
type turns struct {
	what string
	// file is what the program writes, whose figures parse gives.
	file    string
	parse   func(text string) (map[string]float64, error)
	figures []figure
	// inside has the file in the directory of that name, native in its own.
	inside, native []string
}

// figure is one of what a program measures.
type figure struct{ name, unit string }

// byTurns runs both alternately, each turn without bee, with it twice, and without
// it again, so that a machine that grows slower or faster in a turn does so for
// both. Its ratio is that of the geometric means, and the median of all turns'
// ratios is reported with what lies between their quartiles, beside the same for
// the two runs without bee: a ratio that is no farther from 1 than theirs shows
// nothing.
func (b *bench) byTurns(rounds int, t turns) error {
	b.env = append(b.env, "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	if _, err := b.do(t.inside...); err != nil { // it may build the image
		return err
	}
	inside, native := filepath.Join(b.dir, "inside", t.file), filepath.Join(b.dir, t.file)
	ran := map[string]*ratios{}
	for _, f := range t.figures {
		ran[f.name] = &ratios{}
	}
	for range max(rounds/5, 3) {
		var turn [4]map[string]float64
		for i, side := range []struct {
			file string
			argv []string
		}{{native, t.native}, {inside, t.inside}, {inside, t.inside}, {native, t.native}} {
			os.Remove(side.file)
			if _, err := b.do(side.argv...); err != nil {
				return err
			}
			text, err := os.ReadFile(side.file)
			if err != nil {
				return err
			}
			if turn[i], err = t.parse(string(text)); err != nil {
				return err
			}
		}
		for _, f := range t.figures {
			if err := ran[f.name].add(f.name, turn); err != nil {
				return fmt.Errorf("%s: %w", t.what, err)
			}
		}
	}
	for _, f := range t.figures {
		r := ran[f.name]
		b.rows = append(b.rows, [4]string{
			t.what + ", two ranks on one host: " + f.name, fmt.Sprintf("%.4g %s", quartile(r.inside, 2), f.unit),
			fmt.Sprintf("without bee %.4g", quartile(r.native, 2)), fmt.Sprintf("%s; itself %s", spread(r.both), spread(r.itself)),
		})
	}
	return nil
}

// ratios is what the turns gave of one figure: what was measured inside and
// without bee, one against the other, and without bee against itself.
type ratios struct{ inside, native, both, itself []float64 }

func (r *ratios) add(name string, turn [4]map[string]float64) error {
	var x [4]float64
	for i, figures := range turn {
		if x[i] = figures[name]; x[i] <= 0 {
			return fmt.Errorf("no %s", name)
		}
	}
	r.native, r.inside = append(r.native, x[0], x[3]), append(r.inside, x[1], x[2])
	r.both = append(r.both, math.Sqrt(x[1]*x[2]/(x[0]*x[3])))
	r.itself = append(r.itself, x[3]/x[0])
	return nil
}

// quartile gives a quarter of the values, two quarters, the median, or three
// that are at most what it gives.
func quartile(values []float64, quarters int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := float64(len(sorted)-1) * float64(quarters) / 4
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// spread writes the median and the quartiles about it.
func spread(values []float64) string {
	return fmt.Sprintf("%.3f (%.3f to %.3f)", quartile(values, 2), quartile(values, 1), quartile(values, 3))
}
