package vm

import (
	"bufio"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// checkSSH logs in to the guests of a run in every way that there is.
func checkSSH(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	testkit.RequireTool(t, "ssh")
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Must("ssh", id, "1", "--", "hostname; id -un; docker ps -q | wc -l"); got != "lab-1\n"+me.Username+"\n1\n" {
		t.Errorf("by ssh guest 1 says %q", got)
	}
	if got := b.Must("ssh", id, "-l", "root", "--", "id -u"); got != "0\n" {
		t.Errorf("as root we are %q", got)
	}
	if r := b.Try("ssh", id, "--", "exit 7"); r.Code != 7 {
		t.Errorf("a command's code: %+v", r)
	}

	config := b.File("ssh_config", b.Must("ssh", "--config", id))
	local := b.File("to copy", strings.Repeat("much text\n", 100000))
	host := "bee-" + id + "-0"
	for _, argv := range [][]string{{"scp", "-F", config, local, host + ":/tmp/copied"}, {"scp", "-F", config, host + ":/tmp/copied", local + ".back"}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v %s", argv, err, out)
		}
	}
	if b.Read("to copy.back") != b.Read("to copy") {
		t.Error("scp there and back changed a file")
	}

	forward := b.Command("ssh", "--forward", "0", id)
	out, err := forward.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { forward.Process.Signal(syscall.SIGTERM); forward.Wait() }() //nolint:errcheck // it may have ended
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	login := func(command string) (string, error) {
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		return string(out), err
	}
	line = strings.TrimSpace(strings.Replace(line, "ssh ", "ssh -F none -o BatchMode=yes ", 1))
	if got, err := login(line + " hostname"); err != nil || got != "lab-0\n" {
		t.Errorf("%s: %q, %v", line, got, err)
	}
	other := filepath.Join(b.Work, "other")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	stranger := regexp.MustCompile(`-i '[^']*'`).ReplaceAllString(line, "-i "+other)
	if got, err := login(stranger + " hostname"); err == nil || !strings.Contains(got, "Permission denied (publickey)") {
		t.Errorf("another key opens it: %q, %v", got, err)
	}
	if got := b.Must("vm", "shell", id, "--", "sh", "-c", "cat /proc/net/tcp | awk '$4 == \"0A\"' | grep -c :0016 || true"); got != "0\n" {
		t.Errorf("something listens in the guest: %q", got)
	}
}

// checkHome builds an image where the site's user begins in a guest, in a home of his
// own: not every user has root's.
func checkHome(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	testkit.RequireTool(t, "ssh")
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	home := "/root"
	if me.Uid != "0" {
		home = "/home/" + me.Username
	}
	const scratch = `cd && pwd && stat -c '%U %a' . && printf "FROM scratch\nCOPY Dockerfile /\n" > Dockerfile && docker build -q . | cut -c -7`
	if got := b.Must("ssh", id, "--", scratch); got != home+"\n"+me.Username+" 700\nsha256:\n" {
		t.Errorf("an image is built in the home: %q", got)
	}
	if got := b.Must("vm", "shell", id, "--", "sh", "-c", "pwd"); got != "/root\n" {
		t.Errorf("the guest's root begins in %q", got)
	}
}
