package main

import (
	"fmt"
	"os"
	"path/filepath"
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

// figure is one of what a program measures; less is better, or more.
type figure struct {
	name, unit string
	less       bool
}

// byTurns runs both by turns and keeps the best of each figure: what else the
// machine does only makes them worse. The program on the machine itself runs
// twice in each turn, and the two are held against each other, too: a ratio
// that is no farther from 1 than theirs tells nothing.
func (b *bench) byTurns(rounds int, t turns) error {
	b.env = append(b.env, "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	if _, err := b.do(t.inside...); err != nil { // it may build the image
		return err
	}
	best := map[string][3]float64{}
	for range max(rounds/6, 3) {
		for side, argv := range [][]string{t.inside, t.native, t.native} {
			file := filepath.Join(b.dir, []string{"inside", ".", "."}[side], t.file)
			os.Remove(file) //nolint:errcheck // some programs append
			if _, err := b.do(argv...); err != nil {
				return err
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			figures, err := t.parse(string(text))
			if err != nil {
				return err
			}
			for _, f := range t.figures {
				x, ok := figures[f.name]
				if !ok {
					return fmt.Errorf("%s gives no %s", t.what, f.name)
				}
				pair := best[f.name]
				if pair[side] == 0 || f.less == (x < pair[side]) {
					pair[side] = x
				}
				best[f.name] = pair
			}
		}
	}
	for _, f := range t.figures {
		pair := best[f.name]
		b.rows = append(b.rows, [4]string{t.what + ", two ranks on one host: " + f.name, fmt.Sprintf("%.4g %s", pair[0], f.unit), fmt.Sprintf("without bee %.4g, again %.4g", pair[1], pair[2]), fmt.Sprintf("%.3f (%.3f)", pair[0]/pair[1], pair[2]/pair[1])})
	}
	return nil
}
