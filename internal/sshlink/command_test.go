package sshlink

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// The account on a host says who may read what jobs write there; the copy of
// bee is for nobody else.
func TestBootKeepsTheUmaskOfTheAccount(t *testing.T) {
	const text = "#!/bin/sh\numask\n"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	cache := filepath.Join(t.TempDir(), "cache")
	c := exec.Command("/bin/sh", "-c", "umask 027; "+bootScript(map[string]binary{runtime.GOARCH: {sum, int64(len(text))}}, false))
	c.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
	c.Stdin = sending(t, text, true)
	out, err := c.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "\n0027\n") {
		t.Errorf("%v: %s", err, out)
	}
	for _, path := range []string{cache, filepath.Join(cache, "bee/bin/bee-"+sum)} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

// TestTheBinaryComesCompressedWhereTheHostHasGzip, and else as it is.
func TestTheBinaryComesCompressedWhereTheHostHasGzip(t *testing.T) {
	text := "#!/bin/sh\n: " + strings.Repeat("x", 100_000) + "\necho started\n"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	for _, has := range []bool{true, false} {
		tools := t.TempDir()
		for _, name := range []string{"uname", "wc", "mkdir", "head", "cat", "rm", "chmod", "mv", "find", "sha256sum", "sh", "gzip", "id", "ls", "printf"} {
			found, err := exec.LookPath(name)
			if err == nil && (name != "gzip" || has) {
				err = os.Symlink(found, filepath.Join(tools, name))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		word := "BEE need " + runtime.GOARCH + " "
		if has {
			word += gzipped
		}
		sent := sending(t, text, has)
		if size := sent.Len(); has && size > 10_000 || !has && size < len(text) {
			t.Errorf("%d bytes of %d were sent, with gzip %v", size, len(text), has)
		}
		c := exec.Command("/bin/sh", "-c", bootScript(map[string]binary{runtime.GOARCH: {sum, int64(len(text))}}, false))
		c.Env = []string{"PATH=" + tools, "XDG_CACHE_HOME=" + t.TempDir()}
		c.Stdin = sent
		if out, err := c.CombinedOutput(); err != nil || string(out) != "\n"+word+"\nBEE have "+runtime.GOARCH+"\nstarted\n" {
			t.Errorf("with gzip %v: %v: %s", has, err, out)
		}
	}
}

// sending is what goes to a host that wants a binary.
func sending(t *testing.T, text string, packed bool) *bytes.Buffer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bee")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var sent bytes.Buffer
	if err := (&Client{}).sendBinary(&sent, "h", path, packed); err != nil {
		t.Fatal(err)
	}
	return &sent
}

// TestAnyLoginShellStartsTheAgent: the account's shell reads the command line.
func TestAnyLoginShellStartsTheAgent(t *testing.T) {
	text := "#!/bin/sh\necho started\n"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	for _, name := range []string{"sh", "bash", "zsh", "csh", "bsd-csh", "tcsh", "fish"} {
		t.Run(name, func(t *testing.T) {
			login := testkit.RequireTool(t, name)
			home := t.TempDir()
			for _, first := range []bool{true, false} {
				c := exec.Command(login, "-c", bootScript(map[string]binary{runtime.GOARCH: {sum, int64(len(text))}}, true))
				c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
				c.Stdin = sending(t, text, true)
				if out, err := c.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "BEE have "+runtime.GOARCH+"\nstarted\n") {
					t.Errorf("first %v: %v: %s", first, err, out)
				}
			}
		})
	}
}

// TestTheBinaryIsNotStartedWhereOthersCanReplaceIt, in whichever directory on the way.
func TestTheBinaryIsNotStartedWhereOthersCanReplaceIt(t *testing.T) {
	testkit.AsRootToo(t)
	text := "#!/bin/sh\necho started\n"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	for _, c := range []struct {
		name   string
		spoil  func(dir string) error
		starts bool
	}{
		{"nobody can", func(string) error { return nil }, true},
		{"sticky", func(dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) }, true},
		{"others write above the cache", func(dir string) error { return os.Chmod(dir, 0o777) }, false},
		{"others write to the cache", func(dir string) error { return os.Chmod(filepath.Join(dir, "cache"), 0o757) }, false},
		{"others write beside the binary", func(dir string) error { return os.Chmod(filepath.Join(dir, "cache/bee/bin"), 0o777) }, false},
		{"a link leads over a shared one", func(dir string) error {
			shared := filepath.Join(dir, "shared")
			return errors.Join(os.Mkdir(shared, 0o700), os.Chmod(shared, 0o777), os.Rename(filepath.Join(dir, "cache"), shared+"/cache"), os.Symlink(shared+"/cache", filepath.Join(dir, "cache")))
		}, false},
		{"another user's", func(dir string) error {
			return os.Chown(filepath.Join(dir, "cache"), 12345, 12345)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			bin := filepath.Join(dir, "cache/bee/bin")
			if err := errors.Join(os.MkdirAll(bin, 0o700), core.WriteProgram(filepath.Join(bin, "bee-"+sum), []byte(text), 0o700)); err != nil {
				t.Fatal(err)
			}
			if c.name == "another user's" {
				testkit.RequireRoot(t)
			}
			if err := c.spoil(dir); err != nil {
				t.Fatal(err)
			}
			run := exec.Command("/bin/sh", "-c", bootScript(map[string]binary{runtime.GOARCH: {sum, int64(len(text))}}, false))
			run.Env = []string{"PATH=" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + filepath.Join(dir, "cache")}
			out, err := run.CombinedOutput()
			if started := strings.Contains(string(out), "started"); started != c.starts || (err == nil) != c.starts {
				t.Errorf("started: %v, %v: %s", started, err, out)
			}
			if !c.starts && !strings.Contains(string(out), replaceable) {
				t.Errorf("it does not say why: %s", out)
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	got := strings.Join(sshCommand("ann@n1", map[string]string{"ConnectTimeout": "3", "ProxyJump": "gate"}, "exec x"), " ")
	want := "ssh -o BatchMode=yes -o ClearAllForwardings=yes -o ConnectTimeout=3 -o EscapeChar=none -o ForwardX11=no -o LogLevel=ERROR -o PermitLocalCommand=no -o ProxyJump=gate -o RequestTTY=no -o ServerAliveCountMax=3 -o ServerAliveInterval=5 -o Tunnel=no -o VisualHostKey=no -- ann@n1 exec x"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
