package virtualbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// base is the machine that is cloned, as VBoxManage has it now.
type base struct {
	listed
	info     *info
	snapshot string // UUID, or ""
	major    int    // of VirtualBox's version
	version  string
}

// look finds the machine, and what makes it unusable. It changes nothing.
func (p *provider) look(ctx context.Context) (*base, error) {
	text, err := p.vbox.call(ctx, askTime, versionLine())
	if err != nil {
		return nil, err
	}
	b := &base{}
	if b.version, b.major, err = parseVersion(text); err != nil {
		return nil, err
	}
	all, err := p.list(ctx, listLine())
	if err != nil {
		return nil, err
	}
	if b.listed, err = find(all, p.s.Base); err != nil {
		return nil, err
	}
	if b.info, err = p.info(ctx, b.uuid); err != nil {
		return nil, err
	}
	return b, p.cloneable(b)
}

// cloneable finds what a clone of a machine could not have.
func (p *provider) cloneable(b *base) error {
	refused := func(err error, remedy string) error {
		return &core.Error{Kind: core.Unsupported, Op: "clone the VirtualBox machine", Object: core.Printable(b.name, 80), Err: err, Remedy: remedy}
	}
	switch found := b.info.snapshots[p.s.Snapshot]; {
	case p.s.Snapshot == "" && b.info.state != "poweroff" && b.info.state != "aborted":
		return refused(fmt.Errorf("its state is %q, expected \"poweroff\"", core.Printable(b.info.state, 40)), "Shut it down, or name a snapshot at the site: `virtualbox: {snapshot: …}`.")
	case p.s.Snapshot == "":
	case len(found) != 1 || !uuidForm().MatchString(found[0]):
		return refused(fmt.Errorf("%d of its snapshots are called %q, expected one", len(found), core.Printable(p.s.Snapshot, 80)), "Check `snapshot:` at the site; `VBoxManage snapshot MACHINE list` prints them.")
	default:
		b.snapshot = found[0]
	}
	switch {
	case len(b.info.disks) != 1:
		return refused(fmt.Errorf("it has %d hard disks, expected one", len(b.info.disks)), "Leave it one disk.")
	case len(b.info.shared) > 0:
		return refused(fmt.Errorf("it shares the directory %q with this machine, whose files jobs could change", core.Printable(b.info.shared[0], 80)), "Remove its shared directories.")
	}
	return nil
}

func (p *provider) list(ctx context.Context, l line) ([]listed, error) {
	text, err := p.vbox.call(ctx, askTime, l)
	if err != nil {
		return nil, err
	}
	return parseList(text)
}

func (p *provider) info(ctx context.Context, uuid string) (*info, error) {
	text, err := p.vbox.call(ctx, askTime, infoLine(uuid))
	if err != nil {
		return nil, err
	}
	return parseInfo(text)
}

// size is what a clone has.
func (p *provider) size(b *base) (cpus int, memory int64) {
	cpus, memory = b.info.cpus, b.info.memory
	if p.s.CPUs > 0 {
		cpus = p.s.CPUs
	}
	if p.s.Memory > 0 {
		memory = p.s.Memory
	}
	return cpus, memory
}

// freePort returns a port of 127.0.0.1 that is free now. If another process takes it before VirtualBox does, what
// answers there has another key than the guest's.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// create makes the guest of a new record, and starts it.
func (p *provider) create(ctx context.Context, dir string, r *record, b *base) error {
	folder := filepath.Join(dir, guestDir)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return leasedir.Unusable(dir, err)
	}
	known := HostAlias + "," + fmt.Sprintf("[%s]:%d", HostAlias, r.Port) + " " + p.s.HostKey + "\n"
	if err := fsutil.WriteFile(filepath.Join(dir, knownFile), []byte(known), 0o600); err != nil {
		return leasedir.Unusable(dir, err)
	}
	if _, err := p.vbox.call(ctx, cloneTime, cloneLine(b.uuid, b.snapshot, r.Guest, folder)); err != nil {
		return err
	}
	clone, err := p.info(ctx, r.Guest.UUID) // its disk has another UUID than that of the machine
	if err != nil {
		return err
	}
	if len(clone.shared) > 0 { // the machine has none, and its snapshot may
		return &core.Error{
			Kind: core.Unsupported, Op: "clone the VirtualBox machine", Object: core.Printable(b.name, 80),
			Err:    fmt.Errorf("its snapshot shares the directory %q with this machine, whose files jobs could change", core.Printable(clone.shared[0], 80)),
			Remedy: "Remove its shared directories, and take another snapshot.",
		}
	}
	if len(clone.disks) != 1 {
		return &core.Error{
			Kind: core.Unsupported, Op: "clone the VirtualBox machine", Object: core.Printable(b.name, 80), Err: fmt.Errorf("the clone has %d hard disks, expected one", len(clone.disks)),
			Remedy: "Clone it by hand: `VBoxManage clonevm " + b.uuid + " --register`.",
		}
	}
	for _, l := range p.preparation(r, clone, b.major) {
		if _, err := p.vbox.call(ctx, changeTime, l); err != nil {
			return err
		}
	}
	if err := p.compare(ctx, r); err != nil {
		return err
	}
	_, err = p.vbox.call(ctx, changeTime, startLine(r.Guest.UUID))
	return err
}

