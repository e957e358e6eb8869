package hostile

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit/hostilesite"
)

// TestOutputsOfALyingHead: what a head lists as outputs, and was not asked for, is not
// collected. Nothing outside of `to:` changes, nor what is hidden in it.
func TestOutputsOfALyingHead(t *testing.T) {
	b, job := busyboxJob(t, "workdir: /work", "run: 'echo good >a.dat; mkdir -p d .git/hooks; echo evil >.git/hooks/x; echo evil >d/a.dat; echo evil >.b.dat'",
		`outputs: [{from: "/work/*.dat", to: ./home/results}]`)
	b.File("home/keys", "mine\n")
	b.File("home/results/.git/hooks/x", "mine\n")
	var list []any
	for _, path := range []string{"..", "volume/..", "volume/a.dat", "volume/a.dat", "volume/d/a.dat", "volume/.b.dat", "volume/.git", "volume/../volume/d/a.dat", "../../../keys", "/etc/passwd", "volume/d/../../volume/a.dat"} {
		list = append(list, map[string]any{"index": 0, "path": path})
	}
	hostilesite.Start(t, b, hostilesite.Result(map[string]any{"outputs": list})...)
	r := b.Try("run", "-q", job)
	want := "keys mine results/.git/hooks/x mine results/a.dat good"
	if got := tree(t, filepath.Join(b.Work, "home")); r.Code != 0 || got != want {
		t.Errorf("%+v\ngot %q, want %q", r, got, want)
	}
}

// TestASiteThatDeliversLinks: a first attempt brings links that lead out of `to:`, and the
// second files whose way home they are in.
func TestASiteThatDeliversLinks(t *testing.T) {
	b, job := busyboxJob(t, "workdir: /work", "run: 'mkdir -p res/sub; echo evil >res/sub/keys; echo evil >res/f'",
		`outputs: [{from: /work/res, to: ./home/results}, {from: "/work/*/sub", to: ./home/results}]`)
	b.File("home/keys", "mine\n")
	if err := os.MkdirAll(filepath.Join(b.Work, "home/results/res"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"home/results/res/sub", "home/results/sub"} { // as an attempt may have left them
		if err := os.Symlink("..", filepath.Join(b.Work, link)); err != nil {
			t.Fatal(err)
		}
	}
	hostilesite.Start(t, b)
	r := b.Try("run", "-q", job)
	if raw, err := os.ReadFile(filepath.Join(b.Work, "home/keys")); r.Code != 0 || err != nil || string(raw) != "mine\n" {
		t.Errorf("%+v\n%s: %v", r, raw, err)
	}
	if _, err := os.Lstat(filepath.Join(b.Work, "home/results/keys")); err == nil {
		t.Error("a link was followed")
	}
}

// tree gives the plain files below a directory, and what they hold.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		found = append(found, name, strings.TrimSpace(string(raw)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(found, " ")
}

// TestOutputsThatAreLinks: a job's links stand for what they lead to in its volume; what
// leads out, and what is no file, stays behind with the volume.
func TestOutputsThatAreLinks(t *testing.T) {
	b, job := busyboxJob(t, "workdir: /work", `run: |
  mkdir -p run1/sub d; echo data >run1/out; ln -s run1 latest; ln -s /work/run1/out abs; ln -s latest/out chain
  ln -s /work/run1/out d/abs; ln -s ../run1 d/rel; ln -s abs d/in; ln -s /etc/passwd d/etc; ln -s nowhere d/gone; mkfifo d/fifo
  ln -s `+"/../../../../../../etc/passwd"+` up`, `outputs:
  - {from: /work/latest, to: a}
  - {from: /work/abs, to: b}
  - {from: /work/latest/o*, to: c}
  - {from: /work/chain, to: e}
  - {from: /work/d, to: f}
  - {from: "/work/*", to: all}`)
	hostilesite.Start(t, b)
	r := b.Try("run", "-q", job)
	if r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	for dir, want := range map[string]string{"a": "latest/out data", "b": "abs data", "c": "out data", "e": "chain data", "f": "d/abs data d/rel/out data"} {
		if got := tree(t, filepath.Join(b.Work, dir)); got != want {
			t.Errorf("%s: got %q, want %q", dir, got, want)
		}
	}
	for link, want := range map[string]string{"f/d/in": "abs", "f/d/gone": "nowhere", "f/d/etc": "", "f/d/fifo": "", "all/up": "", "all/d/etc": ""} {
		if got, _ := os.Readlink(filepath.Join(b.Work, link)); got != want {
			t.Errorf("%s leads to %q, want %q", link, got, want)
		}
	}
	var runs []struct{ ID string }
	b.JSON(&runs, "ps", "-a", "--json")
	if kept, err := os.Readlink(filepath.Join(b.Dir, "state/runs", runs[0].ID, "volume/d/etc")); err != nil || kept != "/etc/passwd" {
		t.Errorf("the volume was not kept: %v", err)
	}
}

