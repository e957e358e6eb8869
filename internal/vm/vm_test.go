package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/vm/qemu"
)

// guestVariable names the guest image for processes of the test, and
// templatesVariable the directory of its templates.
const (
	guestVariable     = "BEE_TEST_GUEST_TREE"
	templatesVariable = "BEE_TEST_TEMPLATES"
)

func newRuntime() driver.Runtime {
	binary := os.Getenv("BEE_TEST_BINARY")
	return New(Options{
		Binary: binary, Guest: os.Getenv(guestVariable), Templates: os.Getenv(templatesVariable), Accel: TCG, CPU: "max", Topology: qemu.Topology{Sockets: 1, Cores: 2, Threads: 1},
		Memory: 1 << 30, Disk: 4 << 30, SocketName: "node.sock",
	})
}

// templates is a directory that tests of guests from a template have together.
var templates string // of the whole process, as it is removed with it

func TestMain(m *testing.M) {
	drivertest.OwnerMain(newRuntime)
	os.Exit(withTemplates(m))
}

func withTemplates(m *testing.M) int {
	var err error
	if templates, err = os.MkdirTemp("", "bee-templates-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(templates)
	return m.Run()
}

// guest builds the guest image, once for all tests.
func guest(t *testing.T) string {
	t.Helper()
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, qemu.Program())
	b := testkit.NewBee(t)
	id := strings.TrimSpace(b.Must("vm", "build"))
	_, hex, _ := strings.Cut(id, ":")
	for _, e := range b.Env {
		if cache, ok := strings.CutPrefix(e, "BEE_CACHE="); ok {
			return filepath.Join(cache, "trees", hex)
		}
	}
	t.Fatal("the test's bee has no cache")
	return ""
}

// ofGuests are the cases that a guest itself decides. The docker inside passes the others
// in its own suite; here they run in `make test-long`.
func ofGuests() []string {
	if testkit.Everything() {
		return nil
	}
	return []string{
		"Exec", "Inherited", "Sockets", "Codes", "Signals", "Terminal", "Identity", "Limits", "Names", "Confined", "SharedMemory", "Orphans", "Use", "BigOutput", "Apart",
		"Probe", "LinksOut", "JobLinks", "Mounts", "Memory", "SiteDirectories", "Scratch", "Stop", "KillOwner",
	}
}

// TestConformance starts a machine for each case, most of them from a template.
func TestConformance(t *testing.T) {
	binary := testkit.Binary(t)
	t.Setenv(templatesVariable, templates)
	t.Setenv("BEE_TEST_BINARY", binary)
	t.Setenv(guestVariable, guest(t))
	drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return newRuntime() }, Binary: binary, AtOnce: 2, OwnKernel: true, Only: ofGuests()}.Run(t)
}

// TestHostsWithoutQEMU: the one that travels with the guest image boots it, and
// takes nothing from its host; nor does its virtiofsd.
func TestHostsWithoutQEMU(t *testing.T) {
	tree, binary, busybox := guest(t), testkit.Binary(t), testkit.RequireTool(t, "busybox")
	t.Setenv("BEE_TEST_BINARY", binary)
	t.Setenv(guestVariable, tree)
	path := t.TempDir() // of what the suite makes its image
	if err := os.Symlink(busybox, filepath.Join(path, "busybox")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", path)
	bundled := qemu.Bundled(tree)
	if got := qemu.Choose(t.Context(), tree); bundled == nil || !slices.Equal(got, bundled) {
		t.Fatalf("without one in PATH, %q is chosen", got)
	}
	for _, program := range []string{"qemu", "virtiofsd", "mke2fs", "e2fsck"} {
		out, err := exec.Command(filepath.Join(tree, "qemu", "loader"), "--library-path", filepath.Join(tree, "qemu", "lib"), "--list", filepath.Join(tree, "qemu", program)).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			if _, from, ok := strings.Cut(line, " => "); ok && !strings.HasPrefix(from, tree) {
				t.Errorf("%s uses a library of the host's: %s", program, line)
			}
		}
	}
	r := newRuntime().(*Runtime)
	if r.o.ShareServer = qemu.BundledShareServer(binary, tree); r.o.ShareServer == nil {
		t.Fatal("no virtiofsd travels with it")
	}
	drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return r }, Binary: binary, OwnKernel: true, Only: []string{"Mounts"}}.Run(t)
}

