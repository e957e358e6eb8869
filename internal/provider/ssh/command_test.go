package ssh

import (
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
	c.Stdin = strings.NewReader(fmt.Sprintf("%d\n%s", len(text), text))
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
