package hostile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// change rewrites a file of JSON.
func change(t *testing.T, path string, how func(object)) {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(readFile(t, path)), &o); err != nil {
		t.Fatal(err)
	}
	how(o)
	raw, err := json.Marshal(o)
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// job is that in a record of a store.
func job(record object) object {
	return record["run"].(object)["Submission"].(object)["job"].(object)
}

// abandoned is a store with a run whose machine is gone, and another user's bee.
func abandoned(t *testing.T) (other *testkit.Bee, store, own, id string) {
	t.Helper()
	store = filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	_, id = keeping(t, "store: "+store)
	found, err := filepath.Glob(filepath.Join(store, "*@"+id))
	if err != nil || len(found) != 1 {
		t.Fatalf("in the store: %v, %v", found, err)
	}
	other = testkit.NewBee(t)
	other.Env = append(other.Env, "BEE_SITES="+other.File("sites.yaml", "sites:\n  - {name: laptop, provider: local}\n"))
	return other, store, found[0], id
}

// everything lists what is below a directory.
func everything(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if strings.HasPrefix(path, filepath.Join(dir, "state")) || strings.HasPrefix(path, filepath.Join(dir, "cache")) {
			return nil // bee's own
		}
		b.WriteString(path + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRecordOfAStoreRunsReadsAndWritesNothing(t *testing.T) {
	other, store, own, id := abandoned(t)
	record := filepath.Join(own, "run.json")
	plain := readFile(t, record)
	ran := filepath.Join(other.Dir, "ran")
	for name, c := range map[string]struct {
		harm   func(object)
		trust  bool   // with the user's yes it goes
		record string // of another run, in its place
	}{
		"a command":  {harm: func(r object) { job(r)["Secrets"] = object{"A": object{"Exec": "touch " + ran}} }, trust: true},
		"a file":     {harm: func(r object) { job(r)["Secrets"] = object{"A": object{"File": "/etc/hostname"}} }, trust: true},
		"a variable": {harm: func(r object) { job(r)["Secrets"] = object{"A": object{"Env": "HOME"}} }, trust: true},
		"an input":   {harm: func(r object) { job(r)["Inputs"] = []object{{"From": filepath.Join(other.Dir, ".ssh"), "To": "/in"}} }, trust: true},
		"an output": {harm: func(r object) {
			job(r)["Outputs"] = []object{{"From": "/work/state", "To": filepath.Join(other.Dir, ".ssh")}}
		}, trust: true},
		"an id":                {harm: func(r object) { r["run"].(object)["ID"] = "../../Documents" }},
		"another's id":         {harm: func(r object) { r["run"].(object)["ID"] = "abcdefgh" }},
		"attempts":             {harm: func(r object) { r["attempts"].([]any)[0].(object)["N"] = -1 }},
		"a job that cannot be": {harm: func(r object) { job(r)["Nodes"] = 1 << 40 }},
		"a runtime":            {harm: func(r object) { job(r)["Runtime"] = "--privileged" }},
		"machines":             {harm: func(r object) { r["run"].(object)["Submission"].(object)["machines"] = "../x" }},
		"a version":            {harm: func(r object) { r["version"] = 99 }},
		"no JSON":              {record: "{"},
		"deep":                 {record: strings.Repeat("[", 1<<20)},
		"large":                {record: plain + strings.Repeat(" ", 32<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			text := plain
			if c.record != "" {
				text = c.record
			}
			if err := os.WriteFile(record, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.harm != nil {
				change(t, record, c.harm)
			}
			before := everything(t, other.Dir)
			r := other.Try("resume", "--from", store, id)
			if r.Code == 0 {
				t.Errorf("it was taken over: %+v", r)
			}
			if c.trust && !strings.Contains(r.Stderr, "--trust") {
				t.Errorf("nothing says how to agree: %s", r.Stderr)
			}
			if after := everything(t, other.Dir); after != before {
				t.Errorf("there was\n%s\nand is\n%s", before, after)
			}
			var runs []object
			if other.JSON(&runs, "ps", "-a", "--json"); len(runs) != 0 {
				t.Errorf("it is on record: %v", runs)
			}
		})
	}
}

// TestTakingOverRemovesOnlyWhatItMade: where the store refuses the record that follows.
func TestTakingOverRemovesOnlyWhatItMade(t *testing.T) {
	other, store, own, id := abandoned(t)
	dir := filepath.Join(other.Dir, "state", "runs", id)
	mine := filepath.Join(dir, "mine")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(mine, []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if r := other.Try("resume", "--trust", "--from", store, id); r.Code == 0 || readFile(t, mine) != "mine" {
		t.Errorf("%+v", r)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	refuse(t, own)
	if r := other.Try("resume", "--trust", "--from", store, id); r.Code == 0 {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what it made is there: %v", err)
	}
	if r := other.Try("show", id); r.Code == 0 {
		t.Error("it is on record")
	}
}

// refuse makes a store refuse records, also of root.
func refuse(t *testing.T, own string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if err := os.Chmod(own, 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(own, 0o700) }) //nolint:errcheck // the directory is removed next
		return
	}
	// A link to where nothing can be made is read, and not written.
	record := filepath.Join(own, "run.json")
	if err := os.Rename(record, record+".kept"); err != nil {
		t.Fatal(err)
	}
	t.Skip("root may write everywhere; covered by the run as an ordinary user")
}

// forge makes another tree of a checkpoint, with a manifest that fits it.
func forge(t *testing.T, own, generation string, attempt int) {
	t.Helper()
	dir := filepath.Join(own, generation)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(own, "1"))); err != nil {
			t.Fatal(err)
		}
	}
	const evil = "forged\n"
	if err := os.WriteFile(filepath.Join(dir, "volume", "state"), []byte(evil), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(evil))
	change(t, filepath.Join(dir, "manifest.json"), func(m object) {
		m["attempt"], m["bytes"] = attempt, len(evil)
		m["files"].(object)["state"] = hex.EncodeToString(sum[:])
	})
}

