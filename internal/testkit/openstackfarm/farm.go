// Package openstackfarm gives tests the real services of OpenStack on this machine: Keystone, Placement, Glance, Neutron,
// Nova and Blazar, with MariaDB. Only what would need hardware is the farm's own: a compute driver whose servers are
// network namespaces with a start script and an sshd, a driver that binds ports, and an agent that attaches floating
// addresses. It needs root, and a network and mount namespace of its own (Inside). It knows nothing of bee.
package openstackfarm

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

//go:embed all:files
var files embed.FS

// Names of what the project has. Huge has more cores than the quota, NodeType is that of the hosts of Blazar. Cloud is
// used by an application credential, and ByPassword by its user's password.
const (
	Cloud      = "test"
	ByPassword = "password"
	Network    = "private"
	Image      = "debian-12"
	Small      = "m1.small"
	Huge       = "m1.huge"
	NodeType   = "compute_test"
)

const (
	databasePort = "33306"
	inside       = "BEE_TEST_OPENSTACK_INSIDE"
	venv         = "/var/cache/bee-tests/openstack" // of hack/openstack.sh
)

// Farm is the services while they run.
type Farm struct {
	t       testing.TB
	dir     string
	ctx     context.Context
	running sync.WaitGroup
}

// Inside reports whether this process is in namespaces of its own. If not, it runs the test again in such ones, whose
// result is the test's.
func Inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		return true
	}
	testkit.RequireRoot(t)
	c := exec.CommandContext(t.Context(), testkit.RequireTool(t, "unshare"), "--net", "--mount", "--propagation", "private", os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$", "-test.timeout", "30m")
	c.Env = append(os.Environ(), inside+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // else the services would outlive a test that is killed
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v", err)
	}
	t.Logf("in namespaces of its own:\n%s", out)
	return false
}

// Start starts the services. They end with the test.
func Start(t testing.TB) *Farm {
	t.Helper()
	for _, tool := range []string{"mariadbd", "ip", "sshd", "ssh-keygen", "python3"} {
		testkit.RequireTool(t, tool)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f := &Farm{t: t, dir: t.TempDir(), ctx: ctx}
	t.Cleanup(func() {
		f.output("sh", "-c", "for s in $(ip netns list | cut -d ' ' -f 1); do ip netns pids $s | xargs -r kill -9; done") //nolint:errcheck // there may be none
		cancel()
		f.running.Wait()
		if t.Failed() {
			f.logErrors()
		}
	})
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"find the services", f.find},
		{"make a network", f.network},
		{"write the files", f.unpack},
		{"make the databases", f.databases},
		{"start the services", f.serve},
	} {
		if err := step.run(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
	return f
}

// logErrors logs what the services have written last of errors.
func (f *Farm) logErrors() {
	logs, err := filepath.Glob(filepath.Join(f.dir, "log", "*.log"))
	for _, log := range logs {
		var raw []byte
		if raw, err = os.ReadFile(log); err != nil {
			break
		}
		var errors []string
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, " ERROR ") {
				errors = append(errors, line)
			}
		}
		if len(errors) > 0 {
			f.t.Logf("%s:\n%s", filepath.Base(log), strings.Join(errors[max(0, len(errors)-20):], ""))
		}
	}
	if err != nil {
		f.t.Log(err)
	}
}

// find finds the services, which hack/openstack.sh has installed.
func (f *Farm) find() error {
	if _, err := os.Stat(filepath.Join(venv, "done")); err != nil {
		return fmt.Errorf("%w: run hack/openstack.sh", err)
	}
	return nil
}

// network makes the network of the machines, which is this namespace's, too.
func (f *Farm) network() error {
	return f.output("sh", "-ec", "mkdir -p /run/netns /run/sshd; mount -t tmpfs none /run/netns; ip link set lo up; ip link add br0 type bridge; ip addr add 10.77.0.1/24 dev br0; ip link set br0 up; ip route add 198.51.100.0/28 dev br0")
}

