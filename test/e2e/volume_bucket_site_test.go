package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// bucketOfAFarm starts an S3 server on a host of a farm, which nobody else reaches.
func bucketOfAFarm(t *testing.T, farm *sshfarm.Farm, host int) *s3server.Server {
	t.Helper()
	return s3server.StartElsewhere(t, net.JoinHostPort(farm.Addrs[host], "7480"), func(argv []string, log string) error {
		_, err := farm.Launch(t.Context(), emulate.Command{Host: host, Argv: argv, Env: []string{"PATH=" + os.Getenv("PATH")}, Log: log})
		return err
	}, func(ctx context.Context, _, address string) (net.Conn, error) { return farm.Dial(ctx, address) })
}

// secretNowhere fails the test where something has the secret of the bucket: a file, or the environment or command line
// of a process on the hosts. Those that have it in memory are among these.
func secretNowhere(t *testing.T, farm *sshfarm.Farm, dirs ...string) {
	t.Helper()
	secret := []byte(s3server.Secret)
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return nil // it was removed meanwhile
			}
			if raw, err := os.ReadFile(name); err == nil && bytes.Contains(raw, secret) {
				t.Errorf("%s has the secret", name)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for _, which := range []string{"node", "volume-io", "volume-client"} {
		all := processesOf(farm, which)
		if len(all) == 0 {
			t.Errorf("no process %s was looked at", which)
		}
		for _, p := range all {
			dir := filepath.Join("/proc", itoa(p))
			command, cerr := os.ReadFile(filepath.Join(dir, "cmdline"))
			environ, eerr := os.ReadFile(filepath.Join(dir, "environ"))
			if errors.Is(eerr, fs.ErrPermission) && which != "node" {
				eerr = nil // it hides its memory
			}
			if cerr != nil || eerr != nil || bytes.Contains(environ, secret) || bytes.Contains(command, secret) {
				t.Errorf("process %s has the secret in its environment or on its command line: %q, %v, %v", which, command, cerr, eerr)
			}
		}
	}
}

// TestVolumeInABucketOnASite: hosts behind ssh and a node of a cluster drain a burst buffer to a bucket, which they
// alone reach, with credentials that were sent. These are in no file and in no environment there, and a killed I/O
// process gets them again.
func TestVolumeInABucketOnASite(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireFUSE(t)
	lines := []string{
		"volume: {kind: burst, remote: 's3://checkpoints/run7', credentials: send, disk: 64M}", "workdir: /work",
		"run: 'cat there > out; touch begun; until [ -e go ]; do sleep 0.1; done; mv there moved; mkdir d; echo deep > d/f'",
	}
	for _, site := range []string{"ssh", "slurm"} {
		t.Run(site, func(t *testing.T) {
			b, farm, left := burstJob(t, site, lines...)
			server := bucketOfAFarm(t, farm, 0)
			server.Put("run7/there", "remote\n")
			b.Env = append(b.Env, server.Env()...)
			far := filepath.Join(server.Dir, "run7")
			id := strings.TrimSpace(b.Must("run", "-d", "job.yaml"))
			testkit.Eventually(t, time.Minute, func() error {
				if _, err := os.Stat(filepath.Join(far, "begun")); err != nil {
					return b.Explained(id, err.Error())
				}
				return nil
			})
			secretNowhere(t, farm, farm.Dir, b.Dir)
			for _, which := range []string{"volume-io", "volume-client"} {
				for _, p := range processesOf(farm, which) {
					if memory, err := os.Open(filepath.Join("/proc", itoa(p), "environ")); err == nil { // the permission is that of its memory
						memory.Close()
						t.Errorf("the memory of a process %s can be read", which)
					}
				}
			}
			for _, p := range processesOf(farm, "volume-io") {
				testkit.Kill(p)
			}
			b.Touch(id, "/work/go")
			b.Must("wait", id)
			for name, text := range map[string]string{"moved": "remote\n", "out": "remote\n", "d/f": "deep\n", "go": ""} {
				if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || string(got) != text {
					t.Errorf("the bucket has %q in %s, %v", got, name, err)
				}
			}
			if names, err := filepath.Glob(left); err != nil || len(names) > 0 {
				t.Errorf("left on the site: %q, %v", names, err)
			}
			noVolumesLeft(t, b, far)
		})
	}
}

