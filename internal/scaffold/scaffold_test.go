package scaffold

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// parsed is a job as bee run would take it.
func parsed(t *testing.T, r Result) *spec.Job {
	t.Helper()
	job, err := spec.ParseJob("job.yaml", []byte(r.Beefile), "/home/ann")
	if err != nil {
		t.Fatalf("%v\n%s", err, r.Beefile)
	}
	return job
}

// TestDirectory: the Beefile of each kind of directory is valid, and has its program.
func TestDirectory(t *testing.T) {
	python := File{"pi.py", "import numpy\nfrom mpi4py import MPI\n"}
	for _, c := range []struct {
		name   string
		files  []File
		found  string
		run    string
		inputs int
	}{
		{"empty", nil, "", "hello", 0},
		{"other files", []File{{"plot.py", "import numpy\n# import mpi4py\n"}, {"notes.txt", ""}}, "", "hello", 0},
		{"GROMACS", []File{{"topol.tpr", ""}, {"topol.cpt", ""}}, "GROMACS", "gmx_mpi mdrun -s topol.tpr -deffnm topol", 2},
		{"LAMMPS", []File{{"in.melt", ""}, {"data.melt", ""}, {"in.", ""}}, "LAMMPS", "mpirun lmp -in in.melt", 2},
		{"mpi4py", []File{python}, "mpi4py", "mpirun python3 pi.py", 1},
		{"Dockerfile", []File{{"Dockerfile", ""}}, "its Dockerfile", "", 0},
		{"Containerfile and mpi4py", []File{{"Containerfile", ""}, python}, "mpi4py", "mpirun python3 pi.py", 1},
		{"names that shells read", []File{{"a b.tpr", ""}, {"in.$(reboot)", ""}, {"*.tpr", ""}, {"-x.tpr", ""}}, "", "hello", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := Programs(c.files)
			var p *Program
			if len(found) > 0 {
				p = &found[0]
			}
			if name := nameOfProgram(p); name != c.found {
				t.Fatalf("found %q, expected %q", name, c.found)
			}
			job := parsed(t, Directory("my run", c.files, p))
			run := ""
			if job.Run != nil {
				run = job.Run.Shell
			}
			if !strings.Contains(run, c.run) || len(job.Inputs) != c.inputs || c.run == "" && run != "" {
				t.Errorf("got %q, %v", run, job.Inputs)
			}
		})
	}
	if job := parsed(t, Directory("1e3", nil, nil)); job.Name != "1e3" {
		t.Errorf("the name is %q", job.Name)
	}
}

func nameOfProgram(p *Program) string {
	if p == nil {
		return ""
	}
	return p.Name
}

// TestConvert holds the conversion of each file in testdata against the one beside it.
// BEE_TEST_WRITE=1 writes those.
func TestConvert(t *testing.T) {
	files, err := filepath.Glob("testdata/*.in")
	if err != nil || len(files) < 6 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".in")
			r, err := Convert(name, raw, func(n string) bool { return n == "solver.cfg" })
			if err != nil {
				t.Fatal(err)
			}
			parsed(t, r)
			got := r.Beefile
			for _, n := range []string{"app.Dockerfile", "app.post.sh"} {
				if text, is := r.Files[n]; is {
					got += "--- " + n + "\n" + text
				}
			}
			want := strings.TrimSuffix(file, ".in") + ".out"
			if os.Getenv("BEE_TEST_WRITE") != "" {
				if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if raw, err := os.ReadFile(want); err != nil || string(raw) != got {
				t.Errorf("%v; it became\n%s", err, got)
			}
		})
	}
}

func TestWhatCannotBeConverted(t *testing.T) {
	for name, text := range map[string]string{
		"a Beefile":        "image: debian:12\n",
		"a sites file":     "sites: [{name: a, provider: local}]\n",
		"two services":     "services: {a: {image: x}, b: {image: y}}\n",
		"no service":       "services: {}\n",
		"two commands":     "docker run a\ndocker run b\n",
		"no image":         "docker run --rm -e A=1\n",
		"an unknown flag":  "docker run -Z x debian\n",
		"a pipe":           "docker run debian cat /x | less\n",
		"a localimage":     "Bootstrap: localimage\nFrom: x.sif\n",
		"two stages":       "Bootstrap: docker\nFrom: a\n%post\n x\n%post\n y\n",
		"PBS":              "#!/bin/sh\n#PBS -N x\necho\n",
		"options alone":    "#!/bin/sh\n#SBATCH -N 2\n",
		"too many aliases": "services: {a: {image: x, l: &l [1]}}\nx-a: [" + strings.Repeat("*l, ", 30) + "]\n",
	} {
		if r, err := Convert("file", []byte(text), func(string) bool { return false }); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" && name != "too many aliases" {
			t.Errorf("%s: %v\n%s", name, err, r.Beefile)
		}
	}
}

// FuzzConvert: no file of another tool makes a Beefile that is no YAML, or a panic.
func FuzzConvert(f *testing.F) {
	files, err := filepath.Glob("testdata/*.in")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			return
		}
		r, err := Convert("file", []byte(text), func(string) bool { return true })
		if err != nil {
			return
		}
		if strings.Contains(r.Beefile, "\x00") {
			t.Errorf("a NUL in\n%q", r.Beefile)
		}
		if _, err := spec.Tree("file", []byte(r.Beefile)); err != nil {
			t.Errorf("%v\n%s", err, r.Beefile)
		}
	})
}
