package runner

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/testkit"
)

// killedVariable names the directory of results in which the test binary measures, in place of
// tests, and is killed.
const killedVariable = "BEE_TEST_KILLED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedVariable); dir != "" {
		if err := measureFakes(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A steadyMeasurer prints a line before and after each measurement. What fails depends on the
// measurement alone.
type steadyMeasurer struct{}

func (steadyMeasurer) Measure(_ context.Context, m Measurement) (record.Row, error) {
	fmt.Println("measuring")
	defer fmt.Println("measured")
	if m.Environment != "a" && m.Block%4 == 1 && m.Try == 1 {
		return record.Row{Status: record.Failed, Error: "the first try"}, nil
	}
	return record.Row{Status: record.OK, Seconds: 1, Metrics: map[string][]record.Figure{"x": {{Value: float64(m.Block)}}}}, nil
}

// measureFakes continues the series of a directory to its end.
func measureFakes(dir string) error {
	j, err := record.Open(dir)
	if err != nil {
		return err
	}
	r := Runner{
		Journal: j, Measurer: steadyMeasurer{}, Family: 2, Now: time.Now, Report: func(Progress) { fmt.Println("begins") },
		Precise: func([]record.Row) bool { return false },
	}
	if end, err := r.Run(context.Background()); err != nil || end != AllBlocks {
		return fmt.Errorf("it ended as %q: %w", end, err)
	}
	return j.Close()
}

// TestKilledProcesses kills processes that measure, by SIGKILL and at moments of chance. Those that
// continue have the rows of a series that nobody killed, and leave no other file.
func TestKilledProcesses(t *testing.T) {
	wanted := 20
	if testkit.Everything() {
		wanted = 1000
	}
	for _, method := range []string{"robust", study2016} {
		t.Run(method, func(t *testing.T) {
			p := plan()
			p.Method = method
			whole := series(t, p)
			end(t, whole, -1)
			want, files := rowsIn(t, whole), namesIn(t, whole)
			for kills := 0; kills < wanted/2; {
				dir := series(t, p)
				for end(t, dir, 1+rand.IntN(40)) {
					kills++
				}
				if got := rowsIn(t, dir); !slices.Equal(got, want) {
					t.Fatalf("%d rows, expected the %d of a series that nobody killed\n%+v\n%+v", len(got), len(want), got, want)
				}
				if got := namesIn(t, dir); !slices.Equal(got, files) {
					t.Errorf("the files are %q, expected %q", got, files)
				}
			}
		})
	}
}

// series is a new directory of results.
func series(t *testing.T, p record.Plan) string {
	t.Helper()
	dir := t.TempDir()
	j, err := record.Create(dir, p)
	if err == nil {
		err = j.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// end has a process continue a series, and kills it after so many of its lines. It reports whether
// the process was killed before its end.
func end(t *testing.T, dir string, lines int) (killed bool) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), killedVariable+"="+dir), os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	text := bufio.NewScanner(out)
	for n := 0; n != lines && text.Scan(); n++ { // the line itself says nothing
	}
	if lines >= 0 {
		for began := time.Now(); time.Since(began) < time.Duration(rand.IntN(500))*time.Microsecond; { // within a write, too
		}
		c.Process.Kill() // it may have ended
	}
	for text.Scan() { // what was printed before
	}
	err = c.Wait()
	if c.ProcessState.Exited() && err != nil {
		t.Fatal(err)
	}
	return !c.ProcessState.Exited()
}

func rowsIn(t *testing.T, dir string) []what {
	t.Helper()
	_, rows, err := record.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return set(rows)
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}
