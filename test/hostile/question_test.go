package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// shown collects what a terminal shows.
type shown struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// asked runs bee on a terminal that script(1) makes, types keys once a question is there,
// and returns bee's exit code.
func asked(t *testing.T, b *testkit.Bee, keys string, args ...string) (int, string) {
	t.Helper()
	c := b.Command(args...)
	words := make([]string, len(c.Args))
	for i, w := range c.Args {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	script := exec.Command(testkit.RequireTool(t, "script"), "-q", "-e", "-c", "exec "+strings.Join(words, " "), "/dev/null")
	screen := &shown{}
	script.Env, script.Dir, script.Stdout = append(c.Env, "TERM=vt100"), c.Dir, screen
	keyboard, err := script.StdinPipe()
	if err == nil {
		err = script.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { script.Process.Kill() })
	testkit.Eventually(t, 30*time.Second, func() error {
		if !strings.Contains(screen.String(), "[y/N]") {
			return fmt.Errorf("nothing is asked: %s", screen)
		}
		return nil
	})
	if _, err := io.WriteString(keyboard, keys); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); script.Wait() }() //nolint:errcheck // its state is looked at
	select {
	case <-ended:
	case <-time.After(60 * time.Second):
		t.Fatalf("it did not end: %s", screen)
	}
	return script.ProcessState.ExitCode(), screen.String()
}

// TestTheQuestionOnATerminal: of what leaves the directory only a yes makes anything.
func TestTheQuestionOnATerminal(t *testing.T) {
	const ctrlC, ctrlD = "\x03", "\x04"
	t.Run("a Beefile", func(t *testing.T) {
		ran := filepath.Join(t.TempDir(), "ran")
		b, job := busyboxJob(t, "secrets: {A: {exec: 'echo x >>"+ran+"; echo x'}}", "run: 'echo it runs'")
		if err := os.Chmod(job, 0o666); err != nil {
			t.Fatal(err)
		}
		for name, keys := range map[string]string{"no": "n\n", "nothing": "\n", "another word": "yesterday\n", "Ctrl-C": ctrlC, "the end": ctrlD} {
			code, screen := asked(t, b, keys, "run", "-q", job)
			if _, err := os.Stat(ran); code == 0 || !errors.Is(err, os.ErrNotExist) || strings.Contains(screen, "it runs") {
				t.Errorf("%s: %d, %v, %s", name, code, err, screen)
			}
			noRuns(t, b)
		}
		if r := b.Try("run", "-q", job); r.Code == 0 || !strings.Contains(r.Stderr, "--trust") || strings.Contains(r.Stderr, "[y/N]") {
			t.Errorf("without a terminal: %+v", r)
		}
		noRuns(t, b)
		for _, keys := range []string{"y\n", "Yes\n"} {
			if code, screen := asked(t, b, keys, "run", "-q", job); code != 0 || !strings.Contains(screen, "it runs") {
				t.Errorf("%q: %d, %s", keys, code, screen)
			}
		}
		if r := b.Try("run", "-q", "--trust", job); r.Code != 0 || !strings.Contains(r.Stdout, "it runs") {
			t.Errorf("with --trust: %+v", r)
		}
		if text := readFile(t, ran); text == "" {
			t.Error("its command did not run")
		}
	})
	t.Run("an export", func(t *testing.T) {
		b, _ := importer(t)
		dir := filepath.Join(t.TempDir(), "saved")
		exportOf(t, dir, nil, nil, nil)
		for name, keys := range map[string]string{"no": "n\n", "Ctrl-C": ctrlC, "the end": ctrlD} {
			if code, screen := asked(t, b, keys, "vm", "restore", dir); code == 0 {
				t.Errorf("%s: %s", name, screen)
			}
			noRuns(t, b)
		}
	})
}
