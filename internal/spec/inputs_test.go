package spec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestInputsThatCannotBeSent are reported before a run.
func TestInputsThatCannotBeSent(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"ok/f": "x", "ok/empty": "", "shut/in/f": "x", "linked/f": "x", "linked/.h": "x", "cut/f": "x"} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"linked/in": "f", "linked/up": "../linked/f", "cut/out": "../ok/f", "cut/abs": dir + "/cut/f", "cut/gone": "nowhere", "loop": "loop", "proc": "/proc/self/status", "top": "ok"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "ok", "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "shut/in"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "shut/in"), 0o700) }) //nolint:errcheck // it is only to be removed
	for from, c := range map[string]struct {
		refused  bool
		warnings int
	}{
		"ok": {false, 0}, "ok/*": {false, 0}, "top": {false, 0}, "loop": {true, 0}, "proc": {true, 0}, "/proc/self/status": {true, 0}, "/proc/self/fdinfo": {true, 0},
		"shut": {os.Geteuid() != 0, 0}, "linked": {false, 1}, "cut": {false, 1}, "linked/*": {false, 0}, "/proc/self/mounts": {true, 0},
	} {
		d := parseDraft("job.yaml", []byte("image: a\nrun: [x]\ninputs: [{from: \""+from+"\", to: /in/}]\n"), dir)
		d.CheckHere()
		job, err := d.Finish()
		if (err != nil && strings.Contains(err.Error(), "inputs[0].from")) != c.refused || !c.refused && err != nil {
			t.Errorf("%s: %v", from, err)
		}
		if err == nil && len(job.InputWarnings()) != c.warnings {
			t.Errorf("%s: warnings %q", from, job.InputWarnings())
		}
	}
}
