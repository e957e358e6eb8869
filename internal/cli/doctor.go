package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/vm"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// finding is one line of the doctor's report.
type finding struct {
	Area   string `json:"area"`
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Remedy string `json:"remedy,omitempty"`
	// Untried: whether it works is found out when it is used first.
	Untried bool `json:"untried,omitempty"`
}

// diagnosis is what `bee doctor --json` writes.
type diagnosis struct {
	Runtime  string    `json:"runtime"` // what auto would choose, or ""
	Why      string    `json:"why"`
	Findings []finding `json:"findings"`
}

func (a *app) newDoctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "doctor", Short: "Check what this machine and your sites can do, and what would be chosen", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := a.diagnose(c.Context())
			if err != nil {
				return err
			}
			return a.tellDiagnosis(d, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func (a *app) diagnose(ctx context.Context) (diagnosis, error) {
	if err := a.paths(); err != nil {
		return diagnosis{}, err
	}
	var d diagnosis
	add := func(f finding) { d.Findings = append(d.Findings, f) }
	add(finding{Area: "machine", Name: "host", OK: true, Detail: fmt.Sprintf("%s, %d cores, %s memory, linux/%s, kernel %s", hostname(), runtime.NumCPU(), memory(), runtime.GOARCH, kernel())})
	for _, dir := range []struct{ name, path string }{{"cache", a.cacheDir}, {"state", a.stateDir}, {"shared memory", "/dev/shm"}} {
		add(disk(dir.name, dir.path))
		if f, known := lockReach(dir.path); known {
			if warning, found := locks(dir.name, dir.path, f); found {
				add(warning)
			}
		}
	}
	for _, rt := range catalog.Runtimes() {
		facts, err := rt.Probe(ctx)
		if err != nil {
			facts = driver.Facts{Reason: err.Error(), Remedy: core.Remedy(err)}
		}
		add(finding{Area: "runtime", Name: rt.Info().Name, OK: facts.Usable, Detail: runtimeText(rt.Info().Summary, facts), Remedy: facts.Remedy})
		if facts.Usable && d.Runtime == "" {
			d.Runtime, d.Why = rt.Info().Name, "the first in order of preference that works here"
		}
	}
	if d.Runtime == "" {
		d.Why = "no runtime works here; see the remedies"
	}
	for _, tool := range []struct{ name, use string }{{"ssh", "for sites of provider ssh"}, {"mmdebstrap", "to build images from Debian packages"}, {"buildah", "to build Dockerfiles without a virtual machine"}, {qemu.Program(), "for virtual machines"}} {
		path, err := exec.LookPath(tool.name)
		f := finding{Area: "tool", Name: tool.name, OK: err == nil, Detail: path + " (" + tool.use + ")"}
		if err != nil {
			f.Detail, f.Remedy = "not installed (needed only "+tool.use+")", "Install the package that has "+tool.name+" if you want that."
		}
		add(f)
	}
	if f, found := sandbox(ctx); found {
		add(f)
	}
	add(shares())
	add(kvm(catalog.KnownAccel()))
	for _, device := range []struct{ name, path string }{{"InfiniBand", "/dev/infiniband"}, {"NVIDIA GPU", "/dev/nvidiactl"}, {"AMD GPU", "/dev/kfd"}} {
		if _, err := os.Stat(device.path); err == nil {
			add(finding{Area: "device", Name: device.name, OK: true, Detail: device.path})
		}
	}
	return d, a.diagnoseSites(ctx, add)
}

// runtimeText tells what a runtime is, with what was found out of it, or why it does
// not work.
func runtimeText(summary string, facts driver.Facts) string {
	if facts.Reason != "" {
		return facts.Reason
	}
	text := summary
	if facts.Version != "" {
		text += ", version " + facts.Version
	}
	for _, key := range slices.Sorted(maps.Keys(facts.Detail)) {
		text += fmt.Sprintf(", %s: %s", key, facts.Detail[key])
	}
	return text
}

// kvm tells what is known of virtual machines at the host's own speed; accel and
// why are vm.KnownAccel's.
func kvm(accel, why string, err error) finding {
	f := finding{Area: "device", Name: "KVM", OK: accel == vm.KVM, Detail: why}
	switch {
	case err != nil:
		f.Detail, f.Remedy = err.Error()+emulated, "Where the host has it, ask the administrator to add you to the group kvm."
	case accel == "":
		f.Untried, f.Detail = true, "/dev/kvm opens, but whether guests run with it is not tried yet: the first virtual machine on this host finds out"
	case !f.OK:
		f.Detail, f.Remedy = why+emulated, "In a virtual machine of a cloud, ask for one in which others can run (nested virtualisation), or for the hardware itself."
	}
	return f
}

const emulated = " (virtual machines run in software emulation, which is slow)"

// sandbox reports a QEMU of this host that runs without its sandbox; found is false where
// there is no QEMU, or one with a sandbox.
func sandbox(ctx context.Context) (f finding, found bool) {
	path, err := exec.LookPath(qemu.Program())
	if err != nil || qemu.HasSandbox(ctx, []string{path}) {
		return finding{}, false
	}
	return finding{
		Area: "tool", Name: "QEMU's sandbox", Detail: path + " is built without seccomp: virtual machines run, and nothing limits the system calls of QEMU where a guest breaks into it",
		Remedy: "Install a QEMU that is built with seccomp, as distributions have it; or use a guest image of `bee vm build`, which carries one.",
	}, true
}

// shares tells whether guests can have this host's directories by virtiofs.
func shares() finding {
	f := finding{Area: "tool", Name: "virtiofsd", OK: true, Detail: "works, for `vm: {share: virtiofs}`"}
	self, err := os.Executable()
	if err == nil {
		_, err = qemu.ChooseShareServer(self, "")
	}
	if err != nil {
		f.OK, f.Detail, f.Remedy = false, err.Error()+" (needed only for `vm: {share: virtiofs}`; guests have their hosts' directory by 9p otherwise)", core.Remedy(err)
	}
	return f
}

func (a *app) diagnoseSites(ctx context.Context, add func(finding)) error {
	sites, err := a.findSites()
	if err != nil {
		return err
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	if sites.Path != "" {
		add(finding{Area: "sites", Name: "file", OK: true, Detail: sites.Path})
	}
	for _, site := range sites.Sites {
		p, err := catalog.Provider(site, catalog.Options{StateDir: a.stateDir, Cache: a.cacheDir, Binary: binary})
		if err != nil {
			add(finding{Area: "site", Name: site.Name, Detail: err.Error(), Remedy: core.Remedy(err)})
			continue
		}
		add(diagnoseSite(ctx, site, p))
	}
	return nil
}

// diagnoseSite asks a site, and has its hosts try the runtime that it names.
func diagnoseSite(ctx context.Context, site spec.Site, p driver.Provider) finding {
	no := func(why, remedy string) finding {
		return finding{Area: "site", Name: site.Name, Detail: why, Remedy: remedy}
	}
	facts, err := p.Probe(ctx)
	switch {
	case err != nil:
		return no(err.Error(), core.Remedy(err))
	case !facts.Usable:
		return no(facts.Reason, facts.Remedy)
	}
	detail := p.Info().Summary
	if facts.Reason != "" {
		detail = facts.Reason
	}
	if least := spec.DefaultCheckpointGrace; facts.Notice > 0 && facts.Notice < least {
		detail += fmt.Sprintf(", kills a job %s after it takes its hosts back early (a checkpoint may take %s)", durationText(facts.Notice), durationText(least))
	}
	if facts.Preempted > 0 {
		detail += fmt.Sprintf(", has jobs make way for such that come first (killed %s later)", durationText(facts.Preempted))
	}
	if err := echo(ctx, p); err != nil {
		return no(detail+": files cannot be brought there and back: "+err.Error(), core.Remedy(err))
	}
	works, host, err := p.TryRuntime(ctx, site.Runtime)
	if host != "" {
		detail += ", on " + host
	}
	switch {
	case err != nil:
		return no(detail+": no containers: "+err.Error(), core.Remedy(err))
	case works != "":
		detail += ": containers by " + works
	}
	return finding{Area: "site", Name: site.Name, OK: true, Detail: detail, Remedy: facts.Remedy}
}

// echoSize is how much the doctor brings to a site and back.
const echoSize = 64 << 10

// echo brings something that nobody can guess to a site and back.
func echo(ctx context.Context, p driver.Provider) error {
	data := make([]byte, echoSize)
	rand.Read(data)
	got, err := p.Echo(ctx, data)
	if err == nil && !bytes.Equal(got, data) {
		err = errors.New("what came back is not what was brought")
	}
	return err
}

// tellDiagnosis writes a diagnosis, and fails where nothing would run here.
func (a *app) tellDiagnosis(d diagnosis, asJSON bool) error {
	write := a.writeDiagnosis
	if asJSON {
		write = func(d diagnosis) error { return a.writeJSON(d) }
	}
	if err := write(d); err != nil {
		return err
	}
	if d.Runtime == "" {
		return exitError{exitUnsupported}
	}
	return nil
}

func (a *app) writeDiagnosis(d diagnosis) error {
	w := newTable(a.stdout)
	for _, f := range d.Findings {
		mark := "no"
		switch {
		case f.OK:
			mark = "ok"
		case f.Untried:
			mark = "?"
		}
		w.row(mark, f.Area, f.Name, f.Detail)
		if !f.OK && f.Remedy != "" {
			w.row("", "", "", "→ "+f.Remedy)
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	verdict := d.Why
	if d.Runtime != "" {
		verdict = fmt.Sprintf("runtime: auto would choose %s: %s.", d.Runtime, d.Why)
	}
	_, err := fmt.Fprintln(a.stdout, "\n"+verdict)
	return err
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "this machine"
	}
	return name
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

func memory() string {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return "unknown"
	}
	return bytesText(int64(info.Totalram) * int64(info.Unit))
}

// disk tells how much space a directory, or the first above it that exists, has.
func disk(name, dir string) finding {
	at := dir
	for {
		var st unix.Statfs_t
		if err := unix.Statfs(at, &st); err == nil {
			free := int64(st.Bavail) * st.Bsize
			f := finding{Area: "disk", Name: name, OK: free > 1<<30, Detail: fmt.Sprintf("%s, %s free", dir, bytesText(free))}
			if !f.OK {
				f.Remedy = "Free space there, or choose another directory."
			}
			return f
		}
		i := strings.LastIndexByte(at, '/')
		if i <= 0 {
			return finding{Area: "disk", Name: name, Detail: dir + " cannot be looked at"}
		}
		at = at[:i]
	}
}
