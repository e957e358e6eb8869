package hostile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
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

type object = map[string]any

// event has the head report an event as its first one of the job's command.
func event(of object) []hostilesite.Lie {
	return []hostilesite.Lie{{Of: hostilesite.Head, Call: "watch", Where: object{"phase": "run", "begin": true}, Patch: of}}
}

// TestWordsOfAHeadThatCannotBe end the attempt that they are about, as lost. The run
// before it in the same process, and the one after it, are not affected, and none panics.
func TestWordsOfAHeadThatCannotBe(t *testing.T) {
	outputs := func(of object) []hostilesite.Lie { return hostilesite.Result(object{"outputs": []any{of}}) }
	for name, lies := range map[string][]hostilesite.Lie{
		"an output's index beyond":       outputs(object{"index": 99, "path": "volume/out"}),
		"an output's index below":        outputs(object{"index": -1, "path": "volume/out"}),
		"an output of negative size":     outputs(object{"index": 0, "path": "volume/out", "bytes": -5}),
		"a node's rank beyond":           hostilesite.Result(object{"nodes": []any{object{"rank": 7, "host": "n"}}}),
		"a node twice":                   hostilesite.Result(object{"nodes": []any{object{"rank": 0}, object{"rank": 0}}}),
		"a host with line breaks":        hostilesite.Result(object{"nodes": []any{object{"rank": 0, "host": "a\nb"}}}),
		"an exit code that is none":      hostilesite.Result(object{"exit": object{"code": -12345}}),
		"a phase that is none":           hostilesite.Result(object{"phases": object{"dance": 1}}),
		"a phase that ends before":       hostilesite.Result(object{"phases": object{"run": -int64(time.Hour)}}),
		"a checkpoint nobody asked for":  hostilesite.Result(object{"continue": true, "exit": nil}),
		"an end before there were years": hostilesite.Result(object{"ended": "0001-02-03T00:00:00Z"}),
		"an event's rank":                event(object{"rank": -7}),
		"an event of the past":           event(object{"seq": -3}),
		"an event of a huge number":      event(object{"seq": int64(1) << 62}),
		"an event's phase":               event(object{"phase": "dance"}),
		"a snapshot nobody asked for":    event(object{"snapshot": 3}),
		"a sample of negative cores":     event(object{"used": object{"seconds": 1, "nodes": 1, "mean": []any{-1, 0, 0, 0}, "least": []any{0, 0, 0, 0}, "most": []any{0, 0, 0, 0}}}),
		"an event of another shape":      event(object{"rank": "first"}),
		"an event that is none":          {{Of: hostilesite.Head, Call: "watch", Where: object{"phase": "run", "begin": true}, Patch: []any{1, 2}}},
		"events again":                   {{Of: hostilesite.Head, Call: "watch", Where: object{"phase": "run", "begin": true}, Repeat: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, job := busyboxJob(t, "run: 'echo x >/work/out; sleep 0.2'", "workdir: /work", "outputs: [{from: /work/out, to: ./results}]")
			s := hostilesite.Start(t, b, lies...)
			r := b.Try("run", job)
			var v testkit.RunView
			id := strings.TrimSpace(b.Must("ps", "-aq"))
			b.JSON(&v, "show", "--json", id)
			if strings.Contains(r.Stderr, "goroutine ") || v.State != "failed" || v.Error == nil || v.Error.Kind != "lost" || v.Error.Remedy == "" {
				t.Errorf("ended with %d, state %s, %+v\n%s", r.Code, v.State, v.Error, r.Stderr)
			}
			b.Must("rm", id)
			s.Lie()
			if r := b.Try("run", "-q", job); r.Code != 0 {
				t.Errorf("the next run: %+v", r)
			}
		})
	}
}

// TestAHeadThatBreaksTheLineForEver is given up.
func TestAHeadThatBreaksTheLineForEver(t *testing.T) {
	for name, raw := range map[string][]byte{
		"with nothing":        {},
		"with a huge message": {0xff, 0xff, 0xff, 0xff},
		"within a message":    {0, 0, 1, 0, '{'},
		"with no JSON":        {0, 0, 0, 3, 'a', 'b', 'c'},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, job := busyboxJob(t, "run: 'sleep 60'")
			hostilesite.Start(t, b, hostilesite.Lie{Of: hostilesite.Head, Call: "watch", Raw: append(make([]byte, 0, 8), raw...)})
			begun := time.Now()
			r := b.Try("run", job)
			var v testkit.RunView
			b.JSON(&v, "show", "--json", strings.TrimSpace(b.Must("ps", "-aq")))
			if v.State != "failed" || v.Error == nil || v.Error.Kind != "lost" {
				t.Errorf("after %v: %+v\n%s", time.Since(begun), v, r.Stderr)
			}
		})
	}
}

// TestTextsOfAHeadDoNothingToATerminal, nor do they fill the records.
func TestTextsOfAHeadDoNothingToATerminal(t *testing.T) {
	b, job := busyboxJob(t, "run: 'sleep 0.2; exit 1'")
	evil := "\x1b]0;owned\a\x1b[2J\r\u202egnp.exe" + strings.Repeat("x", 100_000)
	remarks := []any{}
	for i := range 300 {
		remarks = append(remarks, object{"seq": 100 + i, "phase": "run", "rank": -1, "remark": true, "message": fmt.Sprint(i, " ", evil)})
	}
	lies := event(object{"message": evil})
	lies = append(lies, hostilesite.Result(object{"exit": nil, "kind": "lost", "message": evil, "remedy": evil})...)
	lies = append(lies, hostilesite.Lie{Of: hostilesite.Head, Call: "watch", Where: object{"phase": "run", "begin": true}, Then: remarks})
	lies = append(lies, hostilesite.Lie{Of: hostilesite.Head, Call: "watch", Has: "result", Patch: object{"seq": 1000}})
	hostilesite.Start(t, b, lies...)
	r := b.Try("run", job)
	id := strings.TrimSpace(b.Must("ps", "-aq"))
	shown := b.Must("show", id)
	for _, text := range []string{r.Stderr, shown, b.Must("ps", "-a")} {
		if strings.ContainsAny(text, "\x1b\a\r\u202e") {
			t.Error("a text reached the terminal as it was")
		}
	}
	if !strings.Contains(shown, "owned") || len(shown) > 2<<20 {
		t.Errorf("%d bytes are shown", len(shown))
	}
	var v struct {
		History []struct{ Text string }
	}
	b.JSON(&v, "show", "--json", id)
	if len(v.History) == 0 || len(v.History) > 200 {
		t.Errorf("the history has %d notes", len(v.History))
	}
}
