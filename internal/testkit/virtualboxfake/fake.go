// Package virtualboxfake gives tests a program in place of VBoxManage, with the calls that BEE makes, on a file of
// machines. It is made by the manual, for the handling of errors by BEE: it records its calls, fails, hangs and lies. It
// shows nothing of VirtualBox itself.
package virtualboxfake

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// The arguments that make the test binary VBoxManage, with the directory of its machines, and the network of a guest.
const (
	fakeArg  = "fake-vboxmanage"
	guestArg = "fake-guest"
)

// Names and digits of the machine that tests clone.
const (
	BaseName     = "debian 12"
	BaseUUID     = "11111111-2222-4333-8444-555555555555"
	SnapshotUUID = "99999999-2222-4333-8444-555555555555"
)

// Disk is a hard disk at a place of a controller.
type Disk struct {
	Controller, UUID, File string
	Port, Device           int
}

// Machine is a machine as the stand-in knows it.
type Machine struct {
	Name, UUID, State string
	CPUs, MiB         int
	Card              string
	Others            []int
	Forwardings       []string // as NAME,tcp,127.0.0.1,PORT,,22
	Controllers       [][2]string
	Disks             []Disk
	Snapshots         [][2]string
	Shared            []string
	SnapshotShared    []string // what its snapshots share
	Folder            string
	PID               int // of its network
	// Locked counts the calls for which a machine that was powered off cannot be deleted yet.
	Locked int
}

// State is all that the stand-in knows.
type State struct {
	Version  string
	Machines []*Machine
	Calls    [][]string
	// Faults are what the next calls of a verb do: fail, hang, flood, or a text that is printed in place of the answer.
	Faults map[string]string
	// Farm and Addr are the emulated host that stands in for every guest; "": guests have no network.
	Farm, Addr string
}

// Fake is the stand-in of one test.
type Fake struct {
	dir string
	// Program is its path, and Bin the directory that has it.
	Program, Bin string
}

// New returns a stand-in with one machine, called BaseName, whose state a test may change.
func New(t testing.TB, change func(*State)) *Fake {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := &Fake{dir: t.TempDir()}
	f.Bin = filepath.Join(f.dir, "bin")
	f.Program = filepath.Join(f.Bin, "VBoxManage")
	if err := os.Mkdir(f.Bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := core.WriteProgram(f.Program, fmt.Appendf(nil, "#!/bin/sh\nexec %s %s %s \"$@\"\n", self, fakeArg, f.dir), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &State{Version: "7.0.20r163906", Machines: []*Machine{{
		Name: BaseName, UUID: BaseUUID, State: "poweroff", CPUs: 1, MiB: 2048, Card: "82540EM",
		Controllers: [][2]string{{"IDE", "PIIX4"}, {"SATA", "IntelAhci"}},
		Disks:       []Disk{{Controller: "SATA", UUID: "aaaaaaaa-2222-4333-8444-555555555555", File: "/home/u/VirtualBox VMs/debian 12/debian.vdi"}},
		Snapshots:   [][2]string{{"clean", SnapshotUUID}},
	}}}
	if change != nil {
		change(s)
	}
	f.Write(t, s)
	t.Cleanup(func() {
		for _, m := range f.Read(t).Machines {
			if m.PID > 0 {
				core.BestEffort(syscall.Kill(m.PID, syscall.SIGKILL))
			}
		}
	})
	return f
}

// Read returns all that the stand-in knows.
func (f *Fake) Read(t testing.TB) *State {
	t.Helper()
	s, err := readFake(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func readFake(dir string) (*State, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "state.json"))
	s := &State{}
	if err == nil {
		err = json.Unmarshal(raw, s)
	}
	return s, err
}

// Write changes it, while the program does not run.
func (f *Fake) Write(t testing.TB, s *State) {
	t.Helper()
	if err := writeFake(f.dir, s); err != nil {
		t.Fatal(err)
	}
}

func writeFake(dir string, s *State) error {
	raw, err := json.Marshal(s)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "new"), raw, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "state.json"))
	}
	return err
}