// unpack writes the farm's files, and the image of the machines.
func (f *Farm) unpack() error {
	root, err := fs.Sub(files, "files")
	if err != nil {
		return err
	}
	if err := os.CopyFS(f.dir, root); err != nil {
		return err
	}
	for _, dir := range []string{"log", "lock", "images", "machines", "scratch", "bin", "db"} {
		if err := os.Mkdir(filepath.Join(f.dir, dir), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{ // what a start script may change of a machine, it changes here of nothing
		"ip": "exit 0", "iptables": "exit 0", "sysctl": "exit 0", "restorecon": "exit 0", "useradd": "exit 0", "pkill": "exit 0", "sync": "exit 0",
		"systemctl": "exit 1", "poweroff": "exit 0", "shutdown": "exit 0", "halt": "exit 0",
	} {
		if err := core.WriteProgram(filepath.Join(f.dir, "bin", name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			return err
		}
	}
	config := "HostKey /etc/ssh/ssh_host_ed25519_key\nHostKey /etc/ssh/ssh_host_ecdsa_key\nAuthorizedKeysFile none\nPermitRootLogin prohibit-password\nStrictModes no\nUsePAM no\nPidFile none\nMaxStartups 100\nKexAlgorithms curve25519-sha256\n" +
		"SetEnv XDG_CACHE_HOME=" + filepath.Join(f.dir, "cache") + " BEE_CACHE=" + filepath.Join(f.dir, "cache", "bee") + "\n"
	if err := f.output("sh", "-ec", `cp -a /etc "$1/etc"; rm -rf "$1/etc/ssh"; mkdir "$1/etc/ssh"; printf %s "$2" >"$1/etc/ssh/sshd_config"`, "sh", f.dir, config); err != nil {
		return err
	}
	return f.configure()
}

// databases starts MariaDB, and makes the tables of the services.
func (f *Farm) databases() error {
	data := filepath.Join(f.dir, "db")
	options := []string{"--no-defaults", "--user=root", "--datadir=" + data}
	boot := exec.CommandContext(f.ctx, "mariadbd", append(options, "--bootstrap")...)
	tables, err := os.ReadFile("/usr/share/mysql/mysql_system_tables.sql")
	if err != nil {
		return err
	}
	boot.Stdin = strings.NewReader("create database mysql;\nuse mysql;\n" + string(tables))
	if out, err := boot.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	f.daemon("mariadb", "mariadbd", append(options, "--socket="+filepath.Join(f.dir, "db.sock"), "--port="+databasePort, "--bind-address=127.0.0.1", "--pid-file="+filepath.Join(f.dir, "db.pid"),
		"--skip-grant-tables", "--skip-networking=0", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M", "--max-connections=300")...)
	if err := f.answers(databasePort); err != nil {
		return err
	}
	making := "import pymysql\nc = pymysql.connect(host='127.0.0.1', port=" + databasePort + ", user='o').cursor()\nfor d in '" + databases + "'.split(): c.execute('create database ' + d + ' character set utf8')"
	if err := f.python("-c", making); err != nil {
		return err
	}
	manage := func(program, config string, args ...string) func() error {
		return func() error {
			return f.output(filepath.Join(venv, "bin", program), append([]string{"--config-file", filepath.Join(f.dir, config)}, args...)...)
		}
	}
	keystone, url := []string{"--keystone-user", "root", "--keystone-group", "root"}, "http://127.0.0.1:35357/v3"
	chains := [][]func() error{
		{
			manage("keystone-manage", "keystone.conf", "db_sync"), manage("keystone-manage", "keystone.conf", append([]string{"fernet_setup"}, keystone...)...),
			manage("keystone-manage", "keystone.conf", append([]string{"credential_setup"}, keystone...)...),
			manage("keystone-manage", "keystone.conf", "bootstrap", "--bootstrap-password", "secret", "--bootstrap-public-url", url, "--bootstrap-internal-url", url, "--bootstrap-admin-url", url, "--bootstrap-region-id", "RegionOne"),
			manage("glance-manage", "glance-api.conf", "db_sync"), manage("placement-manage", "placement.conf", "db", "sync"),
			func() error { return f.python(filepath.Join(f.dir, "neutron_tables.py"), f.database("neutron")) },
		},
		{
			manage("nova-manage", "nova.conf", "api_db", "sync"), manage("nova-manage", "nova.conf", "cell_v2", "map_cell0", "--database_connection", f.database("nova_cell0")),
			manage("nova-manage", "nova.conf", "db", "sync"),
			manage("nova-manage", "nova.conf", "cell_v2", "create_cell", "--name", "cell1", "--transport-url", "fake://", "--database_connection", f.database("nova_cell1")),
			manage("blazar-db-manage", "blazar.conf", "upgrade", "head"),
		},
	}
	errs := make([]error, len(chains))
	var wg sync.WaitGroup
	for i, chain := range chains {
		wg.Go(func() {
			for _, step := range chain {
				if errs[i] == nil {
					errs[i] = step()
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// serve starts the services, and makes the project.
func (f *Farm) serve() error {
	serve := filepath.Join(f.dir, "serve.py")
	f.daemon("keystone", f.interpreter(), serve, "keystone.wsgi.api", "35357")
	if err := f.answers("35357"); err != nil {
		return err
	}
	if err := f.python(filepath.Join(f.dir, "catalog.py")); err != nil {
		return err
	}
	for module, port := range map[string]string{"placement": "8778", "neutron": "9696", "glance": "9292"} {
		f.daemon(module, f.interpreter(), serve, module+".wsgi.api", port)
	}
	if err := f.answers("8778"); err != nil {
		return err
	}
	f.daemon("nova", f.interpreter(), filepath.Join(f.dir, "nova_all.py"), filepath.Join(f.dir, "nova.conf"))
	f.daemon("blazar", f.interpreter(), filepath.Join(f.dir, "blazar_all.py"), filepath.Join(f.dir, "blazar.conf"))
	for _, port := range []string{"9696", "9292", "8774", "1234"} {
		if err := f.answers(port); err != nil {
			return err
		}
	}
	if err := f.output(filepath.Join(venv, "bin", "nova-manage"), "--config-file", filepath.Join(f.dir, "nova.conf"), "cell_v2", "discover_hosts"); err != nil {
		return err
	}
	if err := f.python(filepath.Join(f.dir, "project.py"), f.CloudsFile()); err != nil {
		return err
	}
	f.daemon("agent", f.interpreter(), filepath.Join(f.dir, "api.py"), "agent")
	return nil
}

// CloudsFile is the clouds.yaml of the project, by both credentials.
func (f *Farm) CloudsFile() string { return filepath.Join(f.dir, "clouds.yaml") }

// Scratch is a directory of which each machine has one of its own.
func (f *Farm) Scratch() string { return filepath.Join(f.dir, "scratch") }

// Break has Nova fail to build one machine.
func (f *Farm) Break() error { return os.WriteFile(filepath.Join(f.dir, "break"), nil, 0o600) }

// Reserve has Blazar lend the only host, of NodeType. From then on Nova launches nothing on it outside of a lease.
func (f *Farm) Reserve() error {
	return f.python(filepath.Join(f.dir, "api.py"), "reserve", NodeType)
}

// EndLeases has the leases of Blazar end with the next minute, as their operator may.
func (f *Farm) EndLeases() error { return f.python(filepath.Join(f.dir, "api.py"), "end_leases") }

// Left lists what there is in the project, a line each.
func (f *Farm) Left() (string, error) {
	out, err := f.command(f.interpreter(), filepath.Join(f.dir, "api.py"), "left").Output()
	return strings.TrimSpace(string(out)), err
}

func (f *Farm) interpreter() string { return filepath.Join(venv, "bin", "python") }

func (f *Farm) python(args ...string) error { return f.output(f.interpreter(), args...) }

// command returns a command that finds the farm, and of the user's settings nothing.
func (f *Farm) command(name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(f.ctx, name, args...)
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir, "FARM=" + f.dir, "PYTHONPATH=" + f.dir + ":" + filepath.Join(f.dir, "plug"), "PYTHONWARNINGS=ignore",
		"OS_KEYSTONE_CONFIG_DIR=" + f.dir, "OS_KEYSTONE_CONFIG_FILES=keystone.conf", "OS_PLACEMENT_CONFIG_DIR=" + f.dir,
		"OS_NEUTRON_CONFIG_DIR=" + f.dir, "OS_NEUTRON_CONFIG_FILES=neutron.conf;ml2.ini", "OS_GLANCE_CONFIG_DIR=" + f.dir, "OS_GLANCE_CONFIG_FILES=glance-api.conf",
	}
	c.Dir = f.dir
	return c
}

// output runs a command; an error has the end of what it wrote.
func (f *Farm) output(name string, args ...string) error {
	out, err := f.command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, out[max(0, len(out)-2000):])
	}
	return nil
}

// daemon runs a program until the test ends.
func (f *Farm) daemon(what, name string, args ...string) {
	c := f.command(name, args...)
	log, err := os.Create(filepath.Join(f.dir, "log", what+".out"))
	if err != nil {
		f.t.Fatal(err)
	}
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.running.Go(func() {
		err := c.Wait()
		log.Close()
		if f.ctx.Err() == nil {
			raw, _ := os.ReadFile(log.Name())
			f.t.Errorf("%s has ended: %v: %s", what, err, raw[max(0, len(raw)-2000):])
		}
	})
}

// answers waits until something listens on a port.
func (f *Farm) answers(port string) error {
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			return c.Close()
		}
		if f.t.Failed() || time.Since(begun) > 5*time.Minute { // a service has ended, or takes too long
			return fmt.Errorf("nobody answers at port %s: %w", port, err)
		}
	}
}
