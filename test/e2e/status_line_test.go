package e2e

import (
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/creack/pty"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestStatusLine runs a job on terminals of several widths.
func TestStatusLine(t *testing.T) {
	bee := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	job := bee.File("job.yaml", "image: docker-archive:"+image+"\nrun: echo the job\n")
	on := func(columns uint16, variables ...string) string {
		c := bee.Command("run", "-n", "1", job)
		c.Env = append(c.Env, variables...)
		return shownOn(t, c, columns)
	}
	escapes := regexp.MustCompile(`\x1b\[[0-9]*[A-Za-z]`)
	for _, columns := range []uint16{40, 80, 200} {
		text := on(columns, "TERM=xterm", "LANG=C.UTF-8")
		if !strings.Contains(text, "the job") || !strings.Contains(text, "\x1b[K") {
			t.Errorf("%d columns: %q", columns, text)
		}
		for _, part := range regexp.MustCompile(`[\r\n]`).Split(text, -1) {
			line := escapes.ReplaceAllString(part, "")
			if strings.HasSuffix(line, "…") && len([]rune(line)) >= int(columns) {
				t.Errorf("a status line has %d of %d columns: %q", len([]rune(line)), columns, line)
			}
		}
	}
	if text := on(80, "TERM=dumb"); escapes.MatchString(text) || !strings.Contains(text, "the job") {
		t.Errorf("a dumb terminal gets %q", text)
	}
	if text := on(80, "TERM=xterm", "LC_ALL=C"); strings.Contains(text, "…") || !strings.Contains(text, "...") {
		t.Errorf("in the C locale: %q", text)
	}
}

// shownOn runs a command on a terminal of its own, and returns what that shows.
func shownOn(t *testing.T, c *exec.Cmd, columns uint16) string {
	t.Helper()
	c.Stdin, c.Stdout, c.Stderr = nil, nil, nil
	f, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, _ := io.ReadAll(f) // it ends with EIO
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %q", err, text)
	}
	return string(text)
}
