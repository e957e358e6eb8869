package qemu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// virtiofsd gives the command of a server.
func virtiofsd(t *testing.T) []string {
	t.Helper()
	command, err := ChooseShareServer(testkit.Binary(t), "")
	if core.IsKind(err, core.NotFound) {
		testkit.Missing(t, "virtiofsd (Debian: qemu-system-common): %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return command
}

func TestShareServer(t *testing.T) {
	command := virtiofsd(t)
	s, err := StartShareServer(command, filepath.Join(t.TempDir(), "there, is none"))
	if err != nil {
		t.Fatal(err)
	}
	s.Socket.Close()
	<-s.Done()
	if printed := s.LastOutput(); !strings.Contains(printed, "there, is none") {
		t.Errorf("of a directory that is not there it says %q", printed)
	}
	if err := tryShareServer([]string{command[0], ServerCommand, "/bin/false"}); err == nil {
		t.Error("a server that ends at once works")
	}
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), "bee-share*"))
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestAShareByItsDescriptor: whatever has taken the place of the directory since.
func TestAShareByItsDescriptor(t *testing.T) {
	command, dir := virtiofsd(t), filepath.Join(t.TempDir(), "data, all")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	s, err := Share{Dir: f, Server: command}.serve()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Kill()
	defer s.Socket.Close()
	if err := s.try(); err != nil {
		t.Error(err)
	}
	m := Machine{Shares: []Share{{Dir: f, Tag: "t", ReadOnly: true}}}
	bare(t, m) // which fails where QEMU cannot open the directory
}

// A machine ends with the server of its share, and the server with the machine.
func TestMachineAndServerEndTogether(t *testing.T) {
	m := Machine{Shares: []Share{{Path: t.TempDir(), Tag: "t", Server: virtiofsd(t)}}}
	p, _ := bare(t, m)
	p.cmd.Process.Kill() // as others would
	<-p.servers[0].Done()
	p, _ = bare(t, m)
	p.servers[0].Kill()
	<-p.Done()
	if printed := p.LastOutput(); !strings.Contains(printed, "virtiofsd") {
		t.Errorf("the machine says %q", printed)
	}
}
