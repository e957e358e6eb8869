package spec

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// described are Beefiles with every key there is.
var described = []string{ // cases
	"image: debian:12\n",
	"image: debian:12\nvolume: {kind: burst, remote: 'ann@archive:run7', disk: 50G, rate: 400mbit, protect: true, prefetch: ['/work/input/*.nc'], expect: {write: 40G, every: 10m, read: 200G, reuse: 0.5}}\n",
	"image: debian:12\nvolume: {kind: burst, remote: 's3://climate/run7', credentials: send}\n",
	"image: debian:12\nvolume: {kind: burst, remote: 's3://climate/run7', credentials: relay}\n",
	"image: oci:./app:1.0\nname: n\nlabels: {project: cfd, tier/a: \"1\"}\nplatform: linux/amd64\nnodes: 3\nranks_per_node: 4\ncores: 8\nmemory: 1536M\ntime: 36h\nenv: {A: \"1\", B: 'a: \"b\"', C: \"\", D: \"null\", E: \"~\", F: \" x\\ty \", G: \"l1\\nl2\\n\"}\n" +
		"secrets: {T: {env: T}, U: {file: ./u}, V: {exec: 'pass show x'}}\ninputs: [{from: ./in, to: /work}, {from: 'https://x.org/y', to: /work/y, sha256: 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a}]\nmounts: [{from: /p, to: /data, write: true}]\nvolume: /v\nworkdir: /v/w\n" +
		"entrypoint: []\nsetup: [a, b c]\nrun: |\n  set -e\n  echo \"$A\"  \n\n  \tx\npost: \"  y\"\noutputs: [x.dat, {from: /v/*.dat, to: './r/${run.name}', optional: true, replace: true}]\n" +
		"checkpoint: {mode: app, signal: USR1, every: 90m, grace: 1h, paths: [a, /v/b], keep: true}\nstore: ./kept\nresume: go on\ngpus: all\nrdma: host\nruntime: docker\nseccomp: false\nuser: root\nnetwork: eth0\n" +
		"scratch: disk\ntimeout: 36h\nsites: [a, b]\norder: soonest\nwait: 1m30s\nretry: 2\n",
	"image: x\ncheckpoint: {command: [kill, \"1\"]}\ngpus: 2\nrdma: {device: none}\nvm: false\n",
	"image: x\nvm: true\nrdma: {device: host, pci: '0000:81:00.1'}\n",
	"image: x\nrdma: {device: bee, memory: 4G, qps: 100}\n",
	"image: x\nrdma: {device: bee, domain: lab_1}\n",
	"image: x\ncheckpoint: {file: /work/stop}\nvm: auto\nseccomp: true\n",
	"image: x\nvm: true\nvolume: {path: /v, kind: dataimage, size: 1.5G, from: ./v.img, shared: required}\n",
	"image: x\nvm: {}\n",
	"image: x\nnodes: 2\nvm: {when: always, per_host: 2, cpus: 8, sockets: 2, threads: 2, memory: 512M, disk: 3G, cpu: max, accel: tcg, devices: virtio, fabric: star, nic: vhost, encryption: none, share: virtiofs, mtu: 9000, packages: [vim], bridge: true, huge_pages: true, pin: true, disks: [{size: 16M, to: /s}, {from: /d.img, to: /d}]}\n",
	"image: x\nvm: {image: oci:./guest}\n",
	"image: x\ninputs: [{from: 'https://example.org/a?v=2', sha256: 5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9, to: /in/}, {from: 's3://bucket/k?region=r', to: /k}]\noutputs: [{from: /work/x, to: 's3://bucket/${run.id}'}]\n",
	"image: x\nnotify: [{on: [failed, waiting>2h], webhook: 'https://example.org/hook', key: {file: k}}, {webhook: 'https://example.org/x', key: {env: K}}, {command: 'beep  \"$BEE_NAME\"'}, {mail: ann@example.org, smtp: {server: 'mail.example.org:587', user: ann, password: {file: k}, from: b@example.org}}]\n",
	"image: x\nprogress: {match: 'step (\\d+) of (\\d+)'}\nmetrics: {energy: 'E = (\\S+)'}\n",
	"image: x\nworkdir: /work/run\nprogress: {file: progress}\n",
	"image: x\nprogress: gromacs\n",
	"image: x\nprogress: {program: lammps, total: 2500.5}\n",
	"image: x\nafter: [prep, {run: mesh, on: failure}]\n",
	"image: x\narray: {cases: {s: [a, b]}, pack: 2}\nrun: echo hello\n",
	"image: x\narray: {cases: {s: [a, b]}, exclude: [{s: b}], at_once: 2, on_failure: {at: 5%}}\nrun: echo hello\n",
	"image: x\ntime: 30m\ncores: 8\nmemory: 16G\nrestarts: true\n",
	"build: ./src\n",
	"build: {context: ., dockerfile: D, args: {A: b}, builder: podman}\n",
	"build: {debian: bookworm, packages: [a], slim: true, snapshot: 20250520T000000Z, mirror: 'https://x/y', copy: [{from: a, to: /a}], run: ['a\n  b'], env: {A: x}, workdir: /w, entrypoint: [e], cmd: c}\n",
}

