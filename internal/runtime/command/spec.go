package command

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/devices"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/hostdir"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"golang.org/x/sys/unix"
)

// Label is the label that carries a container's owner.
const Label = "bee.owner"

// Inside are the paths of ours in every container.
const (
	InsideBinary = "/.bee/bee"
	InsideAgent  = "/.bee/rsh"
	InsideRun    = "/.bee/run"
)

// Host is what was found on this host for one container.
type Host struct {
	UID, GID int
	// Devices are those that the specification names, and GPUs.
	Devices []driver.Device
	// Memlock is the hard limit of locked memory in bytes; -1 is unlimited.
	Memlock int64
	// MayRaise reports whether this process may raise limits (CAP_SYS_RESOURCE).
	MayRaise bool
	// NoMqueue means that the kernel has no POSIX message queues.
	NoMqueue bool
}

// Resolve checks a specification, makes its paths absolute, puts our own mounts
// in front of its own and the driver's files of GPUs after them, and finds what
// the host has.
func Resolve(driverName string, s driver.ContainerSpec) (driver.ContainerSpec, Host, error) {
	resolved, h, err := resolve(s)
	if err != nil {
		err = &core.Error{Kind: core.KindOf(err), Op: "start " + driverName + " container", Object: s.Name, Err: err}
	}
	return resolved, h, err
}

func resolve(s driver.ContainerSpec) (driver.ContainerSpec, Host, error) {
	h := Host{UID: os.Geteuid(), GID: os.Getegid()}
	if s.StateDir == "" || s.RunDir == "" || s.Binary == "" {
		return s, h, errors.New("a container needs StateDir, RunDir and Binary")
	}
	gpus, err := devices.Host{}.Find(s.GPUs)
	if err != nil {
		return s, h, err
	}
	h.Devices = slices.Concat(s.Devices, driver.SameDevices(gpus.Devices))
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return s, h, fmt.Errorf("read limit of locked memory: %w", err)
	}
	if h.Memlock = int64(limit.Max); limit.Max == uint64(unix.RLIM_INFINITY) || h.Memlock < 0 {
		h.Memlock = -1
	}
	h.MayRaise = mayRaise()
	_, err = os.Stat("/dev/mqueue")
	h.NoMqueue = err != nil
	mounts := []driver.Mount{
		{Source: s.Binary, Target: InsideBinary, ReadOnly: true},
		{Source: s.Binary, Target: InsideAgent, ReadOnly: true}, // the same program by another name
		{Source: s.RunDir, Target: InsideRun, ReadOnly: true},
	}
	own := len(s.Mounts)
	dirs, err := makeDirs(s)
	if err != nil {
		return s, h, err
	}
	mounts = append(append(mounts, dirs...), s.Mounts...)
	for inside, path := range gpus.Files {
		mounts = append(mounts, driver.Mount{Source: path, Target: inside, ReadOnly: true})
	}
	libraries := mounts[3+len(dirs)+own:]
	sort.Slice(libraries, func(i, j int) bool { return libraries[i].Target < libraries[j].Target })
	s.Mounts = mounts
	sources := []*string{&s.Image.Tree}
	for i := range mounts {
		if mounts[i].Dir == nil {
			sources = append(sources, &mounts[i].Source)
		}
	}
	for i := range mounts {
		if dir := mounts[i].Dir; dir != nil {
			if mounts[i].Source, err = hostdir.Real(dir); err != nil {
				return s, h, err
			}
		}
	}
	for _, source := range sources {
		// The program may look from elsewhere (a daemon): links are followed here.
		real, err := realPath(*source)
		if err != nil {
			return s, h, &core.Error{Kind: core.NotFound, Op: "mount", Object: *source, Err: err}
		}
		*source = real
	}
	return s, h, nil
}

