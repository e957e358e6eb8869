package spec

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestValuesOfPaths: a value adds steps below those that are written before it, and none that
// leads elsewhere.
func TestValuesOfPaths(t *testing.T) {
	const (
		to      = "outputs: [{from: a, to: %q}]"
		from    = "inputs: [{from: %q, to: /in}]"
		inside  = "inputs: [{from: ./a, to: %q}]"
		output  = "outputs: [%q]"
		workdir = "workdir: %q"
	)
	for _, c := range []struct {
		key, text, value string
		good             bool
	}{
		{to, "./results/${case.v}", "300", true},
		{to, "./results/${case.v}", "a/b", true},
		{to, "./results/${case.v}", "a..b", true},
		{to, "${case.v}", "a/b", true},
		{to, "/data/${case.v}", "/x", true},
		{to, "./results/.${case.v}", "x", true},
		{to, "./a/${case.v}/../b", "x", true},
		{to, "~/${case.v}", "x", true},
		{to, "s3://bucket/${case.v}", "a/b", true},
		{to, "s3://bucket/${case.v}", "a?endpoint=https://evil.example", false},
		{to, "s3://bucket/a?region=${case.v}", "x&endpoint=https://evil.example", false},
		{to, "s3://bucket/a?region=${case.v}", "eu-1", true},
		{to, "s3://${case.v}/a", "my-bucket", true},
		{to, "./results/${case.v}", "../../.ssh", false},
		{to, "./results/${case.v}", "a/../../b", false},
		{to, "./results/${case.v}", "..", false},
		{to, "./results/${case.v}/x", "..", false},
		{to, "./results/.${case.v}", ".", false},
		{to, "./results/${case.v}${case.v}", ".", false},
		{to, "./results/${case.v}.", ".", false},
		{to, "./a/${case.v}/../b", ".", false},
		{to, "./a/${case.v}/../b", "''", false},
		{to, "${case.v}", "/etc", false},
		{to, "${case.v}/a", "''", false},
		{to, "${case.v}", "~/a", false},
		{to, "${case.v}/a", "'~'", false},
		{to, "${case.v}", "s3://bucket/a", false},
		{to, "${case.v}://bucket/a", "s3", false},
		{to, "s3://bucket/${case.v}", "a/../b", false},
		{to, "s3://${case.v}/a", "other/b", false},
		{to, "s3://${case.v}.mine/a", "other@h", false},
		{to, "./${case.v}", ".git/hooks", false},
		{to, "./results/${case.v}", "a/.ssh", false},
		{from, "./in/${case.v}", "a.dat", true},
		{from, "./${case.v}", ".ssh/id_ed25519", false},
		{from, "./${case.v}", `\.ssh/id_ed25519`, false},
		{from, "./${case.v}", `a/\\.ssh`, false},
		{from, `./\${case.v}`, ".ssh/id_ed25519", false},
		{from, "./in/${case.v}", `a\*.dat`, true},
		{from, "s3://bucket/${case.v}", "a/b", true},
		{from, "https://example.org/${case.v}", "a%2f..%2f..", false},
		{from, "https://${case.v}.example.org/a", "evil.example/x?", false},
		{inside, "/data/${case.v}", ".a", true},
		{inside, "/data/${case.v}", `\.a`, true},
		{inside, "/data/${case.v}", "../etc", false},
		{output, "out-${case.v}", "3.dat", true},
		{output, "${case.v}", "/work/a", false},
		{output, "a/${case.v}", "../b", false},
		{workdir, "/work/${case.v}", "a", true},
		{workdir, "/work/${case.v}", "../etc", false},
		{workdir, "${case.v}", "/etc", false},
	} {
		rest := "run: x\n" + fmt.Sprintf(c.key, c.text)
		d := arrayDraft("{cases: [{v: fine}, {v: "+c.value+"}]}", rest)
		_, err := d.Case(2).Finish()
		if c.good {
			if err != nil {
				t.Errorf("%s with %s: %v", c.text, c.value, err)
			}
			continue
		}
		all, is := errors.AsType[*Errors](err)
		if !is {
			t.Errorf("%s with %s: got %v", c.text, c.value, err)
			continue
		}
		for _, p := range all.Problems {
			if p.Line != 5 || p.Column < 2 && c.key != workdir || !strings.Contains(p.Message, "case 2") {
				t.Errorf("%s with %s: at %d:%d: %s", c.text, c.value, p.Line, p.Column, p.Message)
			}
		}
	}
}
