package ssh

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
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
		for _, name := range []string{"uname", "wc", "mkdir", "head", "cat", "rm", "chmod", "mv", "find", "sha256sum", "sh", "gzip"} {
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
		if out, err := c.CombinedOutput(); err != nil || string(out) != word+"\nBEE have "+runtime.GOARCH+"\nstarted\n" {
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
	if err := (&provider{}).sendBinary(&sent, "h", path, packed); err != nil {
		t.Fatal(err)
	}
	return &sent
}
