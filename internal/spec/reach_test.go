package spec

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// own makes a home and a directory of a Beefile in it.
func own(t *testing.T) (home, dir string) {
	t.Helper()
	home = t.TempDir()
	t.Setenv("HOME", home)
	dir = filepath.Join(home, "project")
	for _, d := range []string{filepath.Join(dir, "data"), filepath.Join(home, ".ssh")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"keys": "../.ssh", "later": "../not-there", "here": "data", "loop": "loop", "data/up": "../../.ssh"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return home, dir
}

func TestReaches(t *testing.T) {
	_, dir := own(t)
	for _, c := range []struct {
		lines string
		key   string // "": it stays in its directory
	}{
		{"inputs: [{from: data, to: /in}]", ""},
		{"inputs: [{from: ./here, to: /in}]", ""},
		{"inputs: [{from: ~/.ssh, to: /in}]", "inputs[0].from"},
		{"inputs: [{from: ../.ssh, to: /in}]", "inputs[0].from"},
		{"inputs: [{from: keys, to: /in}]", "inputs[0].from"},
		{"inputs: [{from: keys/id, to: /in}]", "inputs[0].from"},
		{"inputs: [{from: 'k*', to: /in}]", "inputs[0].from"},
		{"inputs: [{from: 'data/*', to: /in}]", "inputs[0].from"},
		{"inputs: [{from: loop, to: /in}]", "inputs[0].from"},
		{"outputs: [{from: /work/x, to: results/new}]", ""},
		{"outputs: [{from: /work/x, to: .}]", ""},
		{"outputs: [{from: /work/x, to: /tmp/x}]", "outputs[0].to"},
		{"outputs: [{from: /work/x, to: later}]", "outputs[0].to"},
		{"outputs: [{from: /work/x, to: later/below}]", "outputs[0].to"},
		{"outputs: [{from: /work/x, to: keys}]", "outputs[0].to"},
		{"outputs: [{from: /work/x, to: .git/hooks}]", "outputs[0].to"},
		{"secrets: {A: {exec: cat id}}", "secrets.A.exec"},
		{"secrets: {A: {env: AWS_SECRET_ACCESS_KEY}}", "secrets.A.env"},
		{"secrets: {A: {file: data/token}}", ""},
		{"secrets: {A: {file: /etc/shadow}}", "secrets.A.file"},
		{"checkpoint: {}\nstore: ./data", ""},
		{"checkpoint: {}\nstore: evil.example:in", "store"},
		{"checkpoint: {}\nstore: s3://bucket/x", "store"},
		{"checkpoint: {}\nstore: /tmp", "store"},
		{"mounts: [{from: /project/era5, to: /d}]", "mounts[0].from"},
		{"mounts: [{from: project, to: /d, write: true}]", "mounts[0].from"},
		{"vm: {disks: [{from: /home/ann/x.img, to: /d}]}", "vm.disks[0].from"},
		{"vm: true\nvolume: {path: /work, kind: dataimage, from: /tmp/x.img}", "volume.from"},
		{"volume: {kind: burst, remote: ./data}", ""},
		{"volume: {kind: burst, remote: /tmp}", "volume.remote"},
		{"volume: {kind: burst, remote: evil.example:in}", "volume.remote"},
	} {
		job, err := ParseJob("job.yaml", []byte("image: debian:12\nrun: x\n"+c.lines), dir)
		if err != nil {
			t.Errorf("%s: %v", c.lines, err)
			continue
		}
		got := job.Reaches(dir)
		if c.key == "" && len(got) > 0 || c.key != "" && (len(got) != 1 || got[0].Key != c.key) {
			t.Errorf("%s: reaches %v", c.lines, got)
		}
	}
	for lines, key := range map[string]string{
		"image: oci:./data": "", "image: oci:/var/x": "image", "image: docker-daemon:x": "image", "image: docker-archive:keys/x.tar": "image",
		"build: ./data": "", "build: ../other": "build.context", "build: {context: ./data, dockerfile: /etc/passwd}": "build.dockerfile",
		"build: {debian: bookworm, copy: [{from: ../.ssh, to: /x}]}": "build.copy[0].from",
		"build: {debian: bookworm, mirror: 'file:///var/x'}":         "build.mirror", "build: {debian: bookworm, mirror: 'https://deb.debian.org/debian'}": "",
	} {
		job, err := ParseJob("job.yaml", []byte("run: x\n"+lines), dir)
		if err != nil {
			t.Errorf("%s: %v", lines, err)
			continue
		}
		got := job.Reaches(dir)
		if key == "" && len(got) > 0 || key != "" && !slices.ContainsFunc(got, func(r Reach) bool { return r.Key == key }) {
			t.Errorf("%s: reaches %v", lines, got)
		}
	}
}

// TestCredentialsThatASiteUsesAreAReach beside the bucket, which is one anyway.
func TestCredentialsThatASiteUsesAreAReach(t *testing.T) {
	_, dir := own(t)
	for words, want := range map[string][]string{
		"":                     {"volume.remote", "volume.credentials"}, // where the host has none
		", credentials: site":  {"volume.remote"},
		", credentials: send":  {"volume.remote", "volume.credentials"},
		", credentials: relay": {"volume.remote", "volume.credentials"},
	} {
		job, err := ParseJob("job.yaml", []byte("image: debian:12\nrun: x\nvolume: {kind: burst, remote: s3://bucket/x"+words+"}"), dir)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, r := range job.Reaches(dir) {
			keys = append(keys, r.Key)
			if r.What != "s3://bucket/x" {
				t.Errorf("%q: %s", words, r)
			}
		}
		if !slices.Equal(keys, want) {
			t.Errorf("%q: reaches %v, not %v", words, keys, want)
		}
	}
}

// TestWordsOfABuildAreNoOptions: of the programs that build.
func TestWordsOfABuildAreNoOptions(t *testing.T) {
	for _, lines := range []string{
		"mirror: '--setup-hook=touch /x'", "mirror: '-'", "mirror: /etc/passwd", "mirror: 'http://a b'", "mirror: 'deb [trusted=yes] http://a'", "mirror: \"http://a\\nb\"",
		"debian: '--x'", "packages: ['--x']", "packages: ['/home/ann/x.deb']", "packages: ['./x.deb']",
	} {
		text := "run: x\nbuild:\n  " + lines + "\n"
		if !strings.HasPrefix(lines, "debian") {
			text += "  debian: bookworm\n"
		}
		if _, err := ParseJob("job.yaml", []byte(text), t.TempDir()); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", lines, err)
		}
	}
}

