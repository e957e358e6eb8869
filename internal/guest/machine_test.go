package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/guest/instance"
)

// TestNamesOfMachines: a machine's name servers are from DHCP, and a guest's is QEMU's.
func TestNamesOfMachines(t *testing.T) {
	const resolver = "/run/resolv.conf"
	if text, has := nameFiles(api.Config{Machine: true, Hostname: "worker"})[resolver]; has {
		t.Errorf("a machine's name servers are replaced by %q", text)
	}
	if text := nameFiles(api.Config{Hostname: "worker"})[resolver]; text != "nameserver "+outerDNS+"\n" {
		t.Errorf("a guest's name server is %q", text)
	}
}

// TestBegin runs a start script once for each machine, and again where it was cut short before it had ended.
func TestBegin(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bee")
	ran := 0
	boot := func(id string, fails error) error {
		t.Helper()
		before, err := readIdentity(dir)
		if err != nil {
			t.Fatal(err)
		}
		return begin(dir, before, identity{ID: id, Source: "service", Firmware: "f"}, func() error {
			ran++
			if kept, err := readIdentity(dir); err != nil || kept != (identity{id, "service", "f", false}) {
				t.Errorf("while the script runs, kept is %+v, %v", kept, err)
			}
			return fails
		})
	}
	kept := func(want identity) {
		t.Helper()
		if got, err := readIdentity(dir); err != nil || got != want {
			t.Errorf("kept is %+v, %v; expected %+v", got, err, want)
		}
	}
	func() {
		defer func() { // as with a reset, nothing is done after it
			if recover() == nil {
				t.Error("the script did not run")
			}
		}()
		err := begin(dir, identity{}, identity{ID: "i-1", Source: "service", Firmware: "f"}, func() error { panic("reset") })
		t.Errorf("after the reset it returned %v", err)
	}()
	kept(identity{"i-1", "service", "f", false})
	for n, want := range []int{1, 1} {
		if err := boot("i-1", nil); err != nil || ran != want {
			t.Errorf("boot %d: it has run %d times, expected %d, %v", n, ran, want, err)
		}
	}
	kept(identity{"i-1", "service", "f", true})
	failed := errors.New("exit status 1")
	if err := boot("i-2", failed); !errors.Is(err, failed) || ran != 2 {
		t.Errorf("on another machine: %v, it has run %d times", err, ran)
	}
	kept(identity{"i-2", "service", "f", true})
	if err := os.WriteFile(filepath.Join(dir, identityFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readIdentity(dir); err == nil || got != (identity{}) {
		t.Errorf("of what is no record: %+v, %v", got, err)
	}
}

// TestCloseIdentity: a start script that has ended the machine by itself has run.
func TestCloseIdentity(t *testing.T) {
	dir := t.TempDir()
	if err := closeIdentity(dir); err != nil {
		t.Error(err)
	}
	if got, err := readIdentity(dir); err != nil || got != (identity{}) {
		t.Errorf("before the machine knows which it is: %+v, %v", got, err)
	}
	if err := errors.Join(identity{ID: "i-1"}.write(dir), closeIdentity(dir)); err != nil {
		t.Fatal(err)
	}
	if got, err := readIdentity(dir); err != nil || got != (identity{ID: "i-1", Started: true}) {
		t.Errorf("kept is %+v, %v", got, err)
	}
}

// TestSources: a machine whose id was from the metadata service never believes a drive.
func TestSources(t *testing.T) {
	drive := func(id string, err error) source {
		return source{"drive", func(context.Context) (instance.Instance, error) { return instance.Instance{ID: id}, err }}
	}
	service := source{"service", func(context.Context) (instance.Instance, error) { return instance.Instance{ID: "i-1"}, nil }}
	for name, c := range map[string]struct {
		drive    source
		only     string
		id, from string
		fails    bool
	}{
		"first boot, a drive":       {drive("drive", nil), "", "drive", "drive", false},
		"first boot, none":          {drive("", errNoDrive), "", "i-1", "service", false},
		"first boot, a broken one":  {drive("", errors.New("broken")), "", "", "drive", true},
		"later, of the service":     {drive("stranger", nil), "service", "i-1", "service", false},
		"later, of a drive":         {drive("drive", nil), "drive", "drive", "drive", false},
		"later, the drive is gone":  {drive("", errNoDrive), "drive", "", "", true},
		"what no source is kept as": {drive("stranger", nil), "x", "", "", true},
	} {
		in, from, err := ask(t.Context(), []source{c.drive, service}, c.only)
		if in.ID != c.id || from != c.from || (err != nil) != c.fails {
			t.Errorf("%s: %q from %q, %v", name, in.ID, from, err)
		}
	}
}

// TestDrives: of several drives, that of the machine counts.
func TestDrives(t *testing.T) {
	read := func(disk string) (instance.Instance, error) {
		if disk == "broken" {
			return instance.Instance{}, errors.New("broken")
		}
		return instance.Instance{ID: disk}, nil
	}
	for _, c := range []struct {
		disks    []string
		id, want string
		none     bool
	}{
		{nil, "own", "", true},
		{[]string{"stranger", "own"}, "own", "own", false},
		{[]string{"broken", "own"}, "own", "own", false},
		{[]string{"stranger", "own"}, "", "stranger", false},
		{[]string{"broken"}, "", "", false},
	} {
		in, err := firstDrive(c.disks, c.id, read)
		if in.ID != c.want || errors.Is(err, errNoDrive) != c.none {
			t.Errorf("of %q for %q: %q, %v", c.disks, c.id, in.ID, err)
		}
	}
}

// TestCards asks on each card until it has an address, also after the boot has waited for one long enough.
func TestCards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun, metrics, tries := time.Now(), []string{}, 0
		c := cards{
			find: func() []string {
				if time.Since(begun) < time.Hour {
					return []string{"slow"}
				}
				return []string{"late", "slow"}
			},
			ask: func(name string, metric int) error {
				if tries++; name == "slow" && time.Since(begun) < 2*networkTime {
					return errors.New("no server")
				}
				metrics = append(metrics, fmt.Sprint(name, " ", metric))
				return nil
			},
		}
		if err := c.start(ctx, networkTime); err == nil || time.Since(begun) != networkTime {
			t.Errorf("without an address it returned after %v: %v", time.Since(begun), err)
		}
		if tries > 20 {
			t.Errorf("it asked %d times within %v", tries, networkTime)
		}
		time.Sleep(2 * networkTime)
		synctest.Wait()
		if want := []string{"slow 101"}; !slices.Equal(metrics, want) {
			t.Errorf("with an address are %q, expected %q", metrics, want)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := []string{"slow 101", "late 102"}; !slices.Equal(metrics, want) {
			t.Errorf("with an address are %q, expected %q", metrics, want)
		}
		begun = time.Now().Add(-2 * time.Hour)
		if err := c.start(ctx, networkTime); err != nil || time.Since(begun) > 2*time.Hour+time.Second {
			t.Errorf("with an address at once: %v", err)
		}
	})
}
