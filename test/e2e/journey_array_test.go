package e2e

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// study is an array whose packs travel: over a cluster with a slot too short for them, hosts
// behind ssh that lose their power or are gone for good, and this machine.
type study struct {
	cases, pack int
	// lines are of its Beefile, and command computes a case: it writes the file result.
	lines, command string
	// slot is the cluster's.
	slot time.Duration
	// within is how long the whole may take on a machine that does nothing else.
	within time.Duration
	// lostForGood has a second site be lost, with the only copy of results.
	lostForGood bool
	// visit has the image brought to the sites first: else that would count against the slot.
	visit bool
	// tight has times without a name be short also where each attempt is. Beside other tests they
	// are as long as the machine makes them.
	tight bool
	// outside computes a case without BEE, and gives its result.
	outside func(t *testing.T, b *testkit.Bee, number int) string
}

// studyVariable is how many cases of LAMMPS are computed, and how many share a lease, such as
// 40/5.
const studyVariable = "BEE_TEST_CASES"

// TestAnArrayOverThreeSites: each case is computed once and has a result, the one that it has
// outside of BEE, whatever became of its sites and its controllers.
func TestAnArrayOverThreeSites(t *testing.T) {
	t.Parallel()
	const command = `awk -v s=$BEE_CASE 'BEGIN { x = s / 1000; for (i = 0; i < 20000; i++) x = 3.9 * x * (1 - x); printf "%.15f\n", x }' >result`
	study{
		cases: 9, pack: 3, slot: 30 * time.Second, within: 4 * time.Minute, visit: true, command: command,
		lines: "image: docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}}) + "\ncheckpoint: {signal: TERM, grace: 1s}\n",
		outside: func(t *testing.T, _ *testkit.Bee, number int) string {
			t.Helper()
			c := exec.Command(testkit.RequireTool(t, "busybox"), "sh", "-c", strings.Replace(strings.Replace(command, "awk", "busybox awk", 1), ">result", "", 1))
			c.Env = append(os.Environ(), "BEE_CASE="+strconv.Itoa(number))
			out, err := c.Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		},
	}.travel(t)
}

// TestManyCasesOfLAMMPSOverThreeSites is the same with a real program.
func TestManyCasesOfLAMMPSOverThreeSites(t *testing.T) {
	testkit.Long(t, "TestAnArrayOverThreeSites")
	cases, pack := 200, 20
	if printed := os.Getenv(studyVariable); printed != "" {
		if _, err := fmt.Sscanf(printed, "%d/%d", &cases, &pack); err != nil {
			t.Fatal(err)
		}
	}
	const command = `lmp -in /deck/in.melt -var seed $((87287+BEE_CASE)) -log log.lammps -screen none && grep -E '^ +[0-9]+( +[-0-9.]+){4} *$' log.lammps >result`
	testkit.RequireTool(t, "mmdebstrap")
	study{
		cases: cases, pack: pack, slot: 40 * time.Second, within: time.Minute + time.Duration(cases)*4*time.Second, lostForGood: true, visit: true, tight: true,
		lines:   "inputs: [{from: ./deck, to: /deck}]\nenv: {OMP_NUM_THREADS: \"1\", OMPI_MCA_ess_singleton_isolated: \"1\"}\n",
		command: command, outside: insideTree(command),
	}.withLAMMPS().travel(t)
}

// withLAMMPS has the image of an example.
func (s study) withLAMMPS() study {
	s.lines = "build:\n  debian: bookworm\n  slim: true\n  packages: [gromacs, lammps, hpcc, openmpi-bin, python3-mpi4py]\n" + s.lines
	return s
}

// insideTree runs a command in the tree of the image that has LAMMPS, as its user would without
// BEE: in a change root.
func insideTree(command string) func(t *testing.T, b *testkit.Bee, number int) string {
	return func(t *testing.T, b *testkit.Bee, number int) string {
		t.Helper()
		cache := ""
		for _, v := range b.Env {
			if dir, is := strings.CutPrefix(v, "BEE_CACHE="); is {
				cache = dir
			}
		}
		trees, err := filepath.Glob(filepath.Join(cache, "trees", "*", "usr", "bin", "lmp"))
		if err != nil || len(trees) == 0 {
			t.Fatal("no tree with LAMMPS below ", cache, err)
		}
		tree, dir := strings.TrimSuffix(trees[0], "/usr/bin/lmp"), filepath.Join(b.Dir, "outside", strconv.Itoa(number))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		script := `mount --rbind /dev "$0/dev"; mount --rbind /proc "$0/proc"; mount -t tmpfs none "$0/tmp"; mount -t tmpfs none "$0/mnt"; mkdir "$0/mnt/deck" "$0/mnt/work"
mount --bind "$1/deck" "$0/mnt/deck"; mount --bind "$2" "$0/mnt/work"; exec chroot "$0" /bin/sh -ec "cd /mnt/work; $3"`
		c := exec.Command(testkit.RequireTool(t, "unshare"), "--user", "--map-root-user", "--mount", "sh", "-ec", script, tree, b.Work, dir, strings.ReplaceAll(command, "/deck/", "/mnt/deck/"))
		c.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "OMP_NUM_THREADS=1", "OMPI_MCA_ess_singleton_isolated=1", "BEE_CASE=" + strconv.Itoa(number)}
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("case %d outside: %v: %s", number, err, out)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "result"))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
}

