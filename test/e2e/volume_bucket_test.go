package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
)

// TestVolumeBucket mounts a prefix of a bucket. The I/O process is killed when the bucket has
// carried out a write and has not yet answered, and the bucket is away for a while: programs
// notice nothing, and each file arrives once.
func TestVolumeBucket(t *testing.T) {
	testkit.AsRootToo(t)
	server := s3server.StartFound(t)
	b, near := mountable(t)
	var kill sync.Map // of keys: whether the process is killed before the answer
	var away atomic.Bool
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		key := path.Base(r.URL.Path)
		_, last := r.URL.Query()["partNumber"]
		if _, is := kill.Load(key); is && (r.Method == http.MethodPut && !last || r.Method == http.MethodPost && r.URL.Query().Has("uploadId")) {
			kill.Delete(key)
			s3server.Forward(r, forward)
			for _, pid := range processes(b, "volume-io ") {
				testkit.Kill(pid)
			}
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	})
	testkit.Setenv(t, server.EnvAt(proxy))
	far := "s3://" + server.Bucket + "/run7"
	b.Must("volume", "mount", far, near)
	large := bytes.Repeat([]byte("large"), 2_000_000)
	for name, data := range map[string][]byte{"small": []byte("small"), "large": large} {
		kill.Store(name, true)
		if err := os.WriteFile(filepath.Join(near, name), data, 0o640); err != nil {
			t.Fatal(err)
		}
		b.Must("volume", "drain", near)
		if _, is := kill.Load(name); is {
			t.Errorf("nothing was killed for %s", name)
		}
	}
	away.Store(true)
	script := exec.Command("sh", "-ec", `echo new > new; mkdir dir && echo inside > dir/file && ln -s file dir/link`)
	script.Dir = near
	done := make(chan error, 1)
	go func() { done <- script.Run() }()
	var s volumeStatus
	testkit.Eventually(t, 30*time.Second, func() error {
		b.JSON(&s, "volume", "status", "--json", near)
		select {
		case err := <-done:
			done <- err
			if s.Waits != "" && !s.Drained {
				return nil
			}
		default:
			return nil // a new name waits, as others may have it
		}
		return fmt.Errorf("%+v", s)
	})
	away.Store(false)
	if err := <-done; err != nil {
		t.Error(err)
	}
	here := contents(t, near)
	b.Must("volume", "drain", near)
	b.JSON(&s, "volume", "status", "--json", far)
	if !s.Drained || s.Remote != far || len(s.Conflicts) > 0 {
		t.Errorf("%+v", s)
	}
	got := contents(t, filepath.Join(server.Dir, "run7"))
	for name, text := range map[string]string{"small": "small", "large": string(large), "new": "new\n", "dir/file": "inside\n"} {
		if !strings.HasSuffix(got[name], " "+text) || !strings.HasSuffix(here[name], " "+text) {
			t.Errorf("%s has %d bytes in the bucket, and %d here", name, len(got[name]), len(here[name]))
		}
	}
	other := testkit.NewBee(t)
	if err := os.Mkdir(filepath.Join(other.Work, "near"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := other.Try("volume", "mount", far, "near"); r.Code != 203 || !strings.Contains(r.Stderr, far+"/.bee/volume.json") {
		t.Errorf("a second volume: %+v", r)
	}
	b.Must("volume", "umount", near)
	if _, err := os.Lstat(filepath.Join(server.Dir, "run7", ".bee")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left in the bucket: %v", err)
	}
	b.CheckNothingLeft(20 * time.Second)
	b.Must("volume", "mount", far, near)
	if again := contents(t, near); !mapsEqual(again, here) {
		t.Errorf("another volume sees %d names, and the first %d", len(again), len(here))
	}
	b.Must("volume", "umount", near)
	for _, wrong := range []string{"s3://no_bucket/x", "s3://" + server.Bucket + "-none/x"} {
		if r := b.Try("volume", "mount", wrong, near); r.Code == 0 || !strings.Contains(r.Stderr, "ucket") {
			t.Errorf("%s: %+v", wrong, r)
		}
	}
}