// TestBeefileOfAJob: what is printed of a job describes the same job, from any directory.
func TestBeefileOfAJob(t *testing.T) {
	for _, text := range described {
		job, err := ParseJob("job.yaml", []byte(text), "/some/dir")
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		printed, err := job.Beefile()
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		if printed[0] == '{' {
			t.Errorf("it is JSON, where YAML can be written: %s", printed)
		}
		again, err := ParseJob("Beefile", printed, "/other")
		if err != nil {
			t.Errorf("%v\n%s", err, printed)
			continue
		}
		again.Dir, job.Image = job.Dir, ImageFrom(job.Dir, job.Image)
		if job.VM != nil {
			job.VM.Image = ImageFrom(job.Dir, job.VM.Image)
		}
		if a, b := asJSON(t, job), asJSON(t, again); a != b {
			t.Errorf("%s\nbecame\n%s\n%s\n%s", text, printed, a, b)
		}
	}
}

// TestEveryKeyIsPrinted holds the Beefiles of this test against the list of all keys.
func TestEveryKeyIsPrinted(t *testing.T) {
	tables, err := KeyTables()
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(described, "")
	for _, table := range tables {
		for _, k := range table.Keys {
			if table.File == "beefile" && !strings.Contains(all, k.Key+":") {
				t.Errorf("no Beefile here has %s: add it to a text in described", join(table.At, k.Key))
			}
		}
	}
}

func asJSON(t *testing.T, job *Job) string {
	t.Helper()
	raw, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// FuzzBeefileOfAJob: no text that a command or a variable may be is changed.
func FuzzBeefileOfAJob(f *testing.F) {
	for _, s := range []string{"x", " a\n\n", "- b", "a: b #c", "\t\n|", "'", "\"\\", "!x &y *z", "0x1f", "2020-01-01", "\u2028\u0085", "a\r\nb", "---\n...\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		in := &Job{Name: "n", Image: "x", Nodes: 1, Dir: "/d", Volume: Volume{Path: "/work"}, Env: map[string]string{"A": s}, Run: &Command{Argv: []string{"p", s}}}
		r := newReport("f", nil)
		if size := 0; len(s) > 1000 || strings.TrimSpace(s) == "" {
			return
		} else if r.recorded("", reflect.ValueOf(in).Elem(), &size); len(r.problems) > 0 {
			return
		}
		text, err := in.Beefile()
		if err != nil {
			t.Fatal(err)
		}
		out, err := ParseJob("n", text, "/d")
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if a, b := asJSON(t, in), asJSON(t, out); a != b {
			t.Errorf("%s\n%s\n%s", a, b, text)
		}
	})
}

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{90 * time.Second: "1m30s", time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Minute: "10m", 30 * time.Second: "30s", time.Hour + time.Second: "1h0m1s"} {
		if got := ShortDuration(d.String()); got != want {
			t.Errorf("%d: %s, expected %s", d, got, want)
		}
	}
}

func TestLabels(t *testing.T) {
	for text, good := range map[string]bool{
		"{a: b}": true, "{a.b/c-d: \"\"}": true, "{\"\": x}": false, "{-a: b}": false, "{a b: c}": false, "{a: \"b\\nc\"}": false, "{a: \"\\e[0m\"}": false,
		"{a: " + strings.Repeat("x", 256) + "}": false, "{" + strings.Repeat("a", 64) + ": x}": false,
	} {
		if _, err := ParseJob("f", []byte("image: x\nlabels: "+text+"\n"), "/d"); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}