// studyRow is a run as `bee ps --json` has it.
type studyRow struct {
	ID, Name, State, Pack string
	ExitCode              *int `json:"exit_code"`
	Attempts              []struct {
		Site  string
		Ended *time.Time
	}
}

// travel submits the study, breaks what it runs on, and compares what it has computed.
func (s study) travel(t *testing.T) {
	t.Helper()
	hosts := 2
	if s.lostForGood {
		hosts++
	}
	farm := slurmfarm.Start(t, hosts)
	for _, host := range farm.Names[2:] { // they are machines behind ssh alone
		if out, err := farm.Do("scontrol", "update", "nodename="+host, "state=drain", "reason=ssh"); err != nil {
			t.Fatal(err, out)
		}
	}
	b := testkit.NewBee(t)
	b.Env = append(b.Env, farm.Farm.Env()...)
	s.prepare(t, b)
	if s.visit {
		sites := s.sitesFile(b, farm, 20*time.Minute)
		b.File("visit.yaml", s.lines+"run: 'true'\n")
		for _, site := range s.sites() {
			if r := b.Try("--sites", sites, "run", "-q", "--site", site, "visit.yaml"); r.Code != 0 {
				t.Fatalf("a visit to %s: %+v", site, r)
			}
		}
		b.Must("rm", "--finished")
	}

	begun := time.Now()
	array := strings.TrimSpace(b.Must("run", "-d", "-q", "--sites", s.sitesFile(b, farm, s.slot), "study.yaml"))
	// Of each pack at a site, the last case waits there until its site is broken, or its slot ends.
	s.packAt(t, b, "rack")
	for _, pid := range b.Controllers() {
		testkit.Kill(pid)
	}
	b.Must("supervise")
	if err := farm.Kill(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	s.free(t, b, "rack")
	farm.StartLogin(t, 2)
	if s.lostForGood {
		s.loseForGood(t, b, farm)
	}
	s.free(t, b, "laptop")
	testkit.Eventually(t, s.within, func() error {
		var v struct {
			State  string
			States map[string]int
		}
		if b.JSON(&v, "show", "--json", array); v.State == "queued" || v.State == "running" {
			return fmt.Errorf("the array: %+v\n%s", v, b.Must("ps", "study.packs"))
		}
		return nil
	})
	took := time.Since(begun)
	if s.lostForGood { // its network is mended, and nobody looks at what is left
		if err := farm.Link(t.Context(), 3, true); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, time.Minute, func() error {
			if r := b.Try("sweep"); r.Code != 0 {
				return errors.New(r.Stderr)
			}
			return nil
		})
	}
	if r := b.Try("wait", array); r.Code != 0 {
		t.Fatalf("bee wait: %+v\n%s", r, b.Must("ps", array))
	}
	s.compare(t, b)
	again := s.once(t, b)
	s.accounts(t, b, array, took, again)
	if f := b.Fail("retry", array); f.Kind != "invalid" && f.Kind != "not found" {
		t.Errorf("bee retry of an array without failed cases: %+v", f)
	}
	nothingQueued(t, farm)
	for _, site := range s.sites() {
		testkit.Eventually(t, 30*time.Second, func() error {
			if left, _ := filepath.Glob(filepath.Join(farm.Dir, site, "bee", "[^.c]*")); len(left) > 0 {
				return fmt.Errorf("left on %s: %v", site, left)
			}
			return nil
		})
	}
	b.Must("rm", array)
	if left := b.Must("ps", "-aq"); left != "" {
		t.Errorf("left are %s", left)
	}
}

