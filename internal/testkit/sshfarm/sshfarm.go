// Package sshfarm gives tests several hosts with a real sshd on each: emulated
// hosts, each with its own network, reached by the system's ssh client as
// machines elsewhere would be. It needs no root.
//
// As machines elsewhere have them, the hosts' home and cache have the paths of those
// here, and contents of their own.
package sshfarm

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/testkit"
)

// dialArg makes the test binary an ssh ProxyCommand: DIR ADDR.
const dialArg = "sshfarm-dial"

// Main handles the processes that a farm makes of the test binary. A TestMain
// calls it first and exits with the code where it was meant.
func Main(args []string) (code int, meant bool) {
	if len(args) < 2 {
		return 0, false
	}
	switch args[1] {
	case emulate.HolderArg:
		return emulate.HolderMain(args[2:]), true
	case dialArg:
		ctx := context.Background()
		c, err := emulate.Open(ctx, args[2])
		if err == nil {
			var t *tally
			if t, err = newTally(filepath.Join(args[2], tallies)); err == nil {
				err = c.Relay(ctx, args[3], io.TeeReader(os.Stdin, t), io.MultiWriter(os.Stdout, t))
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// Farm is a running set of hosts.
type Farm struct {
	*emulate.Client
	// Names by which ssh knows the hosts: h0, h1, …
	Names []string
	// Dir holds the ssh client's configuration and, in bin, an `ssh` that uses
	// it: put bin first in PATH.
	Dir, Config, Bin string
	// Cache is the path of the image cache on the hosts, and of that of their users:
	// see Env.
	Cache string
	// Same is a directory that all hosts have in common, and this machine another one of
	// the same path.
	Same string
	// Private is a directory of which host N sees only bee-hN, on a disk of
	// its own; all else is shared.
	Private string
	// Address of each host, and sshd's port.
	Addrs []string
	sshd  func(host int) error
}

// There is the path here of what the hosts have at a path of Same, of their cache or of
// their home.
func (f *Farm) There(path string) string { return filepath.Join(f.Dir, "there", path) }

// Env is what a bee needs to use the hosts as its sites, KEY=VALUE.
func (f *Farm) Env() []string {
	return []string{"PATH=" + f.Bin + ":" + os.Getenv("PATH"), "BEE_CACHE=" + f.Cache}
}

// mounts has hosts see directories of their own at paths that exist here, after those
// that are given already: a later mount may cover where they come from.
func (f *Farm) mounts(t testing.TB, mounts []emulate.Mount) []emulate.Mount {
	t.Helper()
	f.Cache, f.Same = filepath.Join(f.Dir, "cache", "bee"), filepath.Join(f.Dir, "same")
	paths := []string{filepath.Join(f.Dir, "cache"), f.Same}
	if shared := os.Getenv("BEE_TEST_CACHE"); shared != "" { // of the tests, not of the hosts
		f.Cache = shared
		paths = append(paths, f.Cache)
	}
	if me, err := user.Current(); err == nil && !f.needs(me.HomeDir) {
		paths = append(paths, me.HomeDir)
	}
	for _, path := range paths {
		must(t, os.MkdirAll(path, 0o700))
		must(t, os.MkdirAll(f.There(path), 0o700))
		mounts = append(mounts, emulate.Mount{Source: f.There(path), Target: path})
	}
	return mounts
}

// needs reports whether hosts need what is below a directory here.
func (f *Farm) needs(dir string) bool {
	for _, path := range []string{f.Dir, testkit.Begun(), os.Args[0]} {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// StartLogin starts the sshd of a host again, which has ended.
func (f *Farm) StartLogin(t testing.TB, host int) {
	t.Helper()
	must(t, f.sshd(host))
}

// Start starts n hosts. They end with the test. Logins see env, KEY=VALUE.
func Start(t testing.TB, n int, env ...string) *Farm {
	t.Helper()
	return StartSlow(t, n, 0, env...)
}

// StartSlow is Start with links of so many bits per second; 0: as quick as can be.
func StartSlow(t testing.TB, n int, rate int64, env ...string) *Farm {
	t.Helper()
	return start(t, n, rate, nil, env)
}

// StartWith is Start with directories that the hosts have in the place of this machine's,
// such as /usr: all programs that run there, sshd too, are the hosts' own then.
func StartWith(t testing.TB, n int, mounts []emulate.Mount, env ...string) *Farm {
	t.Helper()
	return start(t, n, 0, mounts, env)
}

func start(t testing.TB, n int, rate int64, mounts []emulate.Mount, env []string) *Farm {
	t.Helper()
	sshd, ssh, keygen := testkit.RequireTool(t, "sshd"), testkit.RequireTool(t, "ssh"), testkit.RequireTool(t, "ssh-keygen")
	if os.Geteuid() == 0 {
		must(t, os.MkdirAll("/run/sshd", 0o755)) // sshd's own chroot, else made by the package's service
	}
	f := &Farm{Dir: t.TempDir()}
	f.Bin, f.Config, f.Private = filepath.Join(f.Dir, "bin"), filepath.Join(f.Dir, "ssh_config"), filepath.Join(f.Dir, "private")
	must(t, os.Mkdir(f.Bin, 0o755))
	must(t, os.MkdirAll(filepath.Join(f.Dir, "emulated", tallies), 0o700))
	self, err := os.Executable()
	must(t, err)
	spec := emulate.Spec{Dir: filepath.Join(f.Dir, "emulated"), Binary: self, LinkRate: rate}
	mounts = f.mounts(t, slices.Clip(mounts))
	for i := range n {
		f.Names = append(f.Names, fmt.Sprintf("h%d", i))
		own := filepath.Join(f.Private, "bee-"+f.Names[i])
		must(t, os.MkdirAll(own, 0o700))
		spec.Hosts = append(spec.Hosts, emulate.HostSpec{Hostname: f.Names[i], Hide: f.Private, Keep: own, Mounts: mounts})
	}
	f.Client, err = emulate.Start(t.Context(), spec)
	must(t, err)
	t.Cleanup(func() { emulate.Destroy(context.Background(), spec.Dir) }) //nolint:errcheck // the test ends anyway
	for _, key := range []string{"host", "user"} {
		out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(f.Dir, key)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	must(t, os.Link(filepath.Join(f.Dir, "user.pub"), filepath.Join(f.Dir, "authorized")))
	public, err := os.ReadFile(filepath.Join(f.Dir, "host.pub"))
	must(t, err)
	var config, known strings.Builder
	// To bash, SHLVL is that this is no login of which it would read the user's start-up
	// files: some take locks, which they leave behind where a test ends a login.
	env = append(env, "XDG_CACHE_HOME="+filepath.Join(f.Dir, "cache"), "BEE_CACHE="+f.Cache, "SHLVL=1")
	f.sshd = func(host int) error {
		log := filepath.Join(f.Dir, f.Names[host]+".log")
		_, err := f.Launch(t.Context(), emulate.Command{Host: host, Env: os.Environ(), Log: log, Path: sshd, Argv: []string{
			sshd, "-D", "-e", "-f", "/dev/null", "-p", "2222",
			"-h", filepath.Join(f.Dir, "host"), "-o", "AuthorizedKeysFile=" + filepath.Join(f.Dir, "authorized"),
			"-o", "SetEnv=" + strings.Join(env, " "),
			"-o", "StrictModes=no", "-o", "UsePAM=no", "-o", "PidFile=none", "-o", "MaxStartups=100", "-o", "KexAlgorithms=curve25519-sha256",
		}})
		return err
	}
	for i, name := range f.Names {
		must(t, f.sshd(i))
		f.Addrs = append(f.Addrs, f.Hosts()[i].Addr)
		addr := net.JoinHostPort(f.Addrs[i], "2222")
		fmt.Fprintf(&config, "Host %s\n  HostName %s\n  Port 2222\n  ProxyCommand %s %s %s %s\n", name, f.Addrs[i], self, dialArg, filepath.Join(f.Dir, "emulated"), addr)
		fmt.Fprintf(&known, "[%s]:2222 %s", f.Addrs[i], public)
	}
	fmt.Fprintf(&config, "Host *\n  IdentityFile %s\n  UserKnownHostsFile %s\n  StrictHostKeyChecking yes\n", filepath.Join(f.Dir, "user"), filepath.Join(f.Dir, "known"))
	must(t, os.WriteFile(f.Config, []byte(config.String()), 0o600))
	must(t, os.WriteFile(filepath.Join(f.Dir, "known"), []byte(known.String()), 0o600))
	must(t, core.WriteProgram(filepath.Join(f.Bin, "ssh"), fmt.Appendf(nil, "#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, f.Config), 0o755))
	for _, addr := range f.Addrs {
		testkit.Eventually(t, 20*time.Second, func() error {
			c, err := f.Dial(t.Context(), net.JoinHostPort(addr, "2222"))
			if err == nil {
				c.Close()
			}
			return err
		})
	}
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
