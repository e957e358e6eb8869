package hostile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/store"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
	"github.com/bee-hpc/bee/internal/testkit"
)

// exportOf makes what anybody could write in place of the export of a run: a record, and
// one checkpoint of machines whose manifest fits.
func exportOf(t *testing.T, dir string, job object, submission, record object) {
	t.Helper()
	whole := object{
		"Name": "machines", "Image": "localhost:1/debian:12", "Nodes": 1, "Run": object{"Shell": "true"}, "VM": object{"Memory": 1 << 30},
		"Volume": object{"Path": "/work"}, "Checkpoint": object{"Mode": "vm"},
	}
	sub := object{"version": 1, "job": whole, "sites": []any{object{"Name": "laptop"}}}
	export := object{"run": "abcdefgh", "submission": sub}
	for into, from := range map[*object]object{&whole: job, &sub: submission, &export: record} {
		for key, value := range from {
			(*into)[key] = value
		}
	}
	raw, err := json.Marshal(export)
	if err == nil {
		err = errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "run.json"), raw, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	machines(t, dir, nil)
}

// machines makes the one checkpoint of an export; harm changes the files first.
func machines(t *testing.T, dir string, harm func(volume string)) {
	t.Helper()
	volume := filepath.Join(t.TempDir(), "volume")
	for name, text := range map[string]string{
		"machines.json":      `{"run": "abcdefgh", "nodes": 1, "image": {"ID": "sha256:00"}, "guest": {"ID": "sha256:00"}}`,
		"node0/machine.json": `{"version": 3, "accel": "tcg", "disks": [{"serial": "bee-disk"}]}`,
		"node0/memory.zst":   "memory", "node0/bee-disk.zst": "disk",
	} {
		path := filepath.Join(volume, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if harm != nil {
		harm(volume)
	}
	g := driver.Generation{Attempt: 1, Snapshot: 1}
	if _, _, err := dirstore.Checkpoints(dir).Keep(t.Context(), g, "laptop", store.Tree(volume)); err != nil {
		t.Fatal(err)
	}
}

// importer is a bee whose user has one site, on which no machine can be brought up, and a
// secret.
func importer(t *testing.T) (b *testkit.Bee, secret string) {
	t.Helper()
	b = testkit.NewBee(t)
	b.Env = append(b.Env, "BEE_SITES="+b.File("sites.yaml", "sites:\n  - {name: laptop, provider: local}\n"), "PATH=/nowhere")
	return b, b.File("../.ssh/id", "a key\n")
}

// refusedExport restores an export, which has to be refused, soon, with nothing done.
func refusedExport(t *testing.T, b *testkit.Bee, dir string, args ...string) (stderr string) {
	t.Helper()
	before := everything(t, b.Dir)
	begun := time.Now()
	r := b.Try(append([]string{"vm", "restore", dir}, args...)...)
	if r.Code == 0 || strings.Contains(r.Stderr, "panic") || !strings.Contains(r.Stderr, "bee: ") {
		t.Errorf("%+v", r)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	if after := everything(t, b.Dir); after != before {
		t.Errorf("there was\n%s\nand is\n%s", before, after)
	}
	return r.Stderr
}

// noRuns looks that a bee has none on record.
func noRuns(t *testing.T, b *testkit.Bee) {
	t.Helper()
	var runs []object
	if b.JSON(&runs, "ps", "-a", "--json"); len(runs) != 0 {
		t.Errorf("there are on record: %v", runs)
	}
}

// TestForgedExportsRunReadAndWriteNothing: what leaves the current directory needs a yes,
// and what cannot be is refused in spite of one.
func TestForgedExportsRunReadAndWriteNothing(t *testing.T) {
	b, secret := importer(t)
	ran := filepath.Join(b.Dir, "ran")
	for name, c := range map[string]struct {
		job, submission, record object
		asks                    bool // with the user's yes it goes
	}{
		"machines of somebody else": {asks: true},
		"a command":                 {job: object{"Secrets": object{"A": object{"Exec": "/bin/sh -c 'echo >" + ran + "'"}}}, asks: true},
		"a file":                    {job: object{"Secrets": object{"A": object{"File": secret}}}, asks: true},
		"an input":                  {job: object{"Inputs": []object{{"From": filepath.Dir(secret), "To": "/in"}}}, asks: true},
		"an output":                 {job: object{"Outputs": []object{{"From": "/work/x", "To": filepath.Dir(secret)}}}, asks: true},
		"a disk":                    {job: object{"VM": object{"Memory": 1 << 30, "Disks": []object{{"From": secret, "To": "/scratch"}}}}, asks: true},
		"an id":                     {record: object{"run": "../../x"}},
		"an absolute id":            {record: object{"run": filepath.Dir(secret)}},
		"no id":                     {record: object{"run": ""}},
		"runs made of it":           {record: object{"restored": []string{"../../x"}}},
		"many runs made of it":      {record: object{"restored": make([]string, 200000)}},
		"machines of no run":        {submission: object{"machines": "../x"}},
		"a version":                 {submission: object{"version": 99}},
		"no job":                    {submission: object{"job": nil}},
		"a job without machines":    {job: object{"VM": nil}},
		"a job that saves itself":   {job: object{"Checkpoint": object{"Mode": "app"}}},
		"no checkpoint":             {job: object{"Checkpoint": nil}},
		"many nodes":                {job: object{"Nodes": 1 << 40}},
		"fewer than no nodes":       {job: object{"Nodes": -1}},
		"no nodes":                  {job: object{"Nodes": 0}},
		"many machines":             {job: object{"VM": object{"PerHost": 1 << 40}}},
		"a runtime":                 {job: object{"Runtime": "--privileged"}},
		"a site of its own":         {submission: object{"sites": []any{object{"Name": "evil", "Provider": "ssh", "Hosts": []string{"evil.example"}}}}},
		"a site of no name":         {submission: object{"sites": []any{object{"Name": "../\x1b[2J"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "saved")
			exportOf(t, dir, c.job, c.submission, c.record)
			text := refusedExport(t, b, dir)
			if asked := strings.Contains(text, "--trust"); asked != c.asks {
				t.Errorf("asked is %v, want %v: %s", asked, c.asks, text)
			}
			if !c.asks {
				refusedExport(t, b, dir, "--trust")
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("its command ran")
			}
		})
	}
	noRuns(t, b)
}

// TestLinksInForgedExports: what bee itself writes and reads in the directory is no link,
// and nothing hangs.
func TestLinksInForgedExports(t *testing.T) {
	b, secret := importer(t)
	link := func(to, at string) error { return errors.Join(os.RemoveAll(at), os.Symlink(to, at)) }
	fifo := func(at string) error { return errors.Join(os.RemoveAll(at), syscall.Mkfifo(at, 0o600)) }
	for name, harm := range map[string]func(dir string) error{
		"the record is a link":        func(d string) error { return link(secret, filepath.Join(d, "run.json")) },
		"the record is a FIFO":        func(d string) error { return fifo(filepath.Join(d, "run.json")) },
		"the lock is a link":          func(d string) error { return link(secret, filepath.Join(d, "lock")) },
		"the lock is a dangling link": func(d string) error { return link(filepath.Join(b.Dir, "made"), filepath.Join(d, "lock")) },
		"the lock is a FIFO":          func(d string) error { return fifo(filepath.Join(d, "lock")) },
		"the manifest is a link":      func(d string) error { return link(secret, filepath.Join(d, "1.1", "manifest.json")) },
		"the manifest is a FIFO":      func(d string) error { return fifo(filepath.Join(d, "1.1", "manifest.json")) },
		"the manifest is a directory": func(d string) error {
			p := filepath.Join(d, "1.1", "manifest.json")
			return errors.Join(os.Remove(p), os.Mkdir(p, 0o700))
		},
		"the machines are a link": func(d string) error { return link(filepath.Dir(secret), filepath.Join(d, "1.1", "volume")) },
		"the machines are a FIFO": func(d string) error { return fifo(filepath.Join(d, "1.1", "volume")) },
		"a disk became a link":    func(d string) error { return link(secret, filepath.Join(d, "1.1", "volume", "node0", "bee-disk.zst")) },
		"a disk became a FIFO":    func(d string) error { return fifo(filepath.Join(d, "1.1", "volume", "node0", "bee-disk.zst")) },
		"a part became a link":    func(d string) error { return link(filepath.Dir(secret), filepath.Join(d, "1.1", "volume", "node0")) },
		"a checkpoint is a link":  func(d string) error { return moved(filepath.Join(d, "1.1"), filepath.Join(t.TempDir(), "moved")) },
		"the machines are a link to them": func(d string) error {
			return moved(filepath.Join(d, "1.1", "volume"), filepath.Join(t.TempDir(), "moved"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "saved")
			exportOf(t, dir, nil, nil, nil)
			if err := harm(dir); err != nil {
				t.Fatal(err)
			}
			if text := refusedExport(t, b, dir, "--trust"); strings.Contains(text, "a key") {
				t.Errorf("it is printed: %s", text)
			}
			if text := readFile(t, secret); text != "a key\n" {
				t.Errorf("the secret is now %q", text)
			}
		})
	}
	noRuns(t, b)
}

// TestForgedDisksOfAnExport: names of disks become names of files where a machine is
// restored. Those that no saved machine has are refused before anything is done, in spite
// of a yes, and so is an export that nothing describes.
func TestForgedDisksOfAnExport(t *testing.T) {
	restore := func(t *testing.T, harm func(volume string) error, runs bool) int {
		t.Helper()
		b, secret := importer(t)
		if harm == nil {
			harm = func(string) error { return nil }
		}
		dir := filepath.Join(t.TempDir(), "saved")
		exportOf(t, dir, nil, nil, nil)
		if err := os.RemoveAll(filepath.Join(dir, "1.1")); err != nil {
			t.Fatal(err)
		}
		machines(t, dir, func(volume string) {
			if err := harm(volume); err != nil {
				t.Fatal(err)
			}
		})
		r := b.Try("vm", "restore", dir, "--trust")
		if strings.Contains(r.Stderr, "panic") || readFile(t, secret) != "a key\n" {
			t.Errorf("%+v", r)
		}
		if !runs {
			noRuns(t, b)
		}
		return r.Code
	}
	const invalid = 201
	const secret = "/etc/passwd"
	good := restore(t, nil, true)
	if good == invalid || good == 0 {
		t.Fatalf("with disks that can be it ends with %d", good)
	}
	disks := func(text string) func(string) error {
		return func(volume string) error {
			return os.WriteFile(filepath.Join(volume, "node0", "machine.json"), []byte(`{"version": 3, "accel": "tcg", "disks": [`+text+`]}`), 0o600)
		}
	}
	for name, harm := range map[string]func(string) error{
		"up":               disks(`{"serial": "../x"}`),
		"far up":           disks(`{"serial": "../../../../.ssh/authorized_keys"}`),
		"an absolute path": disks(`{"serial": "` + secret + `"}`),
		"an option":        disks(`{"serial": "bee-a,file=` + secret + `"}`),
		"no name":          disks(`{}`),
		"one of its own":   disks(`{"serial": "initrd"}`),
		"twice":            disks(`{"serial": "bee-disk0"}, {"serial": "bee-disk0"}`),
		"many":             disks(strings.Repeat(`{"serial": "bee-disk"}, `, 200000) + `{"serial": "bee-data"}`),
		"no JSON":          disks(`[`),
		"a link": func(volume string) error {
			at := filepath.Join(volume, "node0", "machine.json")
			return errors.Join(os.Remove(at), os.Symlink(secret, at))
		},
		"another node's": func(volume string) error {
			return errors.Join(
				os.WriteFile(filepath.Join(volume, "machines.json"), []byte(`{"run": "abcdefgh", "nodes": 2}`), 0o600), os.Mkdir(filepath.Join(volume, "node1"), 0o700),
				os.WriteFile(filepath.Join(volume, "node1", "machine.json"), []byte(`{"disks": [{"serial": "/etc/passwd"}]}`), 0o600))
		},
		"machines without end": func(volume string) error {
			return os.WriteFile(filepath.Join(volume, "machines.json"), []byte(`{"run": "abcdefgh", "nodes": 9000000000000}`), 0o600)
		},
		"machines of nobody": func(volume string) error { return os.Remove(filepath.Join(volume, "machines.json")) },
	} {
		t.Run(name, func(t *testing.T) {
			if code := restore(t, harm, false); code != invalid {
				t.Errorf("it ends with %d, want %d", code, invalid)
			}
		})
	}
}

// moved puts a link in the place of what it moves away.
func moved(from, to string) error { return errors.Join(os.Rename(from, to), os.Symlink(to, from)) }
