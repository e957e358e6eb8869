package hostile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestAHostileFileOfCases supplies values: none becomes a command, leaves a directory or hides a file.
func TestAHostileFileOfCases(t *testing.T) {
	b := testkit.NewBee(t)
	archive, err := os.ReadFile(testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}}))
	if err != nil {
		t.Fatal(err)
	}
	b.File("image.tar", string(archive))
	const image = "image: docker-archive:./image.tar\nname: m\nworkdir: /work\narray: {cases: {file: cases.csv}}\n"
	for name, c := range map[string]struct{ cases, lines string }{
		"a directory above":      {"v\nfine\n../../.ssh\n", "run: 'echo x >x'\noutputs: [{from: x, to: './results/${case.v}'}]"},
		"an absolute directory":  {"v\nfine\n/tmp\n", "run: 'echo x >x'\noutputs: [{from: x, to: '${case.v}'}]"},
		"a hidden directory":     {"v\nfine\n.git/hooks\n", "run: 'echo x >x'\noutputs: [{from: x, to: './${case.v}'}]"},
		"another endpoint":       {"v\nfine\na?endpoint=https://evil.example\n", "run: 'echo x >x'\noutputs: [{from: x, to: 's3://bucket/${case.v}'}]"},
		"an input above":         {"v\nfine\n../../.ssh/id\n", "run: x\ninputs: [{from: './in/${case.v}', to: /in}]"},
		"a hidden input":         {"v\nfine\n\\.ssh/id\n", "run: x\ninputs: [{from: './${case.v}', to: /in}]"},
		"an output of elsewhere": {"v\nfine\n../etc/passwd\n", "run: x\noutputs: [{from: '/work/${case.v}', to: './${case.v}'}]"},
		"a script within a text": {"v\nfine\na; touch x\n", "run: sh -c './m ${case.v}'"},
		"an option of a program": {"v\nfine\n--checkpoint-action=exec=sh p\n", "run: tar xf d.tar ${case.v}"},
		"a script of a list":     {"v\nfine\na; touch x\n", "run: [sh, -c, './m ${case.v}']"},
	} {
		b.File("cases.csv", c.cases)
		for _, command := range [][]string{{"check", "--json"}, {"run", "-d", "--json"}} {
			r := b.Try(append(command, b.File("job.yaml", image+c.lines+"\n"))...)
			var got struct{ Problems []struct{ Line, Column int } }
			if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil || r.Code == 0 || len(got.Problems) == 0 {
				t.Errorf("%s: bee %s: %v: %+v", name, command[0], err, r)
			}
			for _, p := range got.Problems {
				if p.Line < 5 || p.Column < 2 {
					t.Errorf("%s: bee %s: the problem is at %d:%d", name, command[0], p.Line, p.Column)
				}
			}
		}
	}
	ran := filepath.Join(b.Dir, "ran")
	value := `a'; touch ` + ran + `; "$(touch ` + ran + `)" \`
	raw, err := json.Marshal(map[string]string{"v": value})
	if err != nil {
		t.Fatal(err)
	}
	b.File("cases.jsonl", string(raw)+"\n")
	b.File("job.yaml", "image: docker-archive:./image.tar\nname: m\nworkdir: /work\narray: {cases: {file: cases.jsonl}}\n"+
		`run: printf '%s\n' ${case.v} "${case.v}" '${case.v}' >x; test ! -e `+ran+"\noutputs: [{from: x, to: ./results}]\n")
	if r := b.Try("run", "-q", "job.yaml"); r.Code != 0 || b.Read("results/x") != value+"\n"+value+"\n"+value+"\n" {
		t.Errorf("%+v: the job has printed %q", r, b.Read("results/x"))
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a value ran as a command")
	}
}