// preparation are the lines that give a clone its devices.
func (p *provider) preparation(r *record, clone *info, major int) []line {
	lines := hardwareLines(r.Guest.UUID, hardware{
		cpus: p.s.CPUs, memory: p.s.Memory, card: p.s.Devices.card(), port: r.Port,
		others: clone.others, forwardings: clone.forwardings, closed: major >= localhostSince,
	})
	if d := clone.disks[0]; d.kind != p.s.Devices.disk() {
		lines = append(lines, diskLines(r.Guest.UUID, d, p.s.Devices.disk())...)
	}
	return lines
}

// compare refuses a guest that has not the devices, cores and memory that were set: figures of others would be
// taken for theirs.
func (p *provider) compare(ctx context.Context, r *record) error {
	v, err := p.info(ctx, r.Guest.UUID)
	if err != nil {
		return err
	}
	found, want := "no disk", fmt.Sprintf("card %s, disk on %s", p.s.Devices.card(), p.s.Devices.disk())
	if len(v.disks) == 1 {
		found = fmt.Sprintf("card %s, disk on %s", core.Printable(v.card, 40), core.Printable(v.disks[0].kind, 40))
	}
	if p.s.CPUs > 0 {
		found, want = fmt.Sprintf("%s, %d cores", found, v.cpus), fmt.Sprintf("%s, %d cores", want, p.s.CPUs)
	}
	if p.s.Memory > 0 {
		found, want = fmt.Sprintf("%s, %d MiB", found, v.memory>>20), fmt.Sprintf("%s, %d MiB", want, p.s.Memory>>20)
	}
	if found == want {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "prepare guest", Object: r.Guest.Name, Err: fmt.Errorf("VirtualBox has given it %s, expected %s", found, want),
		Remedy: "This VirtualBox may lack such devices: use a newer one, or other `devices:` at the site.",
	}
}

// boot waits until the guest answers, and makes it a host behind ssh.
func (p *provider) boot(ctx context.Context, dir string, r *record, q driver.Request) (*lease, error) {
	hosts, err := p.s.Reach(r.connection(dir))
	if err != nil {
		return nil, err
	}
	if err := p.answers(ctx, r, hosts); err != nil {
		return nil, err
	}
	inner, err := hosts.Acquire(ctx, q)
	if err != nil {
		return nil, err
	}
	r.Inner = inner.Handle()
	for _, h := range inner.Hosts() {
		h.Name = p.hostName()
		r.Hosts = append(r.Hosts, h)
	}
	if err := r.write(dir); err != nil {
		inner.Disconnect()
		return nil, err
	}
	return newLease(p, r.Owner, dir, r, inner), nil
}

// hostName is that of every guest of the site: figures of one and the next are of the same host.
func (p *provider) hostName() string {
	if core.IsHost(p.s.Name) {
		return p.s.Name
	}
	return "virtualbox"
}

