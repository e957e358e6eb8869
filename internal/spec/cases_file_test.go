package spec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// casesIn reads the array of a Beefile beside a file of cases; what is wrong, as text.
func casesIn(t *testing.T, dir, name string) string {
	t.Helper()
	d := DraftOf("job.yaml", []byte("image: debian:12\narray: {cases: {file: "+name+"}}\nrun: echo\n"), dir)
	_, err := d.Finish()
	if list, is := errors.AsType[*Errors](err); is {
		p := list.Problems[0]
		return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(d.Cases())
}

// TestCasesInAFile have the values as they are written, and each mistake has its place.
func TestCasesInAFile(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.csv", "t,s\n300,1\n310,2\n", "[s=1 t=300 s=2 t=310]"},
		{"a.CSV", "\ufefft,s\r\n\"3,0\"\"0\",01\r\n\r\n", `[s=01 t=3,0"0]`},
		{"a.csv", "t,title\n300,\"two\nlines\"\n300\n", "a.csv:4:1: "},
		{"a.csv", "t,s\n300,\n", `a.csv:2:5: `},
		{"a.csv", "t,s\n300,1,2\n", "a.csv:2:1: "},
		{"a.csv", "t,s\n300,\"1\n", "a.csv:2:8: "},
		{"a.csv", "t,s\n3\"0,1\n", "a.csv:2:2: "},
		{"a.csv", "t,t\n300,1\n", `a.csv:1:3: `},
		{"a.csv", "t\n300\n310\n300\n", "job.yaml:2:16: array.cases: "},
		{"a.csv", "a b\n300\n", `job.yaml:2:16: array.cases: `},
		{"a.csv", "t\n\x00\n", `a.csv:2:1: `},
		{"a.csv", "t\n1\n\xff\n", "a.csv:3:1: "},
		{"a.csv", "", "a.csv:1:1: "},
		{"a.csv", "t\n", "a.csv:1:1: "},
		{"a.csv", "t\n" + strings.Repeat("1\n", mostCases+1), "job.yaml:2:16: array.cases: "},
		{"a.jsonl", "\ufeff{\"t\": 1.50, \"s\": \"a b\"}\r\n\n{\"s\": true, \"t\": 1e3}", "[s=a b t=1.50 s=true t=1e3]"},
		{"a.jsonl", "{\"t\": 1}\n{\"s\": 1}\n", "a.jsonl:2:1: "},
		{"a.jsonl", "{\"t\": 1}\n{\"t\": [1]}\n", `a.jsonl:2:1: `},
		{"a.jsonl", "{\"t\": 1}\n{\"t\": null}\n", `a.jsonl:2:1: `},
		{"a.jsonl", "{\"t\": 1} {\"t\": 2}\n", "a.jsonl:1:1: "},
		{"a.jsonl", "[1]\n", "a.jsonl:1:1: "},
		{"a.jsonl", "{}\n", "a.jsonl:1:1: "},
		{"a.txt", "t\n1\n", `job.yaml:2:23: array.cases.file: `},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, c.name), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := casesIn(t, dir, c.name)
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s %q: got %s, want %s", c.name, c.text, got, c.want)
		}
		if !strings.HasPrefix(got, "[") && !strings.Contains(got, "json: ") { // the latter is a text of Go's
			testkit.Wording(t, fmt.Sprintf("%s %.40q", c.name, c.text), got)
		}
	}
}

// TestFilesOfCasesStayInTheirDirectory: a Beefile of another user names no other file of its
// reader's, and nothing keeps the reader waiting.
func TestFilesOfCasesStayInTheirDirectory(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "own.csv"), []byte("t\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link.csv": filepath.Join(outside, "own.csv"), "sub": outside} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo.csv"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../x.csv", filepath.Join(outside, "own.csv"), "link.csv", "sub/own.csv", "fifo.csv", "none.csv", "''"} {
		if got := casesIn(t, dir, name); !strings.HasPrefix(got, "job.yaml:2:23: array.cases.file: ") {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
