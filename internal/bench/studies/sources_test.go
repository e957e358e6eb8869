package studies

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// tools stand in for those of MPI 3, which has no function of MPI 1 any more.
var tools = map[string]string{
	"bin/mpi.h":       "int MPI_Comm_set_errhandler(int, int);\n",
	"bin/mpicc":       "#!/bin/sh\nexec gcc -Werror=implicit-function-declaration -I\"${0%/*}\" \"$@\"\n",
	"bin/mpicxx":      "#!/bin/sh\nexec gcc \"$@\"\n",
	"bin/mpirun":      "#!/bin/sh\nshift 2\nexec \"$@\"\n",
	"bin/bee-program": "#!/bin/sh\n",
}

// fsTest has the faults of fs_test that its recipe mends.
var fsTest = map[string]string{
	"fs_test/Makefile": "all: fs_test.o print.o\n\t$(MPI_CC) fs_test.o print.o ${MPI_LD} -o fs_test.x\n%.o: %.c\n\t$(MPI_CC) -c $? -o $@\n",
	"fs_test/print.c":  "#include <stdio.h>\nvoid print(double x) { printf(\"Effective Bandwidth: %.2e\\n\", x); }\n",
	"fs_test/fs_test.c": `#include <math.h>
#include <mpi.h>
void print(double);
int MPI_Comm_set_errhandler(int a, int b) { return a + b; }
int main(int n, char **args) {
	MPI_Errhandler_set(0, 0);
	print(pow(n + 0.5, 2));
	return 0;
}
`,
}

var miniFE = map[string]string{
	"ref/src/Makefile": "miniFE.x: main.cpp\n\tmpicxx -x c main.cpp -o miniFE.x\n",
	"ref/src/main.cpp": `#include <stdio.h>
#include <string.h>
int main(int n, char **args) {
	FILE *f = fopen("miniFE.1x1x1.yaml", "w");
	fprintf(f, "Total CG Time: 1\nTotal Program Time: 2.5\n");
	fclose(f);
	puts(n == 5 && strncmp(args[1], "nx=", 3) == 0 ? "solution matches analytic solution" : "it does not");
	return 0;
}
`,
}

// TestSourcesOfStudies executes the recipes and the jobs of studies with small programs in
// place of fs_test and miniFE. Without them, a study says what it measures, and a stand-in
// is one only where it does the same.
func TestSourcesOfStudies(t *testing.T) {
	testkit.RequireTool(t, "gcc")
	testkit.RequireTool(t, "make")
	for name, c := range map[string]struct {
		source string
		files  map[string]string
		want   []string
	}{
		// 462.25 and 420.25 MiB/s, by the numbers of arguments; three digits are other figures.
		"beserra-stage2-io": {"fs_test", fsTest, []string{"write 484704256 read 440664064 right"}},
		"apps":              {"minife", miniFE, []string{"solution matches", "Loop time of 2.5 on 2 ranks"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, tools)
			write(t, filepath.Join(dir, "src", c.source), c.files)
			text, _ := Text(name)
			s, err := study.Parse(name+".yaml", []byte(text), dir)
			if err != nil {
				t.Fatal(err)
			}
			if s.Missing() != nil {
				t.Errorf("without the sources it does not run: %v", s.Missing())
			}
			testkit.Wording(t, "without the sources", s.StandsIn())
			points, err := s.Points(t.Context(), "smoke")
			if err == nil {
				err = s.Give(c.source, study.Given{Path: filepath.Join(dir, "src", c.source)})
			}
			if err != nil {
				t.Fatal(err)
			}
			job, err := s.ComposeJob(&points[0], "native")
			if err != nil {
				t.Fatal(err)
			}
			for _, command := range job.Build.Run {
				shell(t, dir, c.source, command)
			}
			got := shell(t, dir, c.source, job.Run.Shell)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("it printed %q, expected %q in it", got, want)
				}
			}
		})
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), core.WriteProgram(at, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
}

// shell executes commands of an image whose sources are in src of dir.
func shell(t *testing.T, dir, source, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", strings.ReplaceAll(command, study.SourcesDir+"/"+source, filepath.Join(dir, "src", source)))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "BEE_PROGRAM="+filepath.Join(dir, "bin", "bee-program"), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}
