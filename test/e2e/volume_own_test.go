package e2e

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// noVolumesLeft fails the test if a burst buffer of a run has left something on this host or on the remote.
func noVolumesLeft(t *testing.T, b *testkit.Bee, far string) {
	t.Helper()
	for _, dir := range []string{"volumes", "mounts", "clients"} {
		if names, err := os.ReadDir(filepath.Join(b.Dir, "state", dir)); err != nil && !errors.Is(err, os.ErrNotExist) || len(names) > 0 {
			t.Errorf("%s: %v, %v", dir, names, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(far, ".bee")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the remote has records of BEE: %v", err)
	}
	b.CheckNothingLeft(20 * time.Second)
}

// digest gives the SHA-256 of a file in hexadecimal digits.
func digest(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw))
}

// TestVolumeOfARunIsMountedForItAlone: a job of an ordinary user has a burst buffer on an emulated host. While it
// runs, nothing is mounted on this machine itself, and its volume is refused to others.
func TestVolumeOfARunIsMountedForItAlone(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t, "volume: {kind: burst, remote: ./far, disk: 64M}", "workdir: /work",
		"run: 'cat there > out; id -u > id; touch begun; until [ -e go ]; do sleep 0.1; done; mv there moved'")
	b.File("far/there", "remote\n")
	far := filepath.Join(b.Work, "far")
	id := strings.TrimSpace(b.Must("--sites", labSites(b, "1"), "run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if _, err := os.Stat(filepath.Join(far, "begun")); err != nil {
			return b.Explained(id, err.Error())
		}
		return nil
	})
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || bytes.Contains(mounts, []byte(b.Dir)) {
		t.Errorf("mounted on the machine itself: %v\n%s", err, mounts)
	}
	for _, command := range []string{"umount", "recover"} {
		if f := b.Fail("volume", command, far); f.Kind != "busy" || !strings.Contains(f.Remedy, "bee stop "+id) {
			t.Errorf("%s: %+v", command, f)
		}
	}
	var s volumeStatus
	if b.JSON(&s, "volume", "status", "--json", id); !s.Running || s.Remote != far {
		t.Errorf("%+v", s)
	}
	b.Touch(id, "/work/go")
	b.Must("wait", id)
	for name, text := range map[string]string{"moved": "remote\n", "out": "remote\n", "id": itoa(os.Getuid()) + "\n", "go": "", "begun": ""} {
		if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || string(got) != text {
			t.Errorf("the remote has %q in %s, %v", got, name, err)
		}
	}
	if got := contents(t, far); len(got) != 5 {
		t.Errorf("the remote has %v", got)
	}
	noVolumesLeft(t, b, far)
}

