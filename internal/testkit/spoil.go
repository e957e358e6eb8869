package testkit

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Secret is what a file outside of a spoiled tree holds.
const Secret = "a secret of this machine"

// Spoil puts what is no plain small file in the place of one, one thing after the other,
// and calls a check for each, which returns what is shown of it. A check that hangs, reads
// without end or shows the secret fails.
func Spoil(t *testing.T, path string, check func(t *testing.T) string) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(Secret), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".whole"); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for name, put := range map[string]func() error{
		"a FIFO":               func() error { return unix.Mkfifo(path, 0o600) },
		"a link to /dev/zero":  func() error { return os.Symlink("/dev/zero", path) },
		"a link to a secret":   func() error { return os.Symlink(secret, path) },
		"a directory":          func() error { return os.Mkdir(path, 0o700) },
		"a socket":             func() error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
		"a file of a terabyte": func() error { return sparse(path, 1<<40) },
	} {
		t.Run(filepath.Base(path)+" is "+name, func(t *testing.T) {
			if err := put(); err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(path)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			shown := make(chan string, 1)
			go func() { shown <- check(t) }()
			select {
			case got := <-shown:
				if strings.Contains(got, Secret) {
					t.Errorf("it is shown: %q", got)
				}
			case <-time.After(time.Minute):
				t.Fatal("it hangs")
			}
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
				t.Errorf("it took %d bytes of memory", took)
			}
		})
	}
	if err := os.Rename(path+".whole", path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func sparse(path string, size int64) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(path, size)
}
