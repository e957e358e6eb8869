package vm

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric/loop"
	"github.com/bee-hpc/bee/internal/fabric/vhost"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/bee-hpc/bee/internal/vm/template"
)

// up starts a guest, reports whether that came from a template, and gives what it
// says of itself. All of them are in QEMU's sandbox.
func up(t *testing.T, b boot, script string) (templated bool, printed []string) {
	t.Helper()
	b.dir = t.TempDir()
	m, err := b.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill()
	if !confined(t, m.PID()) {
		t.Error("QEMU runs without its sandbox")
	}
	return m.made.Restore, strings.Split(strings.TrimSpace((&container{machine: m}).ask(script)), "\n")
}

// neighbor is who answers a guest on the other side of the rings of its network
// device, and hears one datagram.
type neighbor struct {
	*vhost.Device
	path  string
	hears chan []byte
}

func newNeighbor(t *testing.T) *neighbor {
	t.Helper()
	n := &neighbor{path: filepath.Join(t.TempDir(), "rings"), hears: make(chan []byte, 1)}
	l, err := net.Listen("unix", n.path)
	if err != nil {
		t.Fatal(err)
	}
	in := &loop.Loop{}
	t.Cleanup(in.Close)
	n.Device = vhost.Serve(l, in, slog.New(slog.DiscardHandler), func(frames []vhost.Frame) {
		for _, frame := range frames {
			n.take(frame.AppendTo(nil))
		}
	})
	t.Cleanup(func() { n.Close() })
	return n
}

func (n *neighbor) take(frame []byte) {
	const ethernet, arp, ip = vhost.HeaderSize, vhost.HeaderSize + 14, vhost.HeaderSize + 14
	switch kind := frame[ethernet+12 : arp]; {
	case bytes.Equal(kind, []byte{8, 6}) && frame[arp+7] == 1: // who is it? We, whichever of them is meant
		answer := make([]byte, arp, arp+28)
		copy(answer[ethernet:], frame[ethernet+6:ethernet+12])
		copy(answer[ethernet+6:], "\x02bee!!\x08\x06")
		answer = append(append(answer, frame[arp:arp+7]...), 2)
		answer = append(append(answer, "\x02bee!!"...), frame[arp+24:arp+28]...)
		go n.Give([]vhost.Frame{{Head: append(answer, frame[arp+8:arp+18]...)}})
	case bytes.Equal(kind, []byte{8, 0}) && frame[ip+9] == 17:
		select {
		case n.hears <- bytes.Clone(frame[ip+20+8:]):
		default:
		}
	}
}