// TestVolumeOfARunOutlivesItsNode kills the node of a job as soon as a write has returned. On this machine and on
// a host behind ssh, the I/O process drains what was written, and ends. On an emulated host it ends with that, and
// the next command drains the buffer.
func TestVolumeOfARunOutlivesItsNode(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireFUSE(t)
	for _, site := range []string{"machine", "emulated", "ssh"} {
		t.Run(site, func(t *testing.T) {
			b, job := busyboxJob(t, "volume: {kind: burst, remote: 'FAR', disk: 64M, rate: 800kbit}", "workdir: /work",
				"run: 'head -c 400000 /dev/urandom > new; mv new big; sha256sum big; sleep 1000'")
			far, left, running := filepath.Join(b.Work, "far"), "", func(which string) []int { return processes(b, which) }
			switch site {
			case "ssh":
				farm := behindSSH(t, b, 1)
				far, left, running = filepath.Join(farm.Dir, "far"), burstsOf(farm), func(which string) []int { return processesOf(farm, which) }
			case "emulated":
				b.Env = append(b.Env, "BEE_SITES="+labSites(b, "1"))
			}
			if err := os.Mkdir(far, 0o755); err != nil {
				t.Fatal(err)
			}
			b.File("job.yaml", strings.Replace(b.Read("job.yaml"), "FAR", far, 1))
			id := strings.TrimSpace(b.Must("run", "-d", job))
			sum := ""
			testkit.Eventually(t, time.Minute, func() error {
				if sum = strings.TrimSpace(b.Try("logs", id).Stdout); !strings.HasSuffix(sum, " big") {
					return b.Explained(id, fmt.Sprintf("it printed %q", sum))
				}
				return nil
			})
			if site == "ssh" { // as its user sees it there
				c := b.Command("volume", "ls")
				c.Env = append(c.Env, "BEE_STATE="+filepath.Join(filepath.Dir(far), "private", "bee-h0", "bee", ".burst", "h0"))
				if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), far) {
					t.Errorf("bee volume ls on the host: %v\n%s", err, out)
				}
			}
			for _, p := range running("node") {
				testkit.Kill(p)
			}
			if v := b.Await(id, time.Minute); v.State != "failed" {
				t.Fatalf("%+v\n%s", v, b.Must("show", id))
			}
			if site != "emulated" {
				testkit.Eventually(t, time.Minute, func() error {
					if left := running("volume-"); len(left) > 0 {
						return fmt.Errorf("processes %d are left", left)
					}
					return nil
				})
			}
			if site != "ssh" {
				b.Must("volume", "recover", far)
			}
			if got := digest(t, filepath.Join(far, "big")); got+"  big" != sum {
				t.Errorf("the remote has %s, and the job wrote %s", got, sum)
			}
			if names, err := filepath.Glob(left); err != nil || len(names) > 0 {
				t.Errorf("left on the host: %q, %v", names, err)
			}
			noVolumesLeft(t, b, far)
		})
	}
}

// TestBurstBuffersThatAreLeftAreSwept: all that a job has on a site is killed while its remote lacks what it wrote. Then
// `bee sweep` keeps the buffer, as long as the remote is away. Once that is back, it drains and removes the buffer.
func TestBurstBuffersThatAreLeftAreSwept(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireFUSE(t)
	const write = "head -c 400000 /dev/urandom > new; mv new big; sha256sum big; sleep 1000"
	lines := []string{"volume: {kind: burst, remote: 'FAR', disk: 64M, rate: 800kbit}", "workdir: /work", "run: '" + write + "'"}
	for _, site := range []string{"ssh", "slurm"} {
		t.Run(site, func(t *testing.T) {
			b, farm, left := burstJob(t, site, lines...)
			far := filepath.Join(farm.Dir, "far")
			if err := os.Mkdir(far, 0o755); err != nil {
				t.Fatal(err)
			}
			b.File("job.yaml", strings.Replace(b.Read("job.yaml"), "FAR", far, 1))
			id := strings.TrimSpace(b.Must("run", "-d", "job.yaml"))
			sum := ""
			testkit.Eventually(t, time.Minute, func() error {
				if sum = strings.TrimSpace(b.Try("logs", id).Stdout); !strings.HasSuffix(sum, " big") {
					return b.Explained(id, fmt.Sprintf("it printed %q", sum))
				}
				return nil
			})
			for _, which := range []string{"node", "volume-"} {
				for _, p := range processesOf(farm, which) {
					testkit.Kill(p)
				}
			}
			if v := b.Await(id, time.Minute); v.State != "failed" {
				t.Fatalf("%+v\n%s", v, b.Must("show", id))
			}
			sweep := func(more ...string) (list []struct{ Owner, Buffer, Kept string }) {
				t.Helper()
				b.JSON(&list, append([]string{"sweep", "--json"}, more...)...)
				return list
			}
			if _, err := os.Stat(filepath.Join(far, "big")); !errors.Is(err, os.ErrNotExist) {
				t.Fatalf("it was drained before: %v", err)
			}
			if list := sweep("--dry-run", "--force"); len(list) != 1 || list[0].Kept == "" || list[0].Buffer == "" || !strings.Contains(list[0].Owner, id) {
				t.Errorf("before: %+v", list)
			}
			if err := errors.Join(os.Rename(far, far+".away"), os.Mkdir(far, 0o755)); err != nil { // its file system is not mounted
				t.Fatal(err)
			}
			if r := b.Try("sweep", "--force"); r.Code == 0 || !strings.Contains(r.Stdout, "burst buffer") {
				t.Errorf("while the remote is away: %+v", r)
			}
			if names, err := filepath.Glob(left); err != nil || len(names) == 0 {
				t.Fatalf("the buffer is gone: %v", err)
			}
			if err := errors.Join(os.Remove(far), os.Rename(far+".away", far)); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, 2*time.Minute, func() error { // it does not wait for a slow one
				for _, found := range sweep() {
					if found.Kept != "" {
						return fmt.Errorf("with the remote: %+v", found)
					}
				}
				return nil
			})
			if got := digest(t, filepath.Join(far, "big")); got+"  big" != sum {
				t.Errorf("the remote has %s, and the job wrote %s", got, sum)
			}
			if names, err := filepath.Glob(left); err != nil || len(names) > 0 {
				t.Errorf("left on the site: %q, %v", names, err)
			}
			if list := sweep(); len(list) > 0 {
				t.Errorf("afterwards: %+v", list)
			}
			noVolumesLeft(t, b, far)
		})
	}
}

