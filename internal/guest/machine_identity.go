package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/instance"
	"golang.org/x/sys/unix"
)

// machineDir is where a machine keeps which machine it is.
const machineDir = "/var/lib/bee"

// identity is what a machine keeps of which machine it is. A machine of an image that was made of another one finds the
// other's.
type identity struct {
	// ID is the cloud's for the machine, and Source the name of the source that reported it.
	ID     string `json:"id"`
	Source string `json:"source"`
	// Firmware is the machine's id by its firmware; "": that has none.
	Firmware string `json:"firmware"`
	// Started reports that its start script has ended, was waited for, or has ended the machine.
	Started bool `json:"started"`
}

const identityFile = "instance"

// readIdentity returns what an earlier boot kept; there being none, it is empty.
func readIdentity(dir string) (identity, error) {
	raw, err := fsutil.ReadFile(dir, identityFile, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, nil
	}
	var i identity
	if err == nil {
		err = json.Unmarshal(raw, &i)
	}
	if err != nil {
		return identity{}, err
	}
	return i, nil
}

func (i identity) write(dir string) error {
	raw, err := json.Marshal(i)
	if err != nil {
		return err
	}
	if err := fsutil.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(dir, identityFile), raw, 0o600)
}

// firmwareID is the machine's id by its firmware: clouds give each machine its own. It is "" where there is none.
func firmwareID() string {
	raw, _ := os.ReadFile("/sys/class/dmi/id/product_uuid")
	return strings.TrimSpace(string(raw))
}

// begin keeps which machine this is, and runs its start script where that has not run: once for each machine, as
// cloud-init has it. A script that a reset has cut short runs again.
func begin(dir string, before, now identity, script func() error) error {
	now.Started = now.ID == before.ID && before.Started
	var kept error
	if now != before {
		kept = now.write(dir)
	}
	if now.Started {
		return kept
	}
	ran := script()
	if ran != nil {
		ran = fmt.Errorf("run the start script: %w", ran)
	}
	unix.Sync() // all that the script wrote is on the disk before what says that it ran
	now.Started = true
	return errors.Join(kept, ran, now.write(dir))
}

// closeIdentity keeps that the start script has run, where one was to.
func closeIdentity(dir string) error {
	i, err := readIdentity(dir)
	if err != nil || i.ID == "" || i.Started {
		return err
	}
	i.Started = true
	return i.write(dir)
}

// source is where a machine learns what it is.
type source struct {
	name string
	ask  func(context.Context) (instance.Instance, error)
}

// machineSources are those of clouds. Of several drives, that of the machine with an id comes first.
func machineSources(id string) []source {
	return []source{
		{"drive", func(context.Context) (instance.Instance, error) { return firstDrive(findDrives(), id, readDrive) }},
		{"service", func(ctx context.Context) (instance.Instance, error) { return instance.Service(ctx, instance.Address) }},
	}
}

// errNoDrive has the next source be asked.
var errNoDrive = errors.New("there is no drive with a configuration")

// ask asks the sources in order, and returns the name of the one that is there. Where only one is named, no other is
// believed: a disk that is attached to a machine later is none of its cloud's drives.
func ask(ctx context.Context, sources []source, only string) (in instance.Instance, from string, err error) {
	err = fmt.Errorf("there is no source %q", core.Printable(only, 80))
	for _, s := range sources {
		if only != "" && s.name != only {
			continue
		}
		if in, err = s.ask(ctx); !errors.Is(err, errNoDrive) {
			return in, s.name, err
		}
	}
	return in, "", err
}

// learn asks what this machine is, until a source answers.
func learn(ctx context.Context, sources []source, only string) (instance.Instance, string) {
	pause, reported := fsutil.Backoff{First: time.Second, Longest: time.Minute}, ""
	for {
		in, from, err := ask(ctx, sources, only)
		if err == nil {
			return in, from
		}
		if text := err.Error(); text != reported {
			reported = text
			fmt.Fprintln(os.Stderr, "bee guest: ask the cloud what this machine is:", core.Printable(text, 500))
		}
		if errors.Is(err, instance.ErrScript) {
			return in, from
		}
		core.BestEffort(pause.Wait(ctx))
	}
}

// findDrives returns the devices whose labels are those of drives with a configuration.
func findDrives() []string {
	var all []string
	for _, label := range instance.Labels() {
		out, _ := exec.Command("blkid", "-t", "LABEL="+label, "-o", "device").Output() // it fails where there is none
		all = append(all, strings.Fields(string(out))...)
	}
	return all
}

// firstDrive returns what the drive of the machine with an id has; there being none, the first.
func firstDrive(disks []string, id string, read func(string) (instance.Instance, error)) (instance.Instance, error) {
	first, failed := instance.Instance{}, errNoDrive
	for i, disk := range disks {
		in, err := read(disk)
		if in.ID != "" && in.ID == id {
			return in, err
		}
		if i == 0 {
			first, failed = in, err
		}
	}
	return first, failed
}

// readDrive reads a drive with a configuration.
func readDrive(disk string) (instance.Instance, error) {
	const at = "/run/bee/config"
	var all error
	for _, kind := range []string{"iso9660", "vfat"} {
		err := (mount{disk, at, kind, unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""}).do()
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		in, err := instance.Drive(at)
		return in, cmp.Or(err, unix.Unmount(at, 0))
	}
	return instance.Instance{}, all
}