// answers waits until ssh reaches the guest.
func (p *provider) answers(ctx context.Context, r *record, hosts driver.Provider) error {
	pause := fsutil.Backoff{First: 200 * time.Millisecond, Longest: 3 * time.Second}
	for begun := time.Now(); ; {
		f, err := hosts.Probe(ctx)
		if err != nil && (!core.IsKind(err, core.Transient) || ctx.Err() != nil) {
			return err
		}
		if err == nil && f.Usable {
			return nil
		}
		reason := f.Reason
		if err != nil {
			reason = err.Error()
		}
		silent := func(kind core.Kind, why, remedy string) error {
			return &core.Error{Kind: kind, Op: "boot guest", Object: r.Guest.Name, Err: fmt.Errorf("%s: %s", why, reason), Remedy: remedy}
		}
		if err == nil && !f.Passing {
			return silent(core.Unsupported, "it refuses the login", "Log in to the machine "+p.s.Base+" by hand: `user:` needs your public key there, and `host_key:` at the site has to be its own. "+f.Remedy)
		}
		running, err := p.list(ctx, runningLine())
		switch {
		case err != nil:
			return err
		case !has(running, r.Guest.UUID):
			return silent(core.Lost, "it does not run any more", "Start the machine "+p.s.Base+" by hand: does it boot with such devices?")
		case time.Since(begun) > p.s.Boot:
			return silent(core.Transient, fmt.Sprintf("it does not answer by ssh within %s", p.s.Boot), "Does the machine "+p.s.Base+" boot with such devices, get an address by DHCP, and start its sshd? `boot:` at the site allows more time.")
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// end powers a guest off and deletes it. One that is gone is success.
func (p *provider) end(ctx context.Context, dir string, owner core.Owner) error {
	r, err := read(dir, owner)
	if err != nil || r == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.ends)
	defer cancel()
	pause := fsutil.Backoff{First: 100 * time.Millisecond, Longest: 3 * time.Second}
	for tried := error(nil); ; {
		all, err := p.list(ctx, listLine())
		if err != nil {
			return left(r, err)
		}
		at := slices.IndexFunc(all, func(m listed) bool { return m.uuid == r.Guest.UUID })
		switch {
		case at < 0:
			return p.unlisted(dir, r, all)
		case all[at].name == inaccessible: // its files are gone, and nothing is left to delete
			_, tried = p.vbox.call(ctx, changeTime, forgetLine(r.Guest.UUID))
			if err := pause.Wait(ctx); err != nil {
				return left(r, errors.Join(tried, err))
			}
			continue
		case all[at].name != r.Guest.Name: // it was renamed, by a user who keeps it
			e := left(r, fmt.Errorf("it is called %q now", core.Printable(all[at].name, 80)))
			e.Remedy = "To keep it, export it by `VBoxManage export`. Then give it its name back, so that it is deleted: `VBoxManage modifyvm " + r.Guest.UUID + " --name " + r.Guest.Name + "`."
			return e
		}
		running, err := p.list(ctx, runningLine())
		if err != nil {
			return left(r, err)
		}
		if has(running, r.Guest.UUID) {
			_, tried = p.vbox.call(ctx, changeTime, powerOffLine(r.Guest.UUID))
		} else { // the session of a guest that was powered off ends a moment later
			_, tried = p.vbox.call(ctx, changeTime, deleteLine(r.Guest.UUID))
		}
		if err := pause.Wait(ctx); err != nil {
			return left(r, errors.Join(tried, err))
		}
	}
}

// unlisted returns an error where VBoxManage may list the machines of another place than that of the guest: its file
// is there, and the machine that was cloned is not listed either.
func (p *provider) unlisted(dir string, r *record, all []listed) error {
	_, err := os.Lstat(filepath.Join(dir, guestDir, r.Guest.Name, r.Guest.Name+".vbox"))
	if err != nil || has(all, r.Base) {
		return nil
	}
	e := left(r, errors.New("neither it nor the machine that it is a clone of is listed, and its files are there"))
	e.Remedy = "Have VBOX_USER_HOME as it was when the run began. Where both are gone, remove " + dir + "."
	return e
}

// left is the error of a guest that could not be deleted.
func left(r *record, err error) *core.Error {
	return &core.Error{
		Kind: core.Transient, Op: "delete guest", Object: r.Guest.Name, Err: err,
		Remedy: "A later `bee` command tries again. By hand: `VBoxManage controlvm " + r.Guest.UUID + " poweroff`, then `VBoxManage unregistervm " + r.Guest.UUID + " --delete`.",
	}
}