// TestAChangedCheckpointIsNotUsed: its manifest fits what is there, and is another one than
// that which was kept.
func TestAChangedCheckpointIsNotUsed(t *testing.T) {
	for name, c := range map[string]struct {
		generation string
		attempt    int
	}{"one that was kept": {"1", 1}, "a newer one": {"99", 99}} {
		t.Run(name, func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "store")
			if err := os.Mkdir(store, 0o700); err != nil {
				t.Fatal(err)
			}
			b, id := keeping(t, "store: "+store, "resume: 'cat state; exit 85'")
			own, err := filepath.Glob(filepath.Join(store, "*@"+id))
			if err != nil || len(own) != 1 {
				t.Fatalf("%v, %v", own, err)
			}
			generations, err := filepath.Glob(filepath.Join(own[0], "[0-9]*"))
			if err != nil || len(generations) == 0 {
				t.Fatalf("%v, %v", generations, err)
			}
			if c.generation == "99" {
				forgeFrom(t, own[0], filepath.Base(generations[0]), c.generation, c.attempt)
			} else {
				for _, g := range generations {
					forgeFrom(t, own[0], filepath.Base(g), filepath.Base(g), 0)
				}
			}
			b.Must("resume", id)
			v := b.Await(id, 60e9)
			if out := b.Must("logs", id); strings.Contains(out, "forged") {
				t.Errorf("the job went on from it: %s\n%+v", out, v)
			}
			if testkit.Events(b, id, "checkpoint_changed") == 0 {
				t.Errorf("nothing is said of it: %s", b.Must("show", id))
			}
			b.Must("rm", "-f", id)
		})
	}
}

// forgeFrom is forge of a copy of a generation; an attempt of 0 is left as it is.
func forgeFrom(t *testing.T, own, from, generation string, attempt int) {
	t.Helper()
	dir := filepath.Join(own, generation)
	if from != generation {
		if err := os.CopyFS(dir, os.DirFS(filepath.Join(own, from))); err != nil {
			t.Fatal(err)
		}
	}
	if attempt == 0 {
		var m struct{ Attempt int }
		if err := json.Unmarshal([]byte(readFile(t, filepath.Join(dir, "manifest.json"))), &m); err != nil {
			t.Fatal(err)
		}
		attempt = m.Attempt
	}
	forge(t, own, generation, attempt)
}
