package leftover

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// TestNewKeysReachARunningProcess: one that has none, as a sweep starts it, and one whose keys are not good any more.
func TestNewKeysReachARunningProcess(t *testing.T) {
	server := s3server.Start(t)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	good := core.BucketKeys{ID: s3server.Access, Secret: s3server.Secret, Endpoint: server.Endpoint(), Region: "us-east-1"}
	expired := good
	expired.Secret = "it was one"
	for name, before := range map[string]*core.BucketKeys{"none": nil, "expired": &expired} {
		t.Run(name, func(t *testing.T) {
			l := newLeft(t, true)
			l.c.At = remote.Place{Bucket: server.Bucket, Prefix: name, Endpoint: server.Endpoint(), Region: "us-east-1"}
			l.c.Remote = "s3://" + server.Bucket + "/" + name
			l.c.Keys = before
			l.must(l.c.Save())
			server.Put(name+"/"+remote.RecordName, fmt.Sprintf(`{"id":%q}`, l.c.ID))
			peer, err := l.c.Connect(t.Context(), l.site.Binary)
			l.must(err)
			peer.Close()
			waits := func() error {
				s, err := l.c.LookOnce(t.Context())
				if err == nil && (s.Waits == "" || s.Changes != 1) {
					err = fmt.Errorf("%+v", s)
				}
				return err
			}
			testkit.Eventually(t, 20*time.Second, waits)
			if before != nil {
				elsewhere := good
				elsewhere.Endpoint = "http://127.0.0.1:1"
				l.c.Keys = &elsewhere
				if _, err := l.c.Connect(t.Context(), l.site.Binary); !core.IsKind(err, core.Invalid) {
					t.Errorf("another server: %v", err)
				}
				l.must(waits())
			}
			pid := l.process()
			if before != nil && os.Geteuid() != 0 {
				if memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid)); err == nil {
					memory.Close()
					t.Error("others can read its memory")
				}
			}
			l.c.Keys = &good
			peer, err = l.c.Connect(t.Context(), l.site.Binary)
			l.must(err)
			peer.Close()
			if now := l.process(); now != pid {
				t.Errorf("process %d is %d now", pid, now)
			}
			testkit.Eventually(t, 30*time.Second, func() error { // it is alone, and ends
				if there, err := fsutil.Exists(l.c.Dir); err != nil || there {
					s, serr := l.c.LookOnce(context.WithoutCancel(t.Context()))
					return fmt.Errorf("it is there: %w, %+v, %w", err, s, serr)
				}
				return nil
			})
			if _, err := os.Stat(server.Dir + "/" + name + "/d"); err != nil {
				t.Error(err)
			}
		})
	}
}
