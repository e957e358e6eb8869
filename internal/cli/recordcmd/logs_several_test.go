package recordcmd

import (
	"bytes"
	"strings"
	"sync"
	"testing"
)

func TestPrefixesOfLongLines(t *testing.T) {
	var out bytes.Buffer
	p := &prefixed{to: &out, mu: &sync.Mutex{}, prefix: "md | "}
	for _, piece := range []string{"be", "gun\nmore", strings.Repeat("x", 2*longestPiece)} {
		if _, err := p.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.end(); err != nil || !strings.HasPrefix(out.String(), "md | begun\nmd | morexxx") || len(p.line) > 0 || strings.Count(out.String(), "x") != 2*longestPiece || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%v, %d lines", err, strings.Count(out.String(), "\n"))
	}
}
