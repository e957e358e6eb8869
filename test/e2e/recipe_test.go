package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// shown gives the block of a document that begins with a text, in a language.
func shown(t *testing.T, document, language, begin string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", document))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```"+language+"(?: title=\"[^\"]+\")?\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		if strings.HasPrefix(m[1], begin) {
			return m[1]
		}
	}
	t.Fatalf("docs/%s shows no %s that begins with %q", document, language, begin)
	return ""
}

// TestTheMPILoopOfTheDocumentMoves does what docs/tutorial/checkpoint.md says, with the
// files that it shows.
func TestTheMPILoopOfTheDocumentMoves(t *testing.T) {
	t.Parallel()
	testkit.RequireTool(t, "mmdebstrap")
	b := testkit.NewBee(t)
	program := shown(t, "tutorial/checkpoint.md", "c", "#include <mpi.h>")
	if n := strings.Count(program, "\n"); n > 30 {
		t.Errorf("the example has grown to %d lines", n)
	}
	b.File("pi.c", program)
	b.File("pi.yaml", shown(t, "tutorial/checkpoint.md", "yaml", "name: pi\n"))
	b.File("here.yaml", shown(t, "tutorial/checkpoint.md", "yaml", "sites:\n  - {name: first, provider: local}\n"))
	b.Must("--sites", "here.yaml", "run", "-d", "pi.yaml")
	testkit.Eventually(t, 10*time.Minute, func() error { // in which the image is built
		if log := b.Try("logs", "pi").Stdout; !strings.Contains(log, "begins at step 0\n") {
			return b.Explained("pi", "it has not begun: "+log)
		}
		return nil
	})
	time.Sleep(time.Second) // in which it makes some steps
	b.Must("move", "pi")
	v := b.Await("pi", 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[0].Site != "first" || v.Attempts[1].Site != "second" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", "pi"))
	}
	if log := b.Must("logs", "--attempt", "2", "pi"); !regexp.MustCompile(`begins at step [1-9]`).MatchString(log) {
		t.Errorf("it began anew: %s", log)
	}
	if got := b.Read("results/result"); got != "3.1415926536\n" {
		t.Errorf("it computed %q", got)
	}
}

// TestStepsOfAProgramThatCannotSaveItself runs the loop of docs/how-to/checkpoints.md over
// a program that dies of TERM: the next attempt skips what is done.
func TestStepsOfAProgramThatCannotSaveItself(t *testing.T) {
	script := shown(t, "how-to/checkpoints.md", "yaml", "name: study\n")
	_, script, _ = strings.Cut(script, "run: |\n")
	script, _, _ = strings.Cut(script, "checkpoint:")
	if !strings.Contains(script, "mpirun ./legacy") {
		t.Fatalf("the document shows %q", script)
	}
	script = strings.Replace(script, "mpirun ./legacy", "sh ./legacy", 1)
	b, job := busyboxJob(t, "volume: /data", "workdir: /data", "inputs: [{from: cases, to: /data}]", "checkpoint: {grace: 10s, paths: [/data/*.out]}", "outputs: [{from: /data/*, to: results}]", "run: |\n"+script)
	b.File("cases/legacy", "echo $1 >> begun; sleep 1; cat $1\n")
	var want []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		b.File("cases/"+name+".in", name+"\n")
		want = append(want, name+".in")
	}
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", "/data/b.out"); r.Code != 0 {
			return errors.New("the second case is not done: " + r.Stderr)
		}
		return nil
	})
	b.Must("checkpoint", id)
	v := b.Await(id, time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		if b.Read("results/"+name+".out") != name+"\n" {
			t.Errorf("case %s has %q", name, b.Read("results/"+name+".out"))
		}
	}
	// Each was begun once, but for the one that was cut short.
	log := strings.Fields(b.Read("results/begun"))
	if len(log) > len(want)+1 || strings.Count(strings.Join(log, " "), "a.in") != 1 {
		t.Errorf("cases begun: %v", log)
	}
}

// TestACodeWithRestartFilesOfItsOwn runs the Beefile of docs/how-to/restart-files.md with a program
// that writes restart files alternately and dies of TERM.
func TestACodeWithRestartFilesOfItsOwn(t *testing.T) {
	t.Parallel()
	shownJob := shown(t, "how-to/restart-files.md", "yaml", "name: reconnection\n")
	_, rest, found := strings.Cut(shownJob, "nodes: 2\n")
	if rest = strings.ReplaceAll(rest, "mpirun ./deck.Linux", "sh ./deck.Linux"); !found || !strings.Contains(rest, "sh ./deck.Linux --restore") {
		t.Fatalf("the document shows %q", shownJob)
	}
	b, job := busyboxJob(t, rest)
	b.File("deck/deck.Linux", `n=0
[ "$1" != --restore ] || n=$(cat $2/restart.0)
echo "begins at step $n" >> log
mkdir -p fields restart0 restart1
while [ $n -lt 40 ]; do
  n=$((n+1)); sleep 0.2; echo $n >> fields/energies
  [ $((n%5)) = 0 ] || continue
  turn=restart$((n/5%2)); rm -f $turn/whole; echo $n > $turn/restart.0; touch $turn/whole
done
echo $n > fields/done`)
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", "/work/restart0/whole"); r.Code != 0 {
			return b.Explained(id, r.Stderr)
		}
		return nil
	})
	b.Must("move", id)
	v := b.Await(id, time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[0].Answer != "died" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if got := b.Read("results/fields/done"); got != "40\n" {
		t.Errorf("it computed %q", got)
	}
	if energies := strings.Fields(b.Read("results/fields/energies")); len(energies) < 40 || len(energies) > 60 {
		t.Errorf("%d steps were computed for 40: did the second attempt begin anew?", len(energies))
	}
}
