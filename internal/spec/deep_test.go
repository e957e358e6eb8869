package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestHostileFilesAreRefusedCheaply holds files whose parsing would take gigabytes or minutes.
func TestHostileFilesAreRefusedCheaply(t *testing.T) {
	const n, most = 200_000, 400 << 20
	times := strings.Repeat
	for name, text := range map[string]string{
		"lists":        "image: a\nrun: " + times("[", n) + times("]", n),
		"open lists":   "image: a\nrun: " + times("[", n),
		"mappings":     "image: a\nrun: " + times("{a: ", n/2) + times("}", n/2),
		"dashes":       "image: a\nrun:\n" + times("- ", n),
		"explicit":     "image: a\nrun:\n" + times("? ", n),
		"anchors":      "image: a\nrun: " + times("&a ", n/2) + "x",
		"tags":         "image: a\nrun: " + times("!!str ", n/2) + "x",
		"colons":       "image: a\nrun: " + times("a: ", n/2),
		"keys":         "x-a: {" + times("a: b, ", n/4) + "}\nimage: a",
		"same key":     times("a: b\n", n/8),
		"documents":    times("---\na: b\n", n/8),
		"ends":         times("a: b\n...\n", n/8),
		"jobs":         times("---\nname: b\nimage: a\nrun: ["+times("x,", 400)+"]\nafter: [b]\n", maxDocuments),
		"cases":        times("---\nname: b\nimage: a\narray: {cases: {n: {from: 1, to: 100000}}}\n", maxDocuments),
		"no product":   times("---\nname: b\nimage: a\narray: {cases: {n: {from: 1, to: 100000}, m: [1, 2]}}\n", maxDocuments),
		"short lists":  "x-a: [" + times("[],", n) + "]\nimage: a",
		"indentations": indented(800),
		"size":         "image: a\nrun: " + times("x", maxFile),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := finishAll(text)
			runtime.ReadMemStats(&after)
			if !core.IsKind(err, core.Invalid) {
				t.Errorf("error of kind %v, want Invalid", core.KindOf(err))
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Errorf("%d bytes took %d MiB of memory", len(text), took>>20)
			}
		})
	}
}

// TestOfALargeFileOnlyTheBeginningIsRead, whatever kind of file it is taken for.
func TestOfALargeFileOnlyTheBeginningIsRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 1<<40); err != nil {
		t.Fatal(err)
	}
	_, err1 := LoadJob(file)
	_, err2 := LoadSites(file)
	for _, err := range []error{err1, err2} {
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("got %v", err)
		}
	}
}

func indented(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestHonestFilesOfAllSizesAreRead(t *testing.T) {
	var env, script strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&env, "  V%d: %q\n", i, strings.Repeat("y", 50))
		fmt.Fprintf(&script, "  : line %06d of a script {[(- - - a: b: c: d\n", i)
	}
	for name, text := range map[string]string{
		"variables": "image: a\nenv:\n" + env.String() + "run: echo\n",
		"script":    "image: a\nrun: |\n" + script.String(),
		"one line":  "image: a\nrun: echo " + strings.Repeat("x", 500_000) + "\n",
		"list":      "image: a\nrun: [echo" + strings.Repeat(", a", 20_000) + "]\n",
		"lists":     "image: a\ninputs:\n" + strings.Repeat("- {from: /etc/hosts, to: /work/a}\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseJob("x", []byte(text), "/"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTextsOfEditorsAndGenerators are read as they are meant, or refused.
func TestTextsOfEditorsAndGenerators(t *testing.T) {
	const image = "image: a\n"
	for text, want := range map[string]string{
		"\ufeff" + image + "run: echo hi\n":                        "echo hi",
		"image: a\r\nrun: |\r\n  echo a\r\n  echo b\r\n":           "echo a\necho b\n",
		image + "run: >\n  echo a\n  b\n\n  echo c\n":              "echo a b\necho c\n",
		image + "run: |-\n  printf \"a: b # c\"\n":                 "printf \"a: b # c\"",
		image + "run:\techo t\n":                                   "echo t",
		image + "\"run\": \"echo \\x41\\u00e9\"\n":                 "echo Aé",
		"x-r: &r echo anchored\n" + image + "run: *r\n":            "echo anchored",
		"# c\n---\n" + image + "run: echo d\n---\n":                "echo d",
		"{\"image\": \"a\", \"run\": \"echo json\", \"nodes\": 1}": "echo json",
		image + "name: 007\nrun: yes | head -1\n":                  "yes | head -1",
		image + "run: true\n":                                      "true",
		image + "run: echo " + strings.Repeat("x", 100_000) + "\n": "echo " + strings.Repeat("x", 100_000),
		"":                            "",
		"# nothing\n":                 "",
		"just text\n":                 "",
		"- a\n- b\n":                  "",
		image + "run: echo \x00 x\n":  "",
		image + "run: echo caf\xe9\n": "",
		"\xff\xfei\x00m\x00a\x00g\x00e\x00:\x00 \x00a\x00\n\x00": "",
		image + "nodes: 1.5\n":        "",
		image + "nodes: \"2\"\n":      "",
		image + "nodes: -3\n":         "",
		image + "Run: echo\n":         "",
		image + "run: {a: b}\n":       "",
		image + "run: [[echo]]\n":     "",
		image + "env: {\"\": x}\n":    "",
		image + "env: {\"A=B\": x}\n": "",
		image + "env: {A: {B: c}}\n":  "",
		image + "env: {A: [1]}\n":     "",
		"x-a: &a [x,x,x,x,x,x,x,x,x,x]\nx-b: &b [*a,*a,*a,*a]\nimage: b\nrun: *b\n": "",
	} {
		j, err := ParseJob("x", []byte(text), "/")
		if want == "" && !core.IsKind(err, core.Invalid) || want != "" && (err != nil || j.Run == nil || j.Run.Shell != want) {
			t.Errorf("%.60q: %+v, %v; want %.60q", text, j, err, want)
		}
	}
}

func TestScalarsThatVersionsOfYAMLReadDifferently(t *testing.T) {
	for _, text := range []string{
		"%YAML 1.2\n---\nimage: a\nrun: echo d\n...\n",
		"%TAG ! tag:x,2000:\n---\nimage: a\nrun: echo d\n",
		"image: a\nenv: {A: .inf, B: -.inf, C: .nan, D: 010}\n",
		"image: a\nnodes: 0o10\n",
	} {
		if _, err := ParseJob("x", []byte(text), "/"); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	var refused testkit.ErrorList
	for _, text := range []string{
		"image: a\nnodes: 010\n",
		"image: a\nnodes: -010\n",
		"image: a\nretry: 007\n",
		"image: a\nnodes: 08\n",
		"image: a\n---\nimage: b\n",
		"%YAML 1.2\n---\nimage: a\nrun: echo\n---\nimage: b\n",
	} {
		_, err := ParseJob("x", []byte(text), "/")
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%q: %v", text, err)
		}
		refused.Add(text, err)
	}
	refused.Compare(t, "yaml")
}
