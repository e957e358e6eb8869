package plan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

func asked() Asked {
	return Asked{Nodes: 2, Outputs: 1, Checkpoint: true, Cases: map[int]bool{7: true}, Progress: true, Metrics: map[string]bool{"energy": true}}
}

// sample is an event with what nodes use.
func sample(more string) string {
	return `{"seq":8,"rank":-1,"used":{"seconds":10,"mean":[1,1,1,1],"least":[1,1,1,1],"most":[1,1,1,1],` + more + `}}`
}

func TestCheckEvent(t *testing.T) {
	for name, c := range map[string]struct {
		event string
		ok    bool
	}{
		"a plain one":               {`{"seq":8,"phase":"run","begin":true,"rank":-1}`, true},
		"a case of the pack":        {`{"seq":8,"rank":0,"case":{"number":7,"exit":{"code":0}}}`, true},
		"a case of another pack":    {`{"seq":8,"rank":0,"case":{"number":8,"exit":{"code":0}}}`, false},
		"a case with a huge code":   {`{"seq":8,"rank":0,"case":{"number":7,"exit":{"code":256}}}`, false},
		"a case of an unknown kind": {`{"seq":8,"rank":0,"case":{"number":7,"kind":"joke"}}`, false},
		"an old one":                {`{"seq":7,"rank":-1}`, false},
		"a regressing one":          {`{"seq":-1,"rank":-1}`, false},
		"a huge number":             {`{"seq":9223372036854775807,"rank":-1}`, false},
		"an unknown phase":          {`{"seq":8,"phase":"dance","rank":-1}`, false},
		"a rank below":              {`{"seq":8,"rank":-2}`, false},
		"a rank beyond":             {`{"seq":8,"rank":2}`, false},
		"a negative snapshot":       {`{"seq":8,"snapshot":-1}`, false},
		"a negative size":           {`{"seq":8,"bytes":-1}`, false},
		"more done than can be":     {`{"seq":8,"done":-5,"total":3}`, false},
		"a negative wait":           {`{"seq":8,"waited":-1}`, false},
		"a time of long ago":        {`{"seq":8,"time":"1492-01-01T00:00:00Z"}`, false},
		"a time far ahead":          {`{"seq":8,"time":"9999-01-01T00:00:00Z"}`, false},
		"too many runtimes":         {`{"seq":8,"runtimes":["a","b","c"]}`, false},
		"a runtime with an escape":  {`{"seq":8,"runtimes":["a\u001b[2J"]}`, false},
		"progress and a metric":     {`{"seq":8,"rank":-1,"measured":{"done":3,"total":4,"metrics":{"energy":-1e300}}}`, true},
		"more progress than all":    {`{"seq":8,"rank":-1,"measured":{"done":5,"total":4}}`, false},
		"negative progress":         {`{"seq":8,"rank":-1,"measured":{"done":-5,"total":4}}`, false},
		"a metric of no job":        {`{"seq":8,"rank":-1,"measured":{"metrics":{"\u001b[2J":1}}}`, false},
		"more nodes than there are": {sample(`"nodes":2,"single":[[1,100,0,0],[],[3,300,10,5,0.5,7]]`), false},
		"what two nodes use":        {sample(`"nodes":2,"single":[[1,100,0,0],[3,300,10,5,0.5,7]]`), true},
		"a node without an answer":  {sample(`"nodes":1,"single":[null,[3,300,10,5,0.5,7]]`), true},
		"a sample of no node":       {sample(`"nodes":0`), false},
		"a sample of no time":       {`{"seq":8,"rank":-1,"used":{"seconds":0,"nodes":1,"mean":[1,1,1,1],"least":[1,1,1,1],"most":[1,1,1,1]}}`, false},
		"a sample of an age":        {`{"seq":8,"rank":-1,"used":{"seconds":1e300,"nodes":1,"mean":[1,1,1,1],"least":[1,1,1,1],"most":[1,1,1,1]}}`, false},
		"a sample without a mean":   {`{"seq":8,"rank":-1,"used":{"seconds":1,"nodes":1,"least":[1,1,1,1],"most":[1,1,1,1]}}`, false},
		"negative cores":            {sample(`"nodes":1,"single":[[-1,100,0,0]]`), false},
		"more memory than there is": {sample(`"nodes":1,"single":[[1,1e300,0,0]]`), false},
		"too many numbers":          {sample(`"nodes":1,"single":[[1,1,0,0,0,0,0]]`), false},
		"too few numbers":           {sample(`"nodes":1,"single":[[1]]`), false},
		"a result that is not good": {`{"seq":8,"result":{"outputs":[{"index":1,"path":"volume/x"}]}}`, false},
	} {
		var e Event
		if err := json.Unmarshal([]byte(c.event), &e); err != nil {
			t.Fatal(err)
		}
		if err := e.Check(asked(), 7); (err == nil) != c.ok || err != nil && !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := Event{Seq: 1, Message: "\x1b]0;x\a" + strings.Repeat("y", 1<<20)}
	if err := e.Check(asked(), 0); err != nil || len(e.Message) > maxMessage || strings.ContainsAny(e.Message, "\x1b\a") {
		t.Errorf("the message is %q, %v", e.Message[:20], err)
	}
}

func TestCheckResult(t *testing.T) {
	for name, c := range map[string]struct {
		result string
		ok     bool
	}{
		"a plain one":            {`{"exit":{"code":0},"outputs":[{"index":0,"path":"volume/a.dat","bytes":3}],"nodes":[{"rank":0,"host":"n0","addr":"10.0.0.1","runtime":"rootless","cores":8},{"rank":1,"host":"n1"}],"phases":{"run":5}}`, true},
		"an index beyond":        {`{"outputs":[{"index":1,"path":"volume/a"}]}`, false},
		"an index below":         {`{"outputs":[{"index":-1,"path":"volume/a"}]}`, false},
		"no path":                {`{"outputs":[{"index":0}]}`, false},
		"a negative output":      {`{"outputs":[{"index":0,"path":"volume/a","bytes":-1}]}`, false},
		"an exit code beyond":    {`{"exit":{"code":256}}`, false},
		"a negative exit code":   {`{"exit":{"code":-1}}`, false},
		"an unknown kind":        {`{"kind":"dubious"}`, false},
		"setup without an end":   {`{"in_setup":true}`, false},
		"a rank beyond":          {`{"nodes":[{"rank":2,"host":"n0"}]}`, false},
		"a rank twice":           {`{"nodes":[{"rank":0,"host":"n0"},{"rank":0,"host":"n1"}]}`, false},
		"too many nodes":         {`{"nodes":[{"rank":0},{"rank":1},{"rank":1}]}`, false},
		"a host that is no name": {`{"nodes":[{"rank":0,"host":"a b"}]}`, false},
		"no address":             {`{"nodes":[{"rank":0,"addr":"evil"}]}`, false},
		"a negative rss":         {`{"nodes":[{"rank":0,"max_rss":-1}]}`, false},
		"an unknown phase":       {`{"phases":{"x":1}}`, false},
		"a negative phase":       {`{"phases":{"run":-1}}`, false},
		"a phase of an age":      {`{"phases":{"run":9223372036854775807}}`, false},
		"an end before time":     {`{"ended":"0300-01-01T00:00:00Z"}`, false},
		"a negative snapshot":    {`{"continue":true,"snapshot":-3}`, false},
		"an answer":              {`{"answer":"died"}`, true},
		"an unknown answer":      {`{"answer":"\u001b[2J"}`, false},
		"an output left behind":  {`{"left":[{"path":"/work/a","why":"loop"}]}`, true},
		"nothing left behind":    {`{"left":[{"why":"loop"}]}`, false},
		"too much left behind":   {`{"left":[` + strings.Repeat(`{"path":"/work/a"},`, maxLeft) + `{"path":"/work/a"}]}`, false},
		"a path without an end":  {`{"outputs":[{"index":0,"path":"volume/a","from":"` + strings.Repeat("x", maxPath+1) + `"}]}`, false},
	} {
		var r Result
		if err := json.Unmarshal([]byte(c.result), &r); err != nil {
			t.Fatal(err)
		}
		if err := r.Check(asked()); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Result{Continue: true}).Check(Asked{Nodes: 1}); err == nil {
		t.Error("a checkpoint that nobody asked for was taken")
	}
}

func TestCheckAddresses(t *testing.T) {
	for _, c := range []struct {
		addrs []string
		ok    bool
	}{
		{nil, true},
		{[]string{"10.0.0.1:4000", "[fe80::1%eth0]:5"}, true},
		{[]string{"host:4000"}, false},
		{[]string{"10.0.0.1"}, false},
		{[]string{"10.0.0.1:0"}, false},
		{make([]string, maxAddrs+1), false},
	} {
		if err := CheckAddresses(c.addrs); (err == nil) != c.ok {
			t.Errorf("%q: %v", c.addrs, err)
		}
	}
}

// FuzzCheck: what passes keeps its bounds.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"seq":8,"phase":"run","result":{"outputs":[{"index":0,"path":"volume/x"}],"phases":{"run":1}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e Event
		if json.Unmarshal(raw, &e) != nil || e.Check(asked(), 7) != nil {
			return
		}
		if e.Seq <= 7 || e.Rank < -1 || e.Rank >= 2 || strings.ContainsRune(e.Message, 0x1b) {
			t.Errorf("%+v", e)
		}
		if r := e.Result; r != nil {
			for _, o := range r.Outputs {
				if o.Index != 0 || o.Path == "" {
					t.Errorf("%+v", o)
				}
			}
			for p, took := range r.Phases {
				if took < 0 || took > 200*365*24*time.Hour {
					t.Errorf("%s %v", p, took)
				}
			}
		}
	})
}