// own gives a runtime for the test to change, and the suite for it.
func own(t *testing.T) (*Runtime, drivertest.RuntimeSuite) {
	t.Helper()
	binary := testkit.Binary(t)
	t.Setenv("BEE_TEST_BINARY", binary)
	t.Setenv(guestVariable, guest(t))
	r := newRuntime().(*Runtime)
	return r, drivertest.RuntimeSuite{New: func(testing.TB) driver.Runtime { return r }, Binary: binary, OwnKernel: true}
}

// fromTemplate has the guests of a runtime come from the template that tests have together,
// which is made where it is not there yet.
func fromTemplate(t *testing.T, r *Runtime) {
	t.Helper()
	r.o.Templates = templates
	b := boot{
		qemu: r.machine(), guest: r.o.Guest, binary: r.o.Binary, config: config("first"), disk: r.o.Disk, dial: refuse, dir: t.TempDir(), templates: templates,
		report: func(string) {},
	}
	of, may := b.template(t.Context())
	for wanted := 0; ; wanted++ { // it is due when it is wanted for the second time
		ready, err := of.Ready(t.Context(), b.report, func() error { return b.makeTemplate(t.Context(), of) })
		if ready {
			return
		}
		if err != nil || !may || wanted == 1 {
			t.Fatalf("no template was made: %v", err)
		}
	}
}

// A guest that gets stuck before anything of the user's has run in it is
// replaced by another.
func TestAStuckGuestIsReplaced(t *testing.T) {
	r, s := own(t)
	fromTemplate(t, r)
	r.timeout = 40 * time.Second
	var reported []string
	r.o.Report = func(message string) {
		reported = append(reported, message)
		if len(reported) == 1 { // it is up, and has no container yet
			for _, pid := range freezeChildren(t) {
				printOnConsole(t, pid, "last-words\n") // a guest from a template has printed nothing
			}
		}
	}
	s.Only = []string{"Codes"}
	s.Run(t)
	if len(reported) < 4 || !strings.Contains(reported[1], "stuck") || !strings.Contains(reported[1], "last-words") {
		t.Errorf("reported: %q", reported)
	}
}

// A guest that answers nothing any more while its container runs is ended.
func TestASilentGuestIsEnded(t *testing.T) {
	r, s := own(t)
	fromTemplate(t, r)
	r.silence = 10 * time.Second
	s.Frozen(t, func() { freezeChildren(t) })
}

// printOnConsole has a machine's console show a text.
func printOnConsole(t *testing.T, pid int, text string) {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	_, rest, _ := strings.Cut(string(raw), "file,id=console,path=")
	path, _, _ := strings.Cut(rest, "\x00")
	if err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Error(err)
	}
}

// freezeChildren stops this process's machines, and returns them.
func freezeChildren(t *testing.T) (pids []int) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Error(err)
	}
	for _, file := range files {
		raw, _ := os.ReadFile(file)
		f := strings.Fields(string(raw))
		if len(f) < 4 || f[3] != strconv.Itoa(os.Getpid()) || !strings.HasPrefix(f[1], "(qemu") {
			continue
		}
		pid, err := strconv.Atoi(f[0])
		if err != nil || syscall.Kill(pid, syscall.SIGSTOP) != nil {
			t.Errorf("%s cannot be stopped: %v", f[0], err)
			continue
		}
		pids = append(pids, pid)
	}
	return pids
}

// TestAnotherArchitecture boots a guest image of arm64 in software emulation, to
// docker ready. It is tried by hand, with the tree of such an image and a bee of
// that architecture.
func TestAnotherArchitecture(t *testing.T) {
	tree, binary := os.Getenv("BEE_TEST_ARM64_TREE"), os.Getenv("BEE_TEST_ARM64_BINARY")
	if tree == "" || binary == "" {
		t.Skip("BEE_TEST_ARM64_TREE and BEE_TEST_ARM64_BINARY are not set")
	}
	testkit.RequireTool(t, qemu.ProgramFor("arm64"))
	r := New(Options{
		Binary: binary, Guest: tree, Arch: "arm64", Program: []string{qemu.ProgramFor("arm64")}, Accel: TCG, CPU: "max,pauth-impdef=on",
		Topology: qemu.Topology{Sockets: 1, Cores: 2, Threads: 1}, Memory: 1 << 30, Disk: 4 << 30, SocketName: "node.sock",
	})
	f, err := r.Probe(t.Context())
	if err != nil || !f.Usable {
		t.Fatalf("it does not boot: %+v, %v", f, err)
	}
	t.Logf("%s: %s", f.Version, f.Reason)
}