// TestHomeIsNoDirectoryOfAJob: what is beside a Beefile in the home directory is not
// the Beefile's own.
func TestHomeIsNoDirectoryOfAJob(t *testing.T) {
	home, _ := own(t)
	for _, dir := range []string{home, filepath.Dir(home), "/"} {
		job, err := ParseJob("job.yaml", []byte("image: debian:12\nrun: x\noutputs: [{from: /work/x, to: .}]"), dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(job.Reaches(dir)) != 1 {
			t.Errorf("in %s it reaches %v", dir, job.Reaches(dir))
		}
		if left := OfOwn(dir, job.Reaches(dir)); len(left) != 0 {
			t.Errorf("in %s the user's own reaches %v", dir, left)
		}
	}
	lines := "image: docker-daemon:x\nrun: x\ninputs: [{from: data, to: /in}, {from: .ssh, to: /keys}, {from: /etc, to: /etc2}]\nmounts: [{from: /project, to: /d}]\nsecrets: {A: {env: HOME}}"
	job, err := ParseJob("job.yaml", []byte(lines), home)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, r := range OfOwn(home, job.Reaches(home)) {
		keys = append(keys, r.Key)
	}
	if want := []string{"secrets.A.env", "inputs[1].from", "inputs[2].from", "mounts[0].from", "image"}; !slices.Equal(keys, want) {
		t.Errorf("the user's own in the home directory reaches %v, not %v", keys, want)
	}
}

func TestStrangersFiles(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		file, dir os.FileMode
		strange   bool
	}{
		"own": {0o644, 0o755, false}, "written by all": {0o666, 0o755, true}, "replaced by all": {0o644, 0o777, true}, "beside others' files": {0o644, 0o777 | os.ModeSticky, true},
	} {
		sub := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		file := filepath.Join(sub, "job.yaml")
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		for path, mode := range map[string]os.FileMode{file: c.file, sub: c.dir} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		if why, err := Stranger(file); err != nil || (why != "") != c.strange {
			t.Errorf("%s: %q, %v", name, why, err)
		}
		link := filepath.Join(dir, filepath.Base(sub)+".yaml")
		if err := os.Symlink(file, link); err != nil {
			t.Fatal(err)
		}
		if why, err := Stranger(link); err != nil || (why != "") != c.strange {
			t.Errorf("a link to %s: %q, %v", name, why, err)
		}
	}
}

func TestJobsOfRecordsAreChecked(t *testing.T) {
	good := func() Job {
		return Job{Name: "j", Image: "debian:12", Nodes: 1, Volume: Volume{Path: "/work"}, Run: &Command{Shell: "true"}}
	}
	if _, err := FromRecord("record", good(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for name, harm := range map[string]func(*Job){
		"no image": func(j *Job) { j.Image = "" }, "nodes": func(j *Job) { j.Nodes = -1 }, "many nodes": func(j *Job) { j.Nodes = math.MaxInt64 },
		"name": func(j *Job) { j.Name = "../x" }, "line break": func(j *Job) { j.Name = "a\nb" }, "no text": func(j *Job) { j.Workdir = "/\x00" },
		"negative": func(j *Job) { j.Wait = -time.Hour }, "runtime": func(j *Job) { j.Runtime = "host" }, "variable": func(j *Job) { j.Env = map[string]string{"A=B": ""} },
		"volume": func(j *Job) { j.Volume.Path = "/proc" }, "output": func(j *Job) { j.Outputs = []Output{{From: "/etc/x", To: "/x"}} },
		"long": func(j *Job) { j.Run.Shell = strings.Repeat("x", maxFile+1) }, "store": func(j *Job) { j.Store = "-oProxyCommand=x:y" },
		"secret of two": func(j *Job) { j.Secrets = map[string]Secret{"A": {Exec: "x", Env: "y"}} }, "gpus": func(j *Job) { j.GPUs = -7 },
		"slots": func(j *Job) { j.Retry = math.MaxInt64 },
	} {
		j := good()
		harm(&j)
		if _, err := FromRecord("record", j, t.TempDir()); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
