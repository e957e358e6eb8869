package hostile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestAReceiverOfNotifications: one that redirects and fails learns no secret, leads to no
// other host and delays no run. It gets the notification once its sender, which was killed
// meanwhile, runs again.
func TestAReceiverOfNotifications(t *testing.T) {
	var mu sync.Mutex
	var got []string
	works := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("webhook-id"))
		if !strings.Contains(string(body), `"state": "succeeded"`) || strings.Contains(string(body)+fmt.Sprint(r.Header), "hush") {
			t.Errorf("the body is %s", body)
		}
		if !works {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}
	}))
	defer hook.Close()
	seen := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
	b, job := busyboxJob(t, "secrets: {TOKEN: {file: ../token}}", "run: 'true'", "notify: [{webhook: '"+hook.URL+"', key: {file: ../key}}]")
	b.File("../token", "hush\n")
	b.File("../key", "hushkey\n")
	b.Must("run", "-q", job)
	testkit.Eventually(t, time.Minute, func() error {
		if len(seen()) == 0 {
			return errors.New("nothing was sent")
		}
		return nil
	})
	for _, pid := range b.Controllers() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	mu.Lock()
	works = true
	mu.Unlock()
	notifications := filepath.Join(b.Dir, "state/notifications")
	testkit.Eventually(t, time.Minute, func() error {
		b.Must("supervise") // whose first call may find the dead process's lock
		left, err := os.ReadDir(notifications)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%d runs have something to send; sent was %q", len(left), seen())
		}
		return err
	})
	if all := seen(); len(all) < 2 || all[0] == "" || slices.ContainsFunc(all, func(id string) bool { return id != all[0] }) {
		t.Errorf("the ids are %q", all)
	}
	if err := filepath.WalkDir(filepath.Join(b.Dir, "state"), func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // the supervisor ends meanwhile, and closes its database
			return nil
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), "hush") {
			t.Errorf("%s has a secret", path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