func TestAccelIsFoundByTrying(t *testing.T) {
	tree := guest(t)
	keep := t.TempDir()
	accel, why, err := Accel(t.Context(), []string{qemu.Program()}, tree, testkit.Binary(t), keep)
	if err != nil || why == "" || accel != KVM && accel != TCG {
		t.Fatalf("%q (%s), %v", accel, why, err)
	}
	again, whyAgain, err := Accel(t.Context(), []string{qemu.Program()}, "", "", keep)
	if _, noDevice := os.Stat("/dev/kvm"); noDevice == nil && (err != nil || again != accel || whyAgain != why) {
		t.Errorf("the verdict was not kept: %q (%s), %v", again, whyAgain, err)
	}
}

func TestMemoryThatIsNotThere(t *testing.T) {
	r, here := new(Runtime), driver.ContainerSpec{Hostname: "here"}
	if _, err := r.reserved(here, 1<<60, 0, false); !core.IsKind(err, core.Unsupported) || !strings.Contains(err.Error(), "1099511627776 MiB") {
		t.Errorf("an exbibyte: %v", err)
	}
	held, err := r.reserved(here, 1, 0, false)
	if err != nil || held == nil {
		t.Errorf("a byte: %v, %v", held, err)
	}
	held.Release()
	if _, err := r.reserved(here, 1<<60, 0, true); !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "`huge_pages`") {
		t.Errorf("an exbibyte in huge pages: %v", err)
	}
}

// TestManyInputsAreOneDevice: a machine has room for some thirty, of all kinds.
func TestManyInputsAreOneDevice(t *testing.T) {
	host := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	volume, inputs := filepath.Join(host, "volume"), filepath.Join(host, "inputs")
	if err := errors.Join(os.Mkdir(volume, 0o755), os.Mkdir(inputs, 0o755), os.Symlink(host, link)); err != nil {
		t.Fatal(err)
	}
	var mounts, want []driver.Mount
	for i := range 40 {
		n, target := strconv.Itoa(i), "/in/"+strconv.Itoa(i)
		create := os.Mkdir
		if i%2 == 1 {
			create = func(name string, mode os.FileMode) error { return os.WriteFile(name, nil, mode) }
		}
		if err := create(filepath.Join(inputs, n), 0o755); err != nil {
			t.Fatal(err)
		}
		mounts = append(mounts, driver.Mount{Source: filepath.Join(link, "inputs", n), Target: target})
		want = append(want, driver.Mount{Source: "/mnt/bee1/" + n, Target: target})
	}
	mounts = append(mounts, driver.Mount{Source: volume, Target: "/volume"}) // the first one in the guest all the same
	want = append(want, driver.Mount{Source: "/mnt/bee0", Target: "/volume"})
	for _, server := range [][]string{nil, {"server"}} {
		b := boot{qemu: qemu.Machine{Program: []string{"qemu"}, Topology: qemu.Topology{Sockets: 1, Cores: 1, Threads: 1}}}
		got, err := b.share(mounts, Options{Inputs: filepath.Join(link, "inputs"), ShareServer: server})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the container's mounts are %v, %v", got, err)
		}
		argv, _ := b.qemu.Command()
		if n := strings.Count(strings.Join(argv, " "), ",mount_tag="); n != 2 || len(b.config.Shares) != 2 {
			t.Errorf("%d devices, and the guest mounts %v", n, b.config.Shares)
		}
	}
}

// A guest is saved while its job runs, and continues elsewhere. It came from a
// template, which the machine there knows nothing of.
func TestAGuestIsMoved(t *testing.T) {
	r, s := own(t)
	fromTemplate(t, r)
	r.o.Peers = &driver.Peers{Members: []driver.Peer{{Name: "suite-host"}}, Env: []string{"PATH=/bin"}, Dir: "/"}
	s.Moved(t)
}