// Fault has the next calls of a verb go wrong; "": no more.
func (f *Fake) Fault(t testing.TB, verb, kind string) {
	t.Helper()
	s := f.Read(t)
	s.Faults = map[string]string{verb: kind}
	f.Write(t, s)
}

// WantNothingLeft finds guests, and files of leases, that are left.
func (f *Fake) WantNothingLeft(t testing.TB, dir string) {
	t.Helper()
	for _, m := range f.Read(t).Machines {
		if strings.HasPrefix(m.Name, "bee-") {
			t.Errorf("guest %s is left, %s", m.Name, m.State)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "leases")); err == nil && len(left) > 0 {
		t.Errorf("%d leases are left", len(left))
	}
}

// Verbs returns the calls that were made, by their verbs.
func (f *Fake) Verbs(t testing.TB) (verbs []string) {
	t.Helper()
	for _, c := range f.Read(t).Calls {
		verbs = append(verbs, c[0])
	}
	return verbs
}

// Main handles the processes that a Fake makes of the test binary. A TestMain calls it first and exits with the code
// where it was meant.
func Main(args []string) (code int, meant bool) {
	if len(args) < 3 {
		return 0, false
	}
	switch args[1] {
	case fakeArg:
		return fakeMain(args[2:]), true
	case guestArg:
		return guestMain(args[2:]), true
	}
	return 0, false
}

// fakeMain is VBoxManage with the machines of a directory.
func fakeMain(args []string) int {
	dir, args := args[0], args[1:]
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	var s *State
	if err == nil {
		s, err = readFake(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s.Calls = append(s.Calls, args)
	verb := args[0]
	if verb == "list" || verb == "controlvm" {
		verb += " " + args[len(args)-1]
	}
	fault := s.Faults[verb]
	switch fault {
	case "":
	case "fail":
		err = fmt.Errorf("the object is not ready")
	case "hang":
		if err := writeFake(dir, s); err != nil {
			return 2
		}
		lock.Close()
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, syscall.SIGINT)
		<-interrupted
		return 1
	case "stubborn": // it ends by a kill alone
		if err := writeFake(dir, s); err != nil {
			return 2
		}
		lock.Close()
		ignored := make(chan os.Signal, 1)
		signal.Notify(ignored, syscall.SIGINT)
		for range ignored {
		}
	case "flood":
		for range 3 << 10 {
			fmt.Println(strings.Repeat("x", 1<<10))
		}
	default:
		fmt.Println(fault)
	}
	if fault == "" {
		var text string
		if text, err = s.answer(dir, args); err == nil {
			fmt.Print(text)
		}
	}
	if werr := writeFake(dir, s); err == nil {
		err = werr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "VBoxManage: error:", err)
		return 1
	}
	return 0
}

func (s *State) find(word string) (*Machine, error) {
	for _, m := range s.Machines {
		if m.UUID == word {
			return m, nil
		}
	}
	return nil, fmt.Errorf("could not find a registered machine named '%s'", word)
}

// options are those of a call with one value each, and natpf1 with all that it has.
func options(args []string) map[string][]string {
	o := map[string][]string{}
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--register" || args[i] == "--remove" || args[i] == "--delete" || args[i] == "--machinereadable":
			o[args[i]] = nil
		case args[i] == "--natpf1" && args[i+1] == "delete":
			o["delete"] = append(o["delete"], args[i+2])
			i += 2
		case strings.HasPrefix(args[i], "--"):
			o[args[i]] = append(o[args[i]], args[i+1])
			i++
		}
	}
	return o
}

