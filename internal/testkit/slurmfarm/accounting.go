package slurmfarm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// systemTables are where MariaDB, of Debian 12 and newer, has what makes the tables of its own
// that Slurm's procedures are kept in.
func systemTables() []string {
	return []string{"/usr/share/mysql/mysql_system_tables.sql", "/usr/share/mariadb/mariadb_system_tables.sql"}
}

// databaseVariable reports MariaDB's library, and so slurmdbd, of the socket.
const (
	databaseVariable = "MYSQL_UNIX_PORT"
	databaseSocket   = "db.socket"
)

// StartAccounted is Start with accounting: a real slurmdbd, whose limits and QOS
// slurmctld enforces. The default account of the user who runs the test is the
// one named, made with these further settings of sacctmgr; Account makes more. Which jobs
// preempt others is by their QOS here.
func StartAccounted(t testing.TB, n int, account string, settings ...string) *Farm {
	t.Helper()
	f := prepare(t, nil, n, nil)
	f.keepBooks(t)
	f.Account(t, account, settings...)
	f.Books(t, "modify", "user", userName(t), "set", "defaultaccount="+account) // root has one from the start
	f.run(t, n)
	return f
}

// Account makes an account, and the user who runs the test a member of it.
func (f *Farm) Account(t testing.TB, name string, settings ...string) {
	t.Helper()
	f.Books(t, "add", "account", name)
	f.Books(t, append([]string{"add", "user", userName(t), "account=" + name}, settings...)...)
}

// Books has sacctmgr change what slurmdbd keeps.
func (f *Farm) Books(t testing.TB, args ...string) {
	t.Helper()
	if out, err := f.Do(append([]string{"sacctmgr", "--immediate", "--quiet"}, args...)...); err != nil {
		t.Fatal(err, out)
	}
}

// Answered counts what slurmctld and slurmdbd have answered since they began, by the
// names that `sdiag` and `sacctmgr show stats` have for the questions.
func (f *Farm) Answered(t testing.TB) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, argv := range [][]string{{"sdiag"}, {"sacctmgr", "show", "stats"}} {
		out, err := f.Do(argv...)
		must(t, err)
		for line := range strings.Lines(out) { // REQUEST_PING ( 1008) count:1 ave_time:52 total_time:52
			words := strings.Fields(line)
			for _, word := range words {
				if number, ok := strings.CutPrefix(word, "count:"); ok && number != "" {
					counts[words[0]], err = strconv.Atoi(number)
					must(t, err)
				}
			}
		}
	}
	return counts
}

// keepBooks starts a database that only its socket leads to, and slurmdbd on the login
// node, and has slurm.conf say so.
func (f *Farm) keepBooks(t testing.TB) {
	t.Helper()
	f.tool["mariadbd"], f.tool["slurmdbd"] = f.find(t, "mariadbd"), f.find(t, "slurmdbd")
	var (
		tables []byte
		err    error
	)
	for _, path := range systemTables() {
		if tables, err = os.ReadFile(filepath.Join(f.root, path)); err == nil {
			break
		}
	}
	if err != nil {
		testkit.Missing(t, "MariaDB's system tables, at one of %q of %q: %v", systemTables(), f.root, err)
	}
	data, socket := f.file("data"), f.file(databaseSocket)
	must(t, os.Mkdir(data, 0o700))
	options := []string{"--no-defaults", "--user=" + userName(t), "--datadir=" + data, "--skip-grant-tables"}
	boot := f.command(0, append(append([]string{f.tool["mariadbd"]}, options...), "--bootstrap")...)
	boot.Stdin = bytes.NewReader(append([]byte("create database mysql;\nuse mysql;\n"), tables...))
	if out, err := boot.CombinedOutput(); err != nil {
		t.Fatalf("make a database: %v: %s", err, out)
	}
	f.daemon(t, 0, "mariadbd", append(options, "--skip-networking", "--socket="+socket, "--pid-file="+f.file("db.pid"))...)
	testkit.Eventually(t, 30*time.Second, func() error { _, err := os.Stat(socket); return err })

	must(t, os.WriteFile(f.file("slurmdbd.conf"), fmt.Appendf(nil, `AuthType=auth/munge
AuthInfo=socket=%s
DbdHost=%s
DbdAddr=%s
SlurmUser=%s
PidFile=%s
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=%[4]s
StorageLoc=slurm
`, f.file("munge.socket"), f.Names[0], f.Addrs[0], userName(t), f.file("slurmdbd.pid")), 0o600))
	conf, err := os.ReadFile(f.file("slurm.conf"))
	must(t, err)
	conf = bytes.ReplaceAll(conf, []byte("preempt/partition_prio"), []byte("preempt/qos"))
	must(t, os.WriteFile(f.file("slurm.conf"), fmt.Appendf(conf, `AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
AccountingStorageHost=%s
AccountingStoragePass=%s
`, f.Addrs[0], f.file("munge.socket")), 0o644))
	if f.root != "" {
		f.borrowLibrary(t)
	}
	f.daemon(t, 0, "slurmdbd", "-D")
	testkit.Eventually(t, 30*time.Second, func() error {
		out, err := f.Do("sacctmgr", "--immediate", "--quiet", "add", "cluster", "farm")
		if err != nil {
			err = fmt.Errorf("%w: %s\n%s", err, out, f.logs())
		}
		return err
	})
}

// borrowLibrary makes slurmdbd load this machine's library of MariaDB's clients. That of
// Debian 13 (11.8.9) takes no column to be allowed in a result, and slurmdbd ends.
func (f *Farm) borrowLibrary(t testing.TB) {
	t.Helper()
	const name = "libmariadb.so.3"
	found, err := filepath.Glob("/usr/lib/*/" + name)
	if err != nil || len(found) == 0 {
		testkit.Missing(t, "%s, of Debian's slurm-wlm-mysql-plugin: %v", name, err)
	}
	raw, err := os.ReadFile(found[0])
	must(t, err)
	f.libraries = f.file("lib")
	must(t, os.Mkdir(f.libraries, 0o700))
	must(t, os.WriteFile(filepath.Join(f.libraries, name), raw, 0o600))
}

func userName(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("id", "-un").Output()
	must(t, err)
	return filepath.Base(string(bytes.TrimSpace(out)))
}
