package measure

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/runner"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestDigestsOfGuests has a guest read its files once, and again after one has changed. The
// time of the command is that between the marks.
func TestDigestsOfGuests(t *testing.T) {
	s, err := study.Parse("study.yaml", []byte(`study: guests
job: {image: docker.io/lab/x, nodes: "${n}", run: [solver]}
vary: {n: [1, 2]}
environments: {bare: {runtime: native, vm: {memory: 1G}}, docker: {vm: {memory: 1G}}}
metrics: {seconds: {builtin: seconds}}
`), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"/bin/solver": "10 1", "/lib/libm.so.6": "20 1"}
	var asked []string
	k := taker(t, func(job *spec.Job, _ io.Writer) (Outcome, error) {
		o := Outcome{Compute: 9 * time.Second, Guest: 2 * time.Second, Host: 2 * time.Second, Image: "i", Found: fair.Found{Files: files, Cores: 1}}
		detail := job.Run.Argv[3]
		asked = append(asked, detail)
		if detail == string(inside.Digests) {
			o.Found.Programs = map[string]string{}
			for path, identity := range files {
				o.Found.Programs[path] = "sum of " + identity
			}
		}
		return o, nil
	})
	k.Study = s
	measure := func(environment, nodes string) record.Row {
		t.Helper()
		row, err := k.Measure(t.Context(), runner.Measurement{Point: record.Point{Values: map[string]string{"n": nodes}}, Environment: environment})
		if err != nil || row.Status != record.OK || row.Metrics["seconds"][0].Value != 2 {
			t.Fatalf("%+v, %v", row, err)
		}
		return row
	}
	want := map[string]string{"/bin/solver": "sum of 10 1", "/lib/libm.so.6": "sum of 20 1"}
	for range 2 {
		if row := measure("bare", "1"); !maps.Equal(row.Programs, want) || row.Cores != 1 {
			t.Errorf("%v, %d cores", row.Programs, row.Cores)
		}
	}
	if row := measure("docker", "2"); !maps.Equal(row.Programs, want) || row.Cores != 0 {
		t.Errorf("of two guests one is seen: %v, %d cores", row.Programs, row.Cores)
	}
	files["/bin/solver"] = "11 2"
	if row := measure("bare", "1"); row.Programs["/bin/solver"] != "" {
		t.Errorf("an unknown file has the digest %q", row.Programs["/bin/solver"])
	}
	if row := measure("bare", "1"); row.Programs["/bin/solver"] != "sum of 11 2" {
		t.Errorf("the digests are %v", row.Programs)
	}
	if want := []string{"digests", "names", "digests", "names", "digests"}; !slices.Equal(asked, want) {
		t.Errorf("guests were asked for %q, expected %q", asked, want)
	}
}

// TestProgramsOfOtherHosts: a host that computes by another file than the first is no fair measurement, and one whose
// file has no digest yet is asked for it.
func TestProgramsOfOtherHosts(t *testing.T) {
	var c contents
	at := measured{"box", ""}
	seen := func(host, identity, sum string) fair.Found {
		f := fair.Found{Host: host, Files: map[string]string{"/bin/solver": identity}}
		if sum != "" {
			f.Programs = map[string]string{"/bin/solver": sum}
		}
		return f
	}
	found := seen("", "10 1", "x")
	found.Join([]fair.Found{seen("n1", "10 1", "x"), seen("n2", "11 2", "y"), {Host: "n3", Foreign: []string{"/usr/bin/awk"}, Programs: map[string]string{"/bin/far": "z"}, CMA: fair.CMAFiltered}})
	c.complete(at, "image", &found)
	reasons := merge(&found)
	testkit.Wording(t, "reasons", strings.Join(reasons, "\n"))
	if found.Programs["/bin/solver"] != "x" || found.Programs["/bin/far"] != "z" || len(found.Foreign) != 1 || found.CMA != fair.CMAFiltered || c.detail(at) != inside.Names {
		t.Errorf("%+v, then %s", found, c.detail(at))
	}
	named := seen("", "10 1", "") // by names alone
	named.Join([]fair.Found{seen("n1", "10 1", ""), seen("n2", "11 2", "")})
	if c.complete(at, "image", &named); !slices.Equal(merge(&named), reasons) || c.detail(at) != inside.Names {
		t.Errorf("by names alone: %+v", named)
	}
	other := seen("", "10 1", "")
	other.Join([]fair.Found{seen("n1", "12 3", "")})
	if c.complete(at, "image", &other); len(merge(&other)) > 0 || c.detail(at) != inside.Digests {
		t.Errorf("a file of another host without a digest: %+v, then %s", other, c.detail(at))
	}
}
