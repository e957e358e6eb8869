package hostile

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/hostilesite"
)

// killNodes kills the nodes of the test's bee, in a shell.
const killNodes = `for p in /proc/[0-9]*; do
  if tr '\0' ' ' <$p/cmdline 2>/dev/null | grep -q '^[^ ]*bee node ' && tr '\0' '\n' <$p/environ 2>/dev/null | grep -qxF "TEST_BEE_DIR=$TEST_BEE_DIR"; then
    kill -9 ${p#/proc/}
  fi
done 2>/dev/null; true`

// TestAMoveWhoseAnswerIsLost: a head that receives a move and ends, or is killed, before its
// answer comes has not lost the move: bee reads the run's record before it concludes.
func TestAMoveWhoseAnswerIsLost(t *testing.T) {
	for name, lie := range map[string]hostilesite.Lie{
		"the head ends": {Of: hostilesite.Head, Call: "save", Hang: true},
		"it is killed":  {Of: hostilesite.Head, Call: "save", Run: killNodes, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 20s}", "outputs: [{from: done, to: results}]",
				`run: "[ $BEE_ATTEMPT = 1 ] || { echo >done; exit 0; }; trap 'exit 85' TERM; touch begun; while :; do sleep 0.1; done"`)
			hostilesite.Start(t, b, lie)
			id := strings.TrimSpace(b.Must("run", "-d", job))
			testkit.Eventually(t, time.Minute, func() error {
				if r := b.Try("exec", id, "--", "test", "-e", "begun"); r.Code != 0 {
					return b.Explained(id, r.Stderr)
				}
				return nil
			})
			if r := b.Try("move", id); r.Code != 0 {
				t.Errorf("move: %+v\n%s", r, b.Must("show", id))
			}
			v := b.Await(id, time.Minute)
			if v.State != "succeeded" || len(v.Attempts) != 2 {
				t.Errorf("the run: %+v\n%s", v, b.Must("show", id))
			}
		})
	}
}