// behindSSH gives a bee a site of hosts behind ssh, which reach a further host by ssh, too.
func behindSSH(t *testing.T, b *testkit.Bee, hosts int) *sshfarm.Farm {
	t.Helper()
	bin := t.TempDir()
	farm := sshfarm.Start(t, hosts+1, "PATH="+bin+":"+os.Getenv("PATH"))
	own := filepath.Join(bin, "config") // among themselves they need no proxy
	config, err := os.ReadFile(farm.Config)
	if err == nil {
		err = errors.Join(os.WriteFile(own, regexp.MustCompile("(?m)^ *ProxyCommand.*\n").ReplaceAll(config, nil), 0o600),
			core.WriteProgram(filepath.Join(bin, "ssh"), []byte("#!/bin/sh\nexec "+testkit.RequireTool(t, "ssh")+" -F "+own+" \"$@\"\n"), 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Env = append(append(b.Env, farm.Env()...), "BEE_SITES="+b.File("sites.yaml",
		"sites:\n  - {name: rack, provider: ssh, hosts: ["+strings.Join(farm.Names[:hosts], ", ")+"], scratch: "+farm.Private+", slots: 2}\n"))
	return farm
}

// processesOf gives processes of bee on the hosts.
func processesOf(farm *sshfarm.Farm, which string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && (bytes.Contains(environ, []byte("="+farm.Dir)) || bytes.Contains(command, []byte(farm.Dir))) && bytes.Contains(command, []byte("\x00"+which)) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// burstsOf is a pattern of what burst buffers leave on hosts behind ssh.
func burstsOf(farm *sshfarm.Farm) string {
	return filepath.Join(farm.Private, "*", "bee", ".burst", "*", "*", "*")
}

// burstJob has a job ready on one host of a site, "ssh" or "slurm": left is the pattern of what a burst buffer has there.
func burstJob(t *testing.T, site string, lines ...string) (b *testkit.Bee, farm *sshfarm.Farm, left string) {
	t.Helper()
	if site == "ssh" {
		b, _ = busyboxJob(t, lines...)
		farm = behindSSH(t, b, 1)
		return b, farm, burstsOf(farm)
	}
	b, of, _ := cluster(t, 1, "", lines...)
	return b, of.Farm, filepath.Join(of.Dir, "scratch", "bee", ".burst", "*", "*", "*")
}

// TestVolumeOfARunBehindSSH: hosts behind ssh have one burst buffer. What one writes the other one reads, and a
// third host gets all of it by ssh. A directory of this machine that the hosts do not see is refused.
func TestVolumeOfARunBehindSSH(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t, "nodes: 2", "volume: {kind: burst, remote: 'FAR', disk: 64M}", "workdir: /work", "inputs: [{from: ./input, to: /work}]",
		`run: 'cat there in > a; /.bee/rsh ${BEE_NODELIST#*,} "cd /work; cat a > b; mkdir d; echo deep > d/f"'`, "outputs: [{from: /work/b, to: ./results}]")
	b.File("input/in", "input\n")
	farm := behindSSH(t, b, 2)
	far := filepath.Join(farm.Dir, "far")
	if err := errors.Join(os.Mkdir(far, 0o755), os.WriteFile(filepath.Join(far, "there"), []byte("remote\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	text := b.Read("job.yaml")
	b.File("job.yaml", strings.Replace(text, "FAR", "h2:"+far, 1))
	b.Must("run", job)
	for name, text := range map[string]string{"a": "remote\ninput\n", "b": "remote\ninput\n", "in": "input\n", "d/f": "deep\n", "there": "remote\n"} {
		if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || string(got) != text {
			t.Errorf("the remote has %q in %s, %v", got, name, err)
		}
	}
	if got := contents(t, far); len(got) != 6 {
		t.Errorf("the remote has %v", got)
	}
	if got := b.Read("results/b"); got != "remote\ninput\n" {
		t.Errorf("the output has %q", got)
	}
	b.File("job.yaml", strings.Replace(text, "FAR", farm.Same, 1))
	if f := b.Fail("run", job); !strings.Contains(f.Remedy, "share") {
		t.Errorf("a directory that the hosts do not see: %+v", f)
	}
	if names, err := os.ReadDir(farm.Same); err != nil || len(names) > 0 {
		t.Errorf("left in that directory: %v, %v", names, err)
	}
	if names, err := filepath.Glob(burstsOf(farm)); err != nil || len(names) > 0 {
		t.Errorf("left on the hosts: %q, %v", names, err)
	}
	noVolumesLeft(t, b, far)
}

// TestVolumeOfARunOnACluster: nodes of a cluster have one burst buffer, which is drained to a directory that they
// share with this machine.
func TestVolumeOfARunOnACluster(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireFUSE(t)
	b, farm, job := cluster(t, 2, "", "nodes: 2", "volume: {kind: burst, remote: 'FAR', disk: 64M}", "workdir: /work",
		`run: 'cat there > a; /.bee/rsh ${BEE_NODELIST#*,} "cd /work; cat a > b"'`)
	far := filepath.Join(farm.Dir, "far")
	if err := errors.Join(os.Mkdir(far, 0o755), os.WriteFile(filepath.Join(far, "there"), []byte("remote\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	b.File("job.yaml", strings.Replace(b.Read("job.yaml"), "FAR", far, 1))
	b.Must("run", job)
	for _, name := range []string{"a", "b", "there"} {
		if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || string(got) != "remote\n" {
			t.Errorf("the remote has %q in %s, %v", got, name, err)
		}
	}
	if names, err := os.ReadDir(far); err != nil || len(names) != 3 {
		t.Errorf("the remote has %v, %v", names, err)
	}
	if names, err := filepath.Glob(filepath.Join(farm.Dir, "scratch", "bee", ".burst", "*", "*", "*")); err != nil || len(names) > 0 {
		t.Errorf("left on the cluster: %q, %v", names, err)
	}
	noVolumesLeft(t, b, far)
}

// TestVolumeOfARunWithAClientThatHangs stops a run whose job waits for a client of the volume that does not answer.
func TestVolumeOfARunWithAClientThatHangs(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t, "volume: {kind: burst, remote: ./far, disk: 64M}", "workdir: /work", "run: 'while true; do date > now; echo written; sleep 0.1; done'")
	far := filepath.Join(b.Work, "far")
	if err := os.Mkdir(far, 0o755); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if _, err := os.Stat(filepath.Join(far, "now")); err != nil {
			return b.Explained(id, err.Error())
		}
		return nil
	})
	for _, p := range processes(b, "volume-client ") {
		if err := syscall.Kill(p, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	b.Must("stop", id)
	if v := b.Await(id, time.Minute); v.State != "stopped" {
		t.Errorf("%+v\n%s", v, b.Must("show", id))
	}
	noVolumesLeft(t, b, far)
}
