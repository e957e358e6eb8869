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
	for from, refused := range map[string]bool{
		"ok": false, "ok/*": false, "top": false, "loop": true, "proc": true, "/proc/self/status": true, "/proc/self/fdinfo": true,
		"shut": os.Geteuid() != 0, "linked": false, "cut": false, "linked/*": false, "/proc/self/mounts": true,
	} {
		d := parseDraft("job.yaml", []byte("image: a\nrun: [x]\ninputs: [{from: \""+from+"\", to: /in/}]\n"), dir)
		d.CheckHere()
		_, err := d.Finish()
		if (err != nil && strings.Contains(err.Error(), "inputs[0].from")) != refused || !refused && err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
}
