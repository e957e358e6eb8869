package setupcmd

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

	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rdma"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/vm"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/bee-hpc/bee/internal/volume/burst/mount"
	"github.com/spf13/cobra"
)

// DoctorCommand returns the command `doctor`.
func (a *Commands) DoctorCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "doctor", Short: "Check what this machine and your sites can do, and what would be chosen", Args: cobra.NoArgs,
		Long: `Check this machine and each of your sites, and end with a verdict. Each line begins with
a mark:

  ok   works
  -    absent; needed only for what the line names
  !    works, with a drawback that the line names
  ?    not tried yet
  no   needed and missing, with its remedy below`,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := a.diagnose(c.Context())
			if err != nil {
				return err
			}
			return a.printDiagnosis(d, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func (a *Commands) diagnose(ctx context.Context) (diagnosis, error) {
	if err := a.Paths(); err != nil {
		return diagnosis{}, err
	}
	sites, err := a.FindSites()
	if err != nil {
		return diagnosis{}, err
	}
	var d diagnosis
	add := func(f finding) { d.Findings = append(d.Findings, f) }
	add(finding{Area: "machine", Name: "host", Status: works, Detail: fmt.Sprintf("%s, %d cores, %s memory, linux/%s, kernel %s", hostname(), runtime.NumCPU(), memory(), runtime.GOARCH, kernel())})
	for _, dir := range []struct{ name, path string }{{"cache", a.CacheDir}, {"state", a.StateDir}, {"shared memory", "/dev/shm"}} {
		add(disk(dir.name, dir.path))
		if f, known := lockReach(dir.path); known {
			if warning, found := locks(dir.name, dir.path, f); found {
				add(warning)
			}
		}
	}
	a.diagnoseRuntimes(ctx, &d, of(sites, "local"))
	for _, tool := range []struct {
		name, use string
		needed    bool
	}{
		{"ssh", "for sites of provider ssh, aws, openstack and virtualbox", of(sites, "ssh") || of(sites, "aws") || of(sites, "openstack") || of(sites, "virtualbox")},
		{"ssh-keygen", "for sites of provider aws and openstack", of(sites, "aws") || of(sites, "openstack")},
		{"VBoxManage", "for sites of provider virtualbox", of(sites, "virtualbox")},
		{"mmdebstrap", "to build images from Debian packages", false},
		{"buildah", "to build Dockerfiles without a virtual machine", false},
		{qemu.Program(), "for virtual machines", false},
	} {
		path, err := exec.LookPath(tool.name)
		f := finding{Area: "tool", Name: tool.name, Status: works, Detail: path + " (" + tool.use + ")"}
		if err != nil {
			f.Status, f.Detail, f.Remedy = absent, "not installed (needed only "+tool.use+")", "Install the package that has "+tool.name+" if you want that."
		}
		if err != nil && tool.needed {
			f.Status, f.Detail, f.Remedy = missing, "not installed (needed "+tool.use+")", "Install the package that has "+tool.name+"."
		}
		add(f)
	}
	if f, found := sandbox(ctx); found {
		add(f)
	}
	add(shares())
	add(bursts(ctx))
	add(kvm(catalog.KnownAccel()))
	d.addRDMA(rdma.Host{}.Look())
	d.addFunctions(rdma.Host{}.Functions())
	for _, device := range []struct{ name, path string }{{"NVIDIA GPU", "/dev/nvidiactl"}, {"AMD GPU", "/dev/kfd"}} {
		if _, err := os.Stat(device.path); err == nil {
			add(finding{Area: "device", Name: device.name, Status: works, Detail: device.path})
		}
	}
	return d, a.diagnoseSites(ctx, sites, add)
}

// diagnoseRuntimes tries all runtimes. One of them is enough; none is needed here where no
// site is this machine.
func (a *Commands) diagnoseRuntimes(ctx context.Context, d *diagnosis, needed bool) {
	first := len(d.Findings)
	for _, rt := range catalog.Runtimes() {
		facts, err := rt.Probe(ctx)
		if err != nil {
			facts = driver.Facts{Reason: err.Error(), Remedy: core.Remedy(err)}
		}
		f := finding{Area: "runtime", Name: rt.Info().Name, Status: absent, Detail: runtimeText(rt.Info().Summary, facts), Remedy: facts.Remedy}
		if facts.Usable {
			f.Status = works
		}
		d.Findings = append(d.Findings, f)
		if facts.Usable && d.Runtime == "" && catalog.Preferred(f.Name) {
			d.Runtime, d.Why = rt.Info().Name, "the first in order of preference that works here"
		}
	}
	if d.Runtime != "" {
		return
	}
	d.Why = "no runtime works here; see the remedies"
	for i := first; i < len(d.Findings) && needed; i++ {
		d.Findings[i].Status = missing
	}
}

// of reports whether a site of a provider is in a sites file.
func of(f spec.SitesFile, provider string) bool {
	return slices.ContainsFunc(f.Sites, func(s spec.Site) bool { return s.Provider == provider })
}

// runtimeText reports what a runtime is, with what was found out of it, or why it does
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

// kvm reports what is known of virtual machines at the host's own speed; accel and
// why are vm.KnownAccel's.
func kvm(accel, why string, err error) finding {
	f := finding{Area: "device", Name: "KVM", Status: absent, Detail: why}
	switch {
	case err != nil:
		f.Detail, f.Remedy = err.Error()+emulated, "Where the host has it, ask the administrator to add you to the group kvm."
	case accel == "":
		f.Status, f.Detail = untried, "/dev/kvm opens, but whether guests run with it is not tried yet: the first virtual machine on this host finds out"
	case accel == vm.KVM:
		f.Status = works
	default:
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
		Area: "tool", Name: "QEMU's sandbox", Status: risky, Detail: path + " is built without seccomp: virtual machines run, and nothing limits the system calls of QEMU where a guest breaks into it",
		Remedy: "Install a QEMU that is built with seccomp, as distributions have it; or use a guest image of `bee vm build`, which carries one.",
	}, true
}

// shares reports whether guests can have this host's directories by virtiofs.
func shares() finding {
	f := finding{Area: "tool", Name: "virtiofsd", Status: works, Detail: "works, for `vm: {share: virtiofs}`"}
	self, err := os.Executable()
	if err == nil {
		_, err = qemu.ChooseShareServer(self, "")
	}
	if err != nil {
		f.Status, f.Detail, f.Remedy = absent, err.Error()+" (needed only for `vm: {share: virtiofs}`; guests have their hosts' directory by 9p otherwise)", core.Remedy(err)
	}
	return f
}

// bursts reports whether runs on this machine can have burst buffers.
func bursts(ctx context.Context) finding {
	if needs := mount.NeedsOfRun(ctx); needs != "" {
		return finding{Area: "tool", Name: "FUSE", Status: absent, Detail: "you cannot mount anything (needed only for `volume: {kind: burst}`)", Remedy: needs}
	}
	return finding{Area: "tool", Name: "FUSE", Status: works, Detail: "works, for `volume: {kind: burst}`"}
}

func (a *Commands) diagnoseSites(ctx context.Context, sites spec.SitesFile, add func(finding)) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	if sites.Path != "" {
		add(finding{Area: "sites", Name: "file", Status: works, Detail: sites.Path})
	}
	for _, site := range sites.Sites {
		p, err := catalog.Provider(site, catalog.Options{StateDir: a.StateDir, Cache: a.CacheDir, Binary: binary, Installation: state.Installation(a.StateDir)})
		if err != nil {
			add(finding{Area: "site", Name: site.Name, Status: missing, Detail: err.Error(), Remedy: core.Remedy(err)})
			continue
		}
		add(diagnoseSite(ctx, site, p))
	}
	return nil
}