// prepare writes the Beefile and what it reads.
func (s study) prepare(t *testing.T, b *testkit.Bee) {
	t.Helper()
	deck, err := os.ReadFile(filepath.Join(testkit.Root(t), "examples", "lammps", "input", "in.melt"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("box block 0 10 0 10 0 10", "box block 0 5 0 5 0 5", "1.44 87287", "1.44 ${seed}", "run          500", "run          1000").Replace(string(deck))
	b.File("deck/in.melt", text)
	for _, site := range s.sites() {
		b.File("log/"+site+"/wait", "")
	}
	b.File("study.yaml", fmt.Sprintf(`name: study
%scores: 1
array: {cases: {number: {from: 1, to: %d}}, pack: %d, at_once: 4}
mounts: [{from: log, to: /log, write: true}]
run: |
  set -e
  echo "$BEE_CASE begins" >>/log/cases
  trap 'exit 85' TERM
  if [ $((BEE_CASE %% %d)) = 0 ]; then while [ -e /log/wait ]; do sleep 0.2; done; fi
  %s
  trap '' TERM
  echo "$BEE_CASE ends" >>/log/cases
outputs: [{from: result, to: "./results/${case.number}"}]
`, s.lines, s.cases, s.pack, s.pack, s.command))
}

// sitesFile writes the sites file, with a slot of the cluster.
func (s study) sitesFile(b *testkit.Bee, farm *slurmfarm.Farm, slot time.Duration) (path string) {
	places := map[string]string{
		"cluster": fmt.Sprintf("provider: slurm, login: h0, scratch: %s/scratch, slot: %s, wait: 2s, price: 0.5", farm.Dir, slot),
		"rack":    fmt.Sprintf("provider: ssh, hosts: [h2], runs: 1, scratch: %s/rack, price: 0.1", farm.Dir),
		"shed":    fmt.Sprintf("provider: ssh, hosts: [h3], runs: 1, scratch: %s/shed, price: 0.1", farm.Dir),
		"laptop":  "provider: local, runs: 1",
	}
	list := "sites:\n"
	for _, site := range s.sites() {
		list += fmt.Sprintf("  - {name: %s, %s, paths: {log: %s}}\n", site, places[site], filepath.Join(b.Work, "log", site))
	}
	return b.File("sites.yaml", list)
}

// sites are the names of those of the study, in their order.
func (s study) sites() []string {
	if s.lostForGood {
		return []string{"cluster", "rack", "shed", "laptop"}
	}
	return []string{"cluster", "rack", "laptop"}
}

// free lets the cases end that wait at a site.
func (s study) free(t *testing.T, b *testkit.Bee, site string) {
	t.Helper()
	if err := os.Remove(filepath.Join(b.Work, "log", site, "wait")); err != nil {
		t.Fatal(err)
	}
}

// packAt waits until all cases but the last one of a pack have ended at a site, and gives the pack.
func (s study) packAt(t *testing.T, b *testkit.Bee, site string) (pack string) {
	t.Helper()
	testkit.Eventually(t, s.within, func() error {
		var packs, cases []studyRow
		b.JSON(&packs, "ps", "--json", "study.packs")
		i := slices.IndexFunc(packs, func(r studyRow) bool {
			n := len(r.Attempts)
			return n > 0 && r.Attempts[n-1].Site == site && r.Attempts[n-1].Ended == nil
		})
		if i < 0 {
			return fmt.Errorf("no pack is at %s: %+v", site, packs)
		}
		ended := 0
		b.JSON(&cases, "ps", "--json", "study")
		for _, c := range cases {
			if c.Pack == packs[i].ID && c.ExitCode != nil {
				ended++
			}
		}
		if pack = packs[i].ID; ended != s.pack-1 {
			return b.Explained(pack, fmt.Sprintf("%d cases have ended", ended))
		}
		return nil
	})
	return pack
}

// loseForGood cuts a site off that has the only copy of results, and declares it lost.
func (s study) loseForGood(t *testing.T, b *testkit.Bee, farm *slurmfarm.Farm) {
	t.Helper()
	pack := s.packAt(t, b, "shed")
	if err := farm.Link(t.Context(), 3, false); err != nil {
		t.Fatal(err)
	}
	printed(t, b, pack, event.KindUnreachable, `"site":"shed"`)
	if r := b.Try("resume", "--site-lost", pack); r.Code != 0 {
		t.Fatalf("resume: %+v", r)
	}
	printed(t, b, pack, event.KindCasesLost, `"site":"shed"`)
}

// compare holds each result against the one that is computed outside.
func (s study) compare(t *testing.T, b *testkit.Bee) {
	t.Helper()
	results := map[string]bool{}
	for n := 1; n <= s.cases; n++ {
		raw, err := os.ReadFile(filepath.Join(b.Work, "results", strconv.Itoa(n), "result"))
		if want := s.outside(t, b, n); err != nil || string(raw) != want || want == "" {
			t.Errorf("case %d: %v, it has %q, and outside %q", n, err, raw, want)
		}
		results[string(raw)] = true
	}
	if len(results) != s.cases {
		t.Errorf("%d cases have %d different results", s.cases, len(results))
	}
}

// once counts the ends of each case. The history names one that has ended more than once, as
// its result was lost with a site. once returns how many were lost.
func (s study) once(t *testing.T, b *testkit.Bee) (again int) {
	t.Helper()
	ends := map[int]int{}
	for _, site := range s.sites() {
		for _, m := range regexp.MustCompile(`(?m)^(\d+) ends$`).FindAllStringSubmatch(b.Read("log/"+site+"/cases"), -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			ends[n]++
		}
	}
	var cases []studyRow
	b.JSON(&cases, "ps", "--json", "study", "--all")
	if len(cases) != s.cases {
		t.Fatalf("there are %d cases", len(cases))
	}
	for i, c := range cases {
		named := testkit.Events(b, c.ID, event.KindCasesLost)
		again += named
		if n := ends[i+1]; c.State != "succeeded" || n != 1+named {
			t.Errorf("%s has %s, and was computed %d times; its history names %d lost results", c.Name, c.State, n, named)
		}
	}
	if (again > 0) != s.lostForGood {
		t.Errorf("%d results were lost", again)
	}
	return again
}

// nameless is how much of a time may have no name.
func (s study) nameless(wall float64) float64 {
	if s.tight {
		return 2 + wall/20
	}
	return 5 + wall/4
}

// accounts fails when the page and the table of the cases leave time without a name.
func (s study) accounts(t *testing.T, b *testkit.Bee, array string, took time.Duration, again int) {
	t.Helper()
	table, err := csv.NewReader(strings.NewReader(b.Must("show", "--csv", array))).ReadAll()
	if err != nil || len(table) != s.cases+1 {
		t.Fatalf("%v: a table of %d lines", err, len(table))
	}
	at := func(row []string, column string) float64 {
		t.Helper()
		x, err := strconv.ParseFloat(row[slices.Index(table[0], column)], 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, row := range table[1:] {
		sum := 0.0
		for _, name := range table[0] {
			if strings.HasPrefix(name, "time.") {
				sum += at(row, name)
			}
		}
		wall, most := at(row, "seconds"), 1.0
		if !s.tight {
			most = s.nameless(wall)
		}
		if wall == 0 || sum < wall-most || sum > wall+most || at(row, "time.compute") == 0 || at(row, "attempts") == 0 {
			t.Errorf("of %.1f s of case %s, %.1f s have a name: %v", wall, row[0], sum, row)
		}
	}
	var packs []studyRow
	b.JSON(&packs, "ps", "--json", "study.packs", "--all")
	uses, sites, attempts := map[string]float64{}, map[string]int{}, 0
	for _, p := range packs {
		allNamed(t, b, p.ID)
		var v struct {
			Time     map[string]float64
			Attempts []struct {
				Site           string
				Started, Ended time.Time
				Nodes          []struct{}
				Phases         map[string]float64
			}
		}
		b.JSON(&v, "show", "--json", p.ID)
		for on, seconds := range v.Time {
			uses[on] += seconds
		}
		attempts += len(v.Attempts)
		for i, a := range v.Attempts {
			sites[a.Site]++
			sum := 0.0
			for _, seconds := range a.Phases {
				sum += seconds
			}
			if wall := a.Ended.Sub(a.Started).Seconds(); len(a.Nodes) > 0 && (sum < wall-s.nameless(wall) || sum > wall+1) {
				t.Errorf("%s, attempt %d on %s: of %.1f s, %.1f s have a name: %v", p.Name, i+1, a.Site, wall, sum, a.Phases)
			}
		}
	}
	all := 0.0
	for _, seconds := range uses {
		all += seconds
	}
	if most := all/20 + 0.3*float64(attempts); uses["other"] > most && (s.tight || uses["other"] > s.nameless(all)) { // between two phases, a busy machine does something else
		t.Errorf("of %.1f s, %.1f s went to nothing with a name", all, uses["other"])
	}
	for _, site := range s.sites() {
		if sites[site] == 0 {
			t.Errorf("no attempt was on %s", site)
		}
	}
	page := b.Must("report", array)
	for _, words := range []string{"<h2>Time</h2>", "computing"} {
		if !strings.Contains(page, words) {
			t.Errorf("the page has no %q", words)
		}
	}
	if list := b.Must("ps", "-a"); !strings.Contains(list, fmt.Sprintf("%d of %d cases over", s.cases, s.cases)) {
		t.Errorf("bee ps: %s", list)
	}
	var text strings.Builder
	for _, on := range slices.SortedFunc(maps.Keys(uses), func(x, y string) int { return cmp.Compare(uses[y], uses[x]) }) {
		fmt.Fprintf(&text, " %s %.1f %%,", on, 100*uses[on]/all)
	}
	testkit.Figure(t, "%d cases in %d packs: %.1f s, %d attempts (%v), %d results lost with a site and computed again; of %.1f s of the packs:%s", s.cases, len(packs), took.Seconds(), attempts, sites, again, all, strings.TrimSuffix(text.String(), ","))
}