// TestAJobThatHidesFilesInAProject: what a job hides is matched by no wildcard, be it of
// outputs, of inputs or of data that are unloaded.
func TestAJobThatHidesFilesInAProject(t *testing.T) {
	b, job := busyboxJob(t, "workdir: /work", "run: 'mkdir -p .git/hooks d/.ssh d/ok; echo evil >.git/hooks/post-commit; echo evil >.profile; echo evil >d/.ssh/keys; echo ok >d/ok/f; ls -A in >listed'",
		`inputs: [{from: "./in/*", to: /work/in/}]`, `outputs: [{from: "/work/*/*", to: .}, {from: "/work/[.]*", to: ., optional: true}, {from: "/work/?profile", to: ., optional: true}, {from: /work/listed, to: .}]`)
	b.File(".git/hooks/post-commit", "mine\n")
	b.File("in/seen", "")
	b.File("in/.hidden", "")
	hostilesite.Start(t, b)
	if r := b.Try("run", "-q", job); r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	if got := b.Read(".git/hooks/post-commit"); got != "mine\n" {
		t.Errorf("the hook is %q", got)
	}
	if got := b.Read("listed"); got != "seen\n" {
		t.Errorf("inputs: %q", got)
	}
	for _, name := range []string{".profile", ".ssh", "post-commit"} {
		if _, err := os.Lstat(filepath.Join(b.Work, name)); err == nil {
			t.Errorf("%s came home", name)
		}
	}
	if got := b.Read("ok/f"); got != "ok\n" {
		t.Errorf("got %q", got)
	}
}

// TestAJobThatReplacesHiddenFiles below a directory that it collects: what is hidden
// there, and is not its run's, stays as it is. Nothing is lost of what came.
func TestAJobThatReplacesHiddenFiles(t *testing.T) {
	b, job := busyboxJob(t, "workdir: /work", "run: 'mkdir -p res/.git/hooks; echo evil >res/.git/hooks/post-commit; echo evil >res/.envrc; echo new >res/.new; echo new >res/log'",
		"outputs: [{from: /work/res, to: ./project}]")
	b.File("project/res/.git/hooks/post-commit", "mine\n")
	b.File("project/res/.envrc", "mine\n")
	b.File("project/res/log", "old\n")
	r := b.Try("run", "-q", job)
	if r.Code != 0 {
		t.Fatalf("%+v", r)
	}
	var runs []struct{ ID string }
	b.JSON(&runs, "ps", "-a", "--json")
	want := strings.ReplaceAll("res/.envrc mine res/.envrc.ID evil res/.git/hooks/post-commit mine res/.git.ID/hooks/post-commit evil res/.new new res/log old res/log.ID new", "ID", runs[0].ID)
	got := tree(t, filepath.Join(b.Work, "project"))
	if !slices.Equal(slices.Sorted(strings.FieldsSeq(got)), slices.Sorted(strings.FieldsSeq(want))) {
		t.Errorf("got %q, want %q", got, want)
	}
	if shown := b.Must("show", "--json", runs[0].ID); !strings.Contains(shown, "hidden_outputs_renamed") {
		t.Errorf("it is not reported: %s", shown)
	}
}
