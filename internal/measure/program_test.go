package measure

import (
	"math"
	"os"
	"slices"
	"testing"
)

// TestPrograms: the progress of each program by what it has printed, whether it comes by bytes or at once. The numbers of NAMD are
// written after its manual.
func TestPrograms(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range []struct {
		program, output string
		total           string // its file with the total
		known           float64
		want            []float64 // done and total, after each change
	}{
		{"gromacs", "gromacs.txt", "", 0, []float64{0, 400, 100, 400, 200, 400, 300, 400, 400, 400}},
		{"gromacs", "gromacs.txt", "", 1000, []float64{0, 1000, 100, 1000, 200, 1000, 300, 1000, 400, 1000}},
		{"gromacs", "gromacs-minimization.txt", "", 0, stepsTo(0, 30)},
		{"lammps", "lammps.txt", "", 0, []float64{0, 200, 50, 200, 100, 200, 150, 200, 200, 200, 200, 350, 250, 350, 300, 350, 350, 350}},
		{"lammps", "lammps-minimization.txt", "", 0, []float64{0, 200, 50, 200, 100, 200, 150, 200, 200, 200, 200, 300, 222, 300}},
		{"openfoam", "openfoam.txt", "controlDict", 0, openFOAM(0.1)},
		{"openfoam", "openfoam.txt", "", 0.2, openFOAM(0.2)},
		{"openfoam", "openfoam.txt", "", 0, nil},
		{"quantum-espresso", "quantum-espresso-md.txt", "", 0, stepsTo(1, 5)},
		{"quantum-espresso", "quantum-espresso-relax.txt", "", 0, []float64{1, 20, 2, 20, 3, 20, 20, 20}},
		{"quantum-espresso", "quantum-espresso-scf.txt", "", 0, []float64{0, 7.01, 1.35, 7.01, 3.05, 7.01, 4.76, 7.01, 5.76, 7.01, 6.24, 7.01, 7.01, 7.01}},
		{"namd", "namd.txt", "", 0, []float64{0, 500, 100, 500, 500, 500, 500, 700, 600, 700}},
	} {
		tested[c.program] = true
		r, err := NewReader(Source{Program: c.program, Total: c.known}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.total != "" && (r.Total("no end") || !r.Total(testdata(t, c.total))) {
			t.Errorf("%s: no total is read from %s", c.program, c.total)
		}
		stream, got := r.Stream(), []float64(nil)
		for _, b := range []byte(testdata(t, c.output)) {
			if stream.Add([]byte{b}); b != '\n' && b != '\r' {
				continue
			}
			if v, is := r.Tick(); is {
				got = append(got, math.Round(v.Done*1000)/1000, math.Round(v.Total*1000)/1000)
			}
		}
		alike := func(a, b float64) bool { return math.Abs(a-b) <= 0.011 }
		if !slices.EqualFunc(got, c.want, alike) {
			t.Errorf("%s: %s: %v, expected %v", c.program, c.output, got, c.want)
		}
		if r, err = NewReader(Source{Program: c.program, Total: c.known}, nil); err != nil {
			t.Fatal(err)
		}
		if c.total != "" {
			r.Total(testdata(t, c.total))
		}
		r.Stream().Add([]byte(testdata(t, c.output)))
		last := []float64(nil)
		if v, is := r.Tick(); is {
			last = []float64{v.Done, v.Total}
		}
		if want := c.want[max(0, len(c.want)-2):]; !slices.EqualFunc(last, want, alike) {
			t.Errorf("%s: %s in one piece: %v, expected %v", c.program, c.output, last, want)
		}
	}
	for _, name := range Programs() {
		if !tested[name] {
			t.Errorf("%s is not tested", name)
		}
	}
	if _, err := NewReader(Source{Program: "solver"}, nil); err == nil {
		t.Error("a program that is not known is read")
	}
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// openFOAM is the progress of 20 time steps of 0.005.
func openFOAM(end float64) (want []float64) {
	for i := range 20 {
		want = append(want, float64(i+1)*0.005, end)
	}
	return want
}

// stepsTo are all steps from first to last, which is the total.
func stepsTo(first, last int) (want []float64) {
	for i := first; i <= last; i++ {
		want = append(want, float64(i), float64(last))
	}
	return want
}