// TestGuestsFromATemplate: what makes guests different is different in them, and
// what they are given is there, be it by rings in their memory. A template that
// is damaged is not used.
func TestGuestsFromATemplate(t *testing.T) {
	r, _ := own(t)
	fromTemplate(t, r)
	var reported []string
	share := t.TempDir()
	if err := os.WriteFile(filepath.Join(share, "word"), []byte("shared\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := boot{
		qemu: r.machine(), guest: r.o.Guest, binary: r.o.Binary, config: config("second"), disk: r.o.Disk, dial: refuse, templates: templates,
		report: func(message string) { reported = append(reported, message) },
	}
	const script = `cat /proc/sys/kernel/random/boot_id /etc/machine-id; od -An -N16 -tx1 /dev/urandom; date +%s; hostname; cat /mnt/bee0/word; cat /sys/class/net/*/mtu | sort -n | paste -sd,`
	b.config.Shares = []api.Share{{Tag: "bee0", Target: "/mnt/bee0", Type: "9p", Options: options9p, ReadOnly: true}}
	b.qemu.Shares = []qemu.Share{{Path: share, Tag: "bee0", ReadOnly: true}}
	templated, second := up(t, b, script)
	if !templated {
		t.Fatalf("it was booted: %q", reported)
	}
	if got := paces(t, b); got != [2]string{"hpet", "tsc"} {
		t.Errorf("on hosts of another pace and of its own, a guest tells the time by %q", got)
	}
	b.config.Hostname = "third"
	n := newNeighbor(t)
	b.qemu.Nets = append(b.qemu.Nets, qemu.Net{Path: n.path, MAC: "02:be:e0:00:00:01", MTU: 9000})
	b.config.Fabric = &api.Interface{MAC: "02:be:e0:00:00:01", Address: "10.77.0.1/16", MTU: 9000}
	templated, third := up(t, b, "bash -c 'echo here > /dev/udp/10.77.0.2/9'; timeout 60 sh -c 'until ip neigh show 10.77.0.2 | grep -q lladdr; do sleep 0.1; done'; "+script)
	if !templated || len(second) != 7 || len(third) != 7 {
		t.Fatalf("from a template: %v; they say %q and %q; reported: %q", templated, second, third, reported)
	}
	for i, what := range []string{"boot ID", "machine ID", "random numbers"} {
		if second[i] == third[i] || len(strings.TrimSpace(third[i])) < 32 {
			t.Errorf("both have the %s %q", what, second[i])
		}
	}
	if seconds, err := time.ParseDuration(third[3] + "s"); err != nil || time.Since(time.Unix(0, 0).Add(seconds)).Abs() > time.Hour {
		t.Errorf("the third's clock says %s", third[3])
	}
	if second[4] != "second" || third[4] != "third" || third[5] != "shared" {
		t.Errorf("they say %q and %q", second, third)
	}

	select {
	case printed := <-n.hears:
		if string(printed) != "here\n" {
			t.Errorf("by its rings the third one says %q", printed)
		}
	case <-time.After(time.Minute):
		t.Error("by its rings nothing came")
	}

	of, _ := b.template(t.Context())
	b.templates = t.TempDir() // the others stay whole
	if out, err := exec.CommandContext(t.Context(), "cp", "-r", "--sparse=always", of.Path(), b.templates).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	memory, err := filepath.Glob(filepath.Join(b.templates, "*", template.Memory))
	if err != nil || len(memory) != 1 {
		t.Fatalf("the templates' memories: %q", memory)
	}
	damage(t, memory[0])
	reported = nil
	templated, fourth := up(t, b, "hostname")
	if templated || fourth[0] != "third" || len(reported) != 1 || !strings.Contains(reported[0], "damaged") {
		t.Errorf("from a damaged template: %v; it says %q; reported: %q", templated, fourth, reported)
	}
	if _, err := os.Stat(memory[0]); err == nil {
		t.Error("the damaged template is still there")
	}
}

// paces brings up a guest as if its host's counter ran at half of its pace, and then as
// it does, and reports the clocks by which it gave the time.
func paces(t *testing.T, b boot) (sources [2]string) {
	t.Helper()
	b.dir = t.TempDir()
	m, err := b.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill()
	for i, khz := range []int64{m.made.CounterKHz() / 2, m.made.CounterKHz()} {
		r := clock()
		r.CounterKHz = khz
		if _, err := rpc.Call(t.Context(), m.root, api.CallClock, r); err != nil {
			t.Fatal(err)
		}
		sources[i] = strings.TrimSpace((&container{machine: m}).ask("cat /sys/devices/system/clocksource/clocksource0/current_clocksource"))
	}
	return sources
}

// damage changes one bit of a file where it is not zero.
func damage(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := int64(-1)
	if _, err := template.ReadBlocks(f, func(from int64, _ []byte) error { at = from; return nil }); err != nil || at < 0 {
		t.Fatalf("nothing in %s (%v)", path, err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at+100); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at+100); err != nil {
		t.Fatal(err)
	}
}

// A template that a guest cannot come from would be dropped by it, for all others.
func TestGuestsThatAlwaysBoot(t *testing.T) {
	for name, m := range map[string]qemu.Machine{
		"huge pages":           {HugePages: true},
		"a served directory":   {Shares: []qemu.Share{{Server: []string{"virtiofsd"}}}},
		"a function of a card": {Function: "0000:81:00.1"},
	} {
		m.Program = []string{"true"}
		b := boot{qemu: m, binary: testkit.Binary(t), templates: t.TempDir()}
		if _, may := b.template(t.Context()); may {
			t.Errorf("with %s a guest comes from a template", name)
		}
		b.qemu.HugePages, b.qemu.Shares, b.qemu.Function = false, nil, ""
		if _, may := b.template(t.Context()); !may {
			t.Errorf("without %s it does not", name)
		}
	}
}

// A guest that cannot boot, and so gives no template either, is reported once: by what
// keeps it from booting.
func TestAGuestThatCannotBootIsToldOfOnce(t *testing.T) {
	testkit.RequireTool(t, qemu.Program())
	r, dir := newRuntime().(*Runtime), t.TempDir()
	for _, name := range []string{"vmlinux", "root.sqfs", "modules/none.ko"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	var reported []string
	b := boot{
		qemu: r.machine(), guest: dir, binary: testkit.Binary(t), config: config("none"), disk: r.o.Disk, dial: refuse, templates: t.TempDir(),
		report: func(message string) { reported = append(reported, message) },
	}
	b.qemu.CPU = "Unheard"
	for range 2 { // the second one would come from a template
		b.dir = t.TempDir()
		if _, err := b.start(t.Context()); !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "-cpu help") {
			t.Errorf("a processor that QEMU does not know: %v", err)
		}
	}
	if len(reported) != 1 || !strings.Contains(reported[0], "template") {
		t.Errorf("reported beside the error: %q", reported)
	}
}