// makeDirs makes directories in the state directory to stand for those that the image
// lacks: only then does every program have them, whichever user the processes are inside.
func makeDirs(s driver.ContainerSpec) ([]driver.Mount, error) {
	var mounts []driver.Mount
	for i, dir := range s.Dirs {
		source := filepath.Join(s.StateDir, "dirs", strconv.Itoa(i))
		for _, m := range mounts { // one within another is in it
			if rel, below := strings.CutPrefix(dir, m.Target+"/"); below {
				source = filepath.Join(m.Source, rel)
			}
		}
		if err := os.MkdirAll(source, 0o755); err != nil {
			return nil, err
		}
		if source == filepath.Join(s.StateDir, "dirs", strconv.Itoa(i)) {
			mounts = append(mounts, driver.Mount{Source: source, Target: dir})
		}
	}
	return mounts, nil
}

// realPath is a path from the root, without links; that of none is none.
func realPath(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

func mayRaise() bool {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(raw), "\nCapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	bits, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return err == nil && bits&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// SecurityOptions are the values of --security-opt, as podman and docker read them. filter
// is that of the filter of system calls; "": the program's own.
func SecurityOptions(filter string) []string {
	options := []string{"no-new-privileges", "label=disable"} // SELinux would refuse the run's directories
	if filter != "" {
		options = append(options, "seccomp="+filter)
	}
	return options
}

// NoSeccomp refuses a specification that wants a filter of system calls, for
// programs that have none.
func NoSeccomp(driverName string, s driver.ContainerSpec) error {
	if !s.Seccomp {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "start " + driverName + " container", Object: s.Name, Err: errors.New("it has no filter of system calls"),
		Remedy: "Leave out `seccomp:`, or use the runtime rootless, docker or podman.",
	}
}

// MountOption is the value of --mount for a bind, as podman and docker read it.
func MountOption(m driver.Mount) string {
	fields := []string{"type=bind", "source=" + m.Source, "target=" + m.Target}
	if m.ReadOnly {
		fields = append(fields, "readonly")
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Write(fields)
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// InitOptions are the last ones of a docker's or podman's run: what the container
// gets from its host, and bee's init in its image.
func InitOptions(s driver.ContainerSpec, h Host, env []string) (argv []string) {
	for _, e := range env {
		argv = append(argv, "--env", e)
	}
	for _, e := range ExtraHosts(s.Hosts) {
		argv = append(argv, "--add-host", e)
	}
	for _, d := range h.Devices {
		argv = append(argv, "--device", deviceOption(d))
	}
	for _, m := range s.Mounts {
		argv = append(argv, "--mount", MountOption(m))
	}
	return append(argv, "--entrypoint", InsideBinary, s.Image.ArchiveTag, pid1.Command)
}

// deviceOption is the value of --device, as podman and docker read it.
func deviceOption(d driver.Device) string {
	if d.Source == d.Target {
		return d.Source
	}
	return d.Source + ":" + d.Target
}

// ExtraHosts turns lines of /etc/hosts into values of --add-host.
func ExtraHosts(lines []string) []string {
	var out []string
	for _, line := range lines {
		fields := strings.Fields(line)
		for i := 1; i < len(fields); i++ {
			out = append(out, fields[i]+":"+fields[0])
		}
	}
	return out
}

// longestLine is what podman and docker read of a line of an environment file, in bytes.
const longestLine = 60_000

// EnvFile writes an environment in the state directory, kept off command lines,
// which everyone on the host can read. Values of several lines, and long ones, fit no
// such file and are released.
func EnvFile(s driver.ContainerSpec) (path string, rest []string, err error) {
	path = filepath.Join(s.StateDir, "env")
	var b strings.Builder
	for _, e := range s.Env {
		if strings.ContainsAny(e, "\n\r") || len(e) > longestLine {
			rest = append(rest, e)
			continue
		}
		b.WriteString(e + "\n")
	}
	return path, rest, os.WriteFile(path, []byte(b.String()), 0o600)
}

// HostsFile writes the container's /etc/hosts, the host's own and the run's
// lines, in the state directory.
func HostsFile(s driver.ContainerSpec) (string, error) {
	raw, err := os.ReadFile("/etc/hosts")
	if err != nil {
		raw = []byte("127.0.0.1 localhost\n::1 localhost\n")
	}
	text := strings.TrimRight(string(raw), "\n") + "\n" + strings.Join(s.Hosts, "\n") + "\n"
	path := filepath.Join(s.StateDir, "hosts")
	return path, os.WriteFile(path, []byte(text), 0o644)
}