// diagnoseSite asks a site, and has its hosts try the runtime that it names.
func diagnoseSite(ctx context.Context, site spec.Site, p driver.Provider) finding {
	no := func(why, remedy string) finding {
		return finding{Area: "site", Name: site.Name, Status: missing, Detail: why, Remedy: remedy}
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
	if facts.Warning != "" {
		detail += ", " + facts.Warning
	}
	if least := spec.DefaultCheckpointGrace; facts.Notice > 0 && facts.Notice < least {
		detail += fmt.Sprintf(", kills a job %s after it takes its hosts back early (a checkpoint may take %s)", console.DurationText(facts.Notice), console.DurationText(least))
	}
	if facts.Preempted > 0 {
		detail += fmt.Sprintf(", has jobs make way for such that come first (killed %s later)", console.DurationText(facts.Preempted))
	}
	if err := echo(ctx, p); err != nil && !errors.Is(err, driver.ErrNoHosts) {
		return no(detail+": files cannot be brought there and back: "+err.Error(), core.Remedy(err))
	}
	by, host, err := p.TryRuntime(ctx, site.Runtime)
	if host != "" {
		detail += ", on " + host
	}
	switch {
	case err != nil:
		return no(detail+": no containers: "+err.Error(), core.Remedy(err))
	case by != "":
		detail += ": containers by " + by
	}
	return finding{Area: "site", Name: site.Name, Status: works, Detail: detail, Remedy: facts.Remedy}
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
