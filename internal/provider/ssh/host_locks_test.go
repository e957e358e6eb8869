package ssh

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// TestStudiesLockHosts: a study has the hosts of a site until it unlocks them or its connection
// breaks. A host that does not answer is no obstacle.
func TestStudiesLockHosts(t *testing.T) {
	f := sshfarm.Start(t, 2)
	locks := func(hosts ...string) driver.HostLocks {
		p := site(t, f, hosts...).(*provider)
		p.s.Site = func(host string) json.RawMessage {
			return fmt.Appendf(nil, `{"Name": "rack", "Slots": 2, "Scratch": %q, "Studies": %q}`, filepath.Join(f.Private, "bee-"+host), filepath.Join(f.Dir, "studies-"+host))
		}
		return p.HostLocks()
	}
	first, second := driver.Study{Name: "layers", Token: "1", By: "process 7"}, driver.Study{Name: "apps", Token: "2", By: "process 8"}
	held, err := locks("h0", "nowhere.invalid").LockHosts(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locks("h0", "h1").LockHosts(t.Context(), second); !core.IsKind(err, core.Busy) || core.Remedy(err) == "" {
		t.Errorf("two studies on h0: %v", err)
	}
	other, err := locks("h1").LockHosts(t.Context(), second) // which the refusal has unlocked
	if err != nil {
		t.Fatalf("a second study on h1: %v", err)
	}
	if held.Lost() || other.Lost() {
		t.Error("a lock is lost though its connection is there")
	}
	kill(t, clients(t, "h1")...)
	held.Unlock()
	testkit.Eventually(t, 10*time.Second, func() error {
		if !other.Lost() {
			return errors.New("a lock whose connection was killed is not lost")
		}
		return nil
	})
	again, err := locks("h0", "h1").LockHosts(t.Context(), second)
	if err != nil {
		t.Fatalf("after the first study: %v", err)
	}
	again.Unlock()
}
