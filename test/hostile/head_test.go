package hostile

import (
	"testing"

	"github.com/bee-hpc/bee/internal/testkit/hostilesite"
)

// TestASiteThatChangesNothing: a run over one that only passes things on ends as any other.
func TestASiteThatChangesNothing(t *testing.T) {
	b, job := busyboxJob(t, "run: 'echo hello; echo done >/work/out'", "workdir: /work", "outputs: [{from: /work/out, to: ./results}]")
	hostilesite.Start(t, b)
	r := b.Try("run", "-q", job)
	if r.Code != 0 || r.Stdout != "hello\n" || b.Read("results/out") != "done\n" {
		t.Errorf("%+v", r)
	}
}

// TestTheProgramBetweenChangesAnswers: what a head reports of its exit reaches bee as the
// lie has it.
func TestTheProgramBetweenChangesAnswers(t *testing.T) {
	b, job := busyboxJob(t, "run: 'exit 3'")
	hostilesite.Start(t, b, hostilesite.Result(map[string]any{"exit": map[string]any{"code": 5}})...)
	if r := b.Try("run", "-q", job); r.Code != 5 {
		t.Errorf("%+v", r)
	}
}