// TestVolumeInABucketByCredentialsOfTheSite: a host uses what is set up there, and one that has nothing is refused with
// what to do.
func TestVolumeInABucketByCredentialsOfTheSite(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t, "volume: {kind: burst, remote: 's3://checkpoints/run7', disk: 64M, credentials: site}", "workdir: /work", "run: 'echo done > out'")
	farm := behindSSH(t, b, 1)
	server := bucketOfAFarm(t, farm, 0)
	if f := b.Fail("run", job); !strings.Contains(f.Remedy, "credentials: relay") {
		t.Errorf("without credentials: %+v", f)
	}
	me, err := user.Current() // a login's home directory is not that of the tests
	if err != nil {
		t.Fatal(err)
	}
	dir := farm.There(filepath.Join(me.HomeDir, ".aws"))
	if err := errors.Join(os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "credentials"), fmt.Appendf(nil, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", s3server.Access, s3server.Secret), 0o600),
		os.WriteFile(filepath.Join(dir, "config"), fmt.Appendf(nil, "[default]\nregion = us-east-1\nendpoint_url = %s\n", server.Endpoint()), 0o600)); err != nil {
		t.Fatal(err)
	}
	b.Must("run", job)
	if got, err := os.ReadFile(filepath.Join(server.Dir, "run7", "out")); err != nil || string(got) != "done\n" {
		t.Errorf("the bucket has %q, %v", got, err)
	}
	noVolumesLeft(t, b, filepath.Join(server.Dir, "run7"))
}

// TestVolumeInABucketThroughTheSubmittingMachine: hosts that neither reach a bucket nor have credentials for it drain a
// burst buffer there through the submitting machine. While no controller is there, the buffer fills, and it is drained
// once one is back. No host has the credentials.
func TestVolumeInABucketThroughTheSubmittingMachine(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireFUSE(t)
	lines := []string{
		"volume: {kind: burst, remote: 's3://checkpoints/run7', disk: 64M}", "workdir: /work",
		"run: 'cat there > out; exec 3> log; echo first >&3; (until [ -e go ]; do sleep 0.2; done) & touch begun; while kill -0 $! 2>/dev/null; do echo line >&3; sleep 0.2; done; exec 3>&-; mv there moved'",
	}
	for _, site := range []string{"ssh", "slurm"} {
		t.Run(site, func(t *testing.T) {
			b, farm, left := burstJob(t, site, lines...)
			server := s3server.Start(t)
			server.Put("run7/there", "remote\n")
			b.Env = append(b.Env, server.Env()...)
			far := filepath.Join(server.Dir, "run7")
			id := strings.TrimSpace(b.Must("run", "-d", "job.yaml"))
			testkit.Eventually(t, time.Minute, func() error {
				if _, err := os.Stat(filepath.Join(far, "begun")); err != nil {
					return b.Explained(id, err.Error())
				}
				return nil
			})
			secretNowhere(t, farm, farm.Dir, b.Dir)
			testkit.Kill(testkit.AwaitControllers(t, b, 1)[0])
			for _, p := range processesOf(farm, "volume-io") {
				testkit.Kill(p)
			}
			records, err := filepath.Glob(left)
			if err != nil || len(records) == 0 {
				t.Fatalf("%q, %v", records, err)
			}
			there := testkit.NewBee(t) // a command on the host
			there.Env = append(there.Env, "BEE_STATE="+filepath.Dir(filepath.Dir(records[0])))
			testkit.Eventually(t, time.Minute, func() error {
				var s volumeStatus
				if r := there.Try("volume", "status", "--json", "s3://checkpoints/run7"); r.Code != 0 {
					return errors.New(r.Stderr)
				} else if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil || s.Waits == "" || s.Undrained == 0 {
					return fmt.Errorf("%s, %w", r.Stdout, err)
				}
				return nil
			})
			server.Put("run7/go", "")
			b.Must("supervise")
			b.Must("wait", id)
			for name, text := range map[string]string{"moved": "remote\n", "out": "remote\n", "log": "first\nline\n"} {
				if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || !strings.HasPrefix(string(got), text) {
					t.Errorf("the bucket has %q in %s, %v", got, name, err)
				}
			}
			if names, err := filepath.Glob(left); err != nil || len(names) > 0 {
				t.Errorf("left on the site: %q, %v", names, err)
			}
			noVolumesLeft(t, b, far)
		})
	}
}
