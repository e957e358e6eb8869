package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestSeccomp compares with the same job without it.
func TestSeccomp(t *testing.T) {
	testkit.AsRootToo(t)
	for filter, want := range map[string]string{"false": "may\n", "true": "may not\n"} {
		b, job := busyboxJob(t, "runtime: rootless", "seccomp: "+filter, "run: busybox unshare -U true && echo may || echo may not")
		if got := b.Must("run", "-q", job); got != want {
			t.Errorf("seccomp %s: %q, want %q", filter, got, want)
		}
	}
	b, job := busyboxJob(t, "seccomp: true", "runtime: rootless", `run: '/.bee/bee version >/dev/null && echo x | cat > f && sleep 0.1 & wait; ! chroot / true; ! mount -t tmpfs none /tmp; echo fine'`, "workdir: /work")
	if got := b.Must("run", "-q", job); got != "fine\n" {
		t.Errorf("an ordinary job: %q", got)
	}
}

// TestRootInsideHasItsName also where the image has no list of users.
func TestRootInsideHasItsName(t *testing.T) {
	testkit.AsRootToo(t)
	b, job := busyboxJob(t, "user: root", "runtime: rootless", "run: id -un; id -gn")
	if got := b.Must("run", "-q", job); got != "root\nroot\n" {
		t.Errorf("it is called %q", got)
	}
}

func TestSecretsReachTheTaskAndNoFile(t *testing.T) {
	b, job := busyboxJob(t, "secrets: {TOKEN: {env: MY_TOKEN}}", `run: 'echo "$TOKEN" | tr 0-9a-z 1-9a-z0 | grep -q t4ds4u.wbmvf && echo ok; sleep 1'`)
	b.Env = append(b.Env, "MY_TOKEN=s3cr3t-value")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 20*time.Second, func() error {
		if b.Must("logs", id) != "ok\n" {
			return os.ErrNotExist
		}
		return nil
	})
	filepath.Walk(b.Dir, func(p string, info os.FileInfo, err error) error { //nolint:errcheck // what cannot be read does not report it
		if err == nil && info.Mode().IsRegular() && info.Size() < 1<<24 {
			if raw, err := os.ReadFile(p); err == nil && strings.Contains(string(raw), "s3cr3t-value") {
				t.Errorf("the secret stands in %s", p)
			}
		}
		return nil
	})
	b.Await(id, 20*time.Second)
}
