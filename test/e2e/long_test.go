package e2e

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestLongWords: scripts of any length run; what Linux does not take is refused with a
// remedy, before a container is started.
func TestLongWords(t *testing.T) {
	t.Parallel()
	script := "|\n" + strings.Repeat("  : one of many lines of a script\n", 6000)
	b, job := busyboxJob(t, "setup: "+script+"  echo ready > /work/ready", "run: "+script+"  cat /work/ready; echo $#")
	if r := b.Try("run", "-q", job); r.Code != 0 || r.Stdout != "ready\n0\n" {
		t.Errorf("a long script: code %d, %q, %.300q", r.Code, r.Stdout, r.Stderr)
	}
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin", "BIG=" + strings.Repeat("x", 200_000)}})
	for line, code := range map[string]int{"run: echo": 201, "run: echo\nenv: {BIG: small}": 0} {
		job := b.File("big.yaml", "image: docker-archive:"+image+"\n"+line+"\n")
		if r := b.Try("run", "-q", job); r.Code != code || strings.Contains(r.Stderr, "doctor") {
			t.Errorf("%q: code %d, %.300q", line, r.Code, r.Stderr)
		}
	}
}