// answer does what a call asks for.
func (s *State) answer(dir string, args []string) (string, error) {
	switch args[0] {
	case "--version":
		return "WARNING: The character device /dev/vboxdrv does not exist.\n" + s.Version + "\n", nil
	case "list":
		var b strings.Builder
		for _, m := range s.Machines {
			if args[1] == "vms" || m.State == "running" {
				fmt.Fprintf(&b, "%q {%s}\n", m.Name, m.UUID)
			}
		}
		return b.String(), nil
	}
	m, err := s.find(args[1])
	if err != nil {
		return "", err
	}
	o := options(args[2:])
	one := func(name string) string {
		if len(o[name]) == 0 {
			return ""
		}
		return o[name][0]
	}
	if slices.Contains([]string{"modifyvm", "storagectl", "storageattach", "startvm", "unregistervm"}, args[0]) && m.State == "running" {
		return "", fmt.Errorf("the machine '%s' is already locked for a session", m.Name)
	}
	switch args[0] {
	case "showvminfo":
		return m.Text(), nil
	case "clonevm":
		return "", s.clone(m, one)
	case "modifyvm":
		return "", m.modify(o, one)
	case "storagectl":
		if _, remove := o["--remove"]; remove {
			m.Controllers = slices.DeleteFunc(m.Controllers, func(c [2]string) bool { return c[0] == one("--name") })
			return "", nil
		}
		kind := one("--controller")
		if kind == "VirtIO" {
			kind = "VirtioSCSI"
		}
		m.Controllers = append(m.Controllers, [2]string{one("--name"), kind})
	case "storageattach":
		port, _ := strconv.Atoi(one("--port"))
		m.Disks = slices.DeleteFunc(m.Disks, func(d Disk) bool { return d.Controller == one("--storagectl") && d.Port == port })
		if medium := one("--medium"); medium != "none" {
			m.Disks = append(m.Disks, Disk{Controller: one("--storagectl"), UUID: medium, Port: port, File: "/clone.vdi"})
		}
	case "startvm":
		m.State = "running"
		return "", s.network(dir, m)
	case "controlvm":
		if m.State != "running" {
			return "", fmt.Errorf("machine '%s' is not currently running", m.Name)
		}
		if m.PID > 0 {
			core.BestEffort(syscall.Kill(m.PID, syscall.SIGKILL))
		}
		m.State, m.PID, m.Locked = "poweroff", 0, 1
	case "unregistervm":
		if m.Locked > 0 { // as a session ends a moment later
			m.Locked--
			return "", fmt.Errorf("cannot unregister the machine '%s' while it is locked", m.Name)
		}
		s.Machines = slices.DeleteFunc(s.Machines, func(o *Machine) bool { return o == m })
		return "", os.RemoveAll(filepath.Join(m.Folder, m.Name))
	default:
		return "", fmt.Errorf("invalid command '%s'", args[0])
	}
	return "", nil
}

// clone copies a machine, whose disk gets another UUID.
func (s *State) clone(m *Machine, one func(string) string) error {
	if len(m.Disks) > 0 && one("--snapshot") == "" && m.State == "running" {
		return fmt.Errorf("the machine is running")
	}
	c := *m
	c.Name, c.UUID, c.Folder, c.Snapshots, c.State, c.PID = one("--name"), one("--uuid"), one("--basefolder"), nil, "poweroff", 0
	c.Disks = slices.Clone(m.Disks)
	if one("--snapshot") != "" {
		c.Shared = m.SnapshotShared
	}
	for i := range c.Disks {
		c.Disks[i].UUID = fmt.Sprintf("bbbbbbbb-2222-4333-8444-%012d", len(s.Calls)*10+i)
	}
	s.Machines = append(s.Machines, &c)
	file := filepath.Join(c.Folder, c.Name, c.Name+".vbox")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, []byte("<VirtualBox/>"), 0o600)
}

