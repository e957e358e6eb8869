package hostile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// mountJob is a job whose mount is changed by a command once its site was found to have it,
// and before its node opens it: then the secrets are read.
func mountJob(t *testing.T, swap string, lines ...string) (try func() (code int, stdout string, attempts int), data string) {
	t.Helper()
	data = filepath.Join(t.TempDir(), "data")
	if err := errors.Join(os.Mkdir(data, 0o755), os.WriteFile(filepath.Join(data, "text"), []byte("ours\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	lines = append(lines, "mounts: [{from: "+data+", to: /data, write: true}]")
	if swap != "" {
		lines = append(lines, "secrets: {X: {exec: 'cd "+filepath.Dir(data)+"; rm -rf data; "+swap+"; echo x'}}")
	}
	b, job := busyboxJob(t, lines...)
	return func() (int, string, int) {
		r := b.Try("run", "-q", job)
		var shown struct{ Attempts []struct{ Site string } }
		b.JSON(&shown, "show", "--json", "small")
		return r.Code, r.Stdout, len(shown.Attempts)
	}, data
}

// TestAMountThatIsReplacedBeforeItIsBound: what is no directory any more is not mounted, and
// no job runs without it.
func TestAMountThatIsReplacedBeforeItIsBound(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]string{
		"gone": "true", "a file": "echo x > data", "a FIFO": "mkfifo data", "a link to a file": "echo x > file; ln -s file data",
		"a link to nothing": "ln -s nowhere data", "a link to itself": "ln -s data data",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try, _ := mountJob(t, swap, "run: echo it runs")
			if code, stdout, attempts := try(); code == 0 || stdout != "" || attempts != 1 {
				t.Errorf("code %d after %d attempts: %q", code, attempts, stdout)
			}
		})
	}
	t.Run("a directory", func(t *testing.T) { // which is the one that the node opens
		t.Parallel()
		try, data := mountJob(t, "mkdir data; echo theirs > data/text", "run: cat /data/text; echo new > /data/new")
		if code, stdout, attempts := try(); code != 0 || stdout != "theirs\n" || attempts != 1 {
			t.Errorf("code %d after %d attempts: %q", code, attempts, stdout)
		}
		if raw, err := os.ReadFile(filepath.Join(data, "new")); err != nil || string(raw) != "new\n" {
			t.Errorf("it has %q, %v", raw, err)
		}
	})
}

// TestLinksOfAMount lead nowhere outside of the container, even where the job may write.
func TestLinksOfAMount(t *testing.T) {
	t.Parallel()
	out, untouched := treasure(t)
	try, data := mountJob(t, "", "run: |",
		"  cd /data; ln -s "+out+" made; ln -s ../../../../../../../../../.."+out+" climb",
		"  for l in made climb there far; do cat $l/precious; echo evil > $l/precious; rm $l/precious; touch $l/new; done 2>/dev/null",
		"  cat text")
	for name, to := range map[string]string{"there": out, "far": "../../../../../../../../../../.." + out} {
		if err := os.Symlink(to, filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
	}
	if code, stdout, _ := try(); code != 0 || stdout != "ours\n" {
		t.Errorf("code %d: %q", code, stdout)
	}
	untouched()
}