func (m *Machine) modify(o map[string][]string, one func(string) string) error {
	for _, name := range o["delete"] {
		m.Forwardings = slices.DeleteFunc(m.Forwardings, func(f string) bool { return strings.HasPrefix(f, name+",") })
	}
	if n, err := strconv.Atoi(one("--cpus")); err == nil {
		m.CPUs = n
	}
	if n, err := strconv.Atoi(one("--memory")); err == nil {
		m.MiB = n
	}
	if card := one("--nictype1"); card != "" {
		m.Card = card
	}
	m.Others = slices.DeleteFunc(m.Others, func(n int) bool { return one(fmt.Sprint("--nic", n)) == "none" })
	for _, f := range o["--natpf1"] {
		name, _, _ := strings.Cut(f, ",")
		if slices.ContainsFunc(m.Forwardings, func(have string) bool { return strings.HasPrefix(have, name+",") }) {
			return fmt.Errorf("a NAT rule of this name already exists")
		}
		m.Forwardings = append(m.Forwardings, f)
	}
	return nil
}

// Text is the machine as showvminfo prints it.
func (m *Machine) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "name=%q\ngroups=\"/\"\nUUID=%q\nmemory=%d\ncpus=%d\nVMState=%q\n", m.Name, m.UUID, m.MiB, m.CPUs, m.State)
	for i, c := range m.Controllers {
		fmt.Fprintf(&b, "storagecontrollername%d=%q\nstoragecontrollertype%d=%q\n", i, c[0], i, c[1])
	}
	for _, c := range m.Controllers {
		if c[0] == "IDE" {
			b.WriteString("\"IDE-1-0\"=\"emptydrive\"\n\"IDE-IsEjected-1-0\"=\"off\"\n\"IDE-1-1\"=\"none\"\n")
		}
	}
	for _, d := range m.Disks {
		fmt.Fprintf(&b, "\"%s-%d-%d\"=%q\n\"%s-ImageUUID-%d-%d\"=%q\n", d.Controller, d.Port, d.Device, d.File, d.Controller, d.Port, d.Device, d.UUID)
	}
	fmt.Fprintf(&b, "natnet1=\"nat\"\ncableconnected1=\"on\"\nnic1=\"nat\"\nnictype1=%q\n", m.Card)
	for i, f := range m.Forwardings {
		fmt.Fprintf(&b, "Forwarding(%d)=%q\n", i, f)
	}
	for n := 2; n <= 8; n++ {
		kind := "none"
		if slices.Contains(m.Others, n) {
			kind = "bridged"
		}
		fmt.Fprintf(&b, "nic%d=%q\n", n, kind)
	}
	for i, name := range m.Shared {
		fmt.Fprintf(&b, "SharedFolderNameMachineMapping%d=%q\n", i+1, name)
	}
	for i, snap := range m.Snapshots {
		end := strings.Repeat("-1", i)
		fmt.Fprintf(&b, "SnapshotName%s=%q\nSnapshotUUID%s=%q\n", end, snap[0], end, snap[1])
	}
	return b.String()
}

// network starts what leads from the forwarded port to the host that stands in for the guest.
func (s *State) network(dir string, m *Machine) error {
	if s.Farm == "" {
		return nil
	}
	i := slices.IndexFunc(m.Forwardings, func(f string) bool { return strings.HasPrefix(f, "bee-ssh,") })
	if i < 0 {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(dir, "guest.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	c := exec.Command(self, guestArg, s.Farm, s.Addr, strings.Split(m.Forwardings[i], ",")[3])
	c.Stderr, c.SysProcAttr = log, &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	m.PID = c.Process.Pid
	return nil
}

// guestMain passes connections to a port of 127.0.0.1 on to an emulated host.
func guestMain(args []string) int {
	ctx := context.Background()
	l, err := net.Listen("tcp", "127.0.0.1:"+args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		wg.Go(func() {
			defer c.Close()
			farm, err := emulate.Open(ctx, args[0])
			if err == nil {
				err = farm.Relay(ctx, args[1], c, c)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
}

// Eventually waits for a state of the stand-in.
func (f *Fake) Eventually(t testing.TB, what string, is func(*State) bool) {
	t.Helper()
	testkit.Eventually(t, 10*time.Second, func() error {
		if s, err := readFake(f.dir); err != nil || !is(s) {
			return fmt.Errorf("not yet: %s (%v)", what, err) //nolint:errorlint // for people
		}
		return nil
	})
}
