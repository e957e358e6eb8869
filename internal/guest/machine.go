package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/guest/instance"
	"golang.org/x/sys/unix"
)

// runMachine is the agent of a machine that no host of ours prepares. It learns from the cloud what the machine is to be,
// and runs the start script. What fails is on the console: the machine stays, so that the rest can be used.
func runMachine(e ImageEngine) error {
	c, err := readConfig()
	if err != nil {
		return err
	}
	complain := func(what string, err error) {
		if err != nil {
			fmt.Fprintf(os.Stderr, "bee guest: %s: %v\n", what, err)
		}
	}
	loadDrivers()
	go awaitPowerButton()
	complain("name the machine", writeNames(c))
	go func() {
		err := startDocker(c)
		if err == nil {
			err = awaitDocker(context.Background(), e)
		}
		complain("start docker", err)
		if err == nil {
			fmt.Println(api.Ready)
		}
	}()
	complain("set the network up", startNetwork())
	in := learn(context.Background())
	if in.Hostname != "" {
		c.Hostname = in.Hostname
		complain("name the machine", writeNames(c))
	}
	fresh, err := isFirst(in)
	complain("keep which machine this is", err)
	switch {
	case fresh && len(in.Script) > 0:
		complain("run the start script", runScript(in.Script))
	case !fresh:
		guardAgain()
	}
	complain("start sshd", startLogin())
	keep("chronyd", "-d")
	select {}
}

// loadDrivers loads the drivers of all devices. Drivers of buses find further devices.
func loadDrivers() {
	for range 3 {
		files, _ := filepath.Glob("/sys/bus/*/devices/*/modalias")
		var names []string
		for _, f := range files {
			if raw, err := os.ReadFile(f); err == nil && len(raw) > 1 {
				names = append(names, strings.TrimSpace(string(raw)))
			}
		}
		slices.Sort(names)
		for some := range slices.Chunk(slices.Compact(names), 50) {
			core.BestEffort(exec.Command("modprobe", append([]string{"-a", "-b", "-q", "--"}, some...)...).Run()) // not every device has one
		}
	}
	core.BestEffort(command("modprobe", "-a", "-q", "af_packet", "ib_uverbs", "rdma_ucm", "ib_ipoib", "evdev"))
}

// Times of a machine's boot.
const (
	// networkTime is for its network cards to appear, and for one of them to get an address.
	networkTime = 5 * time.Minute
	// scriptTime is after which the start script is not waited for.
	scriptTime = 10 * time.Minute
)

// startNetwork asks for addresses on all network cards, and returns when one has one.
func startNetwork() error {
	if err := command("ip", "link", "set", "lo", "up"); err != nil {
		return err
	}
	begun, up := time.Now(), make(chan struct{}, 1)
	asked := map[string]bool{}
	for time.Since(begun) < networkTime {
		found, _ := filepath.Glob("/sys/class/net/*/device")
		for _, f := range found {
			name := filepath.Base(filepath.Dir(f))
			if asked[name] {
				continue
			}
			asked[name] = true
			// The first card's route is used before those of others.
			args := []string{"-1", "-q", "-e", fmt.Sprintf("IF_METRIC=%d", 100+len(asked)), "-pf", "/run/dhclient." + name + ".pid", "-lf", "/run/dhclient." + name + ".leases", name}
			go func() {
				for time.Since(begun) < networkTime {
					if command(append([]string{"dhclient"}, args...)...) == nil {
						select {
						case up <- struct{}{}:
						default:
						}
						return
					}
				}
			}()
		}
		select {
		case <-up:
			return nil
		case <-time.After(200 * time.Millisecond): // a card may come late: its driver probes it beside us
		}
	}
	return fmt.Errorf("%d network cards were found, and none got an address within %v", len(asked), networkTime)
}

// learn asks the cloud what this machine is, until it answers.
func learn(ctx context.Context) instance.Instance {
	pause, reported := fsutil.Backoff{First: time.Second, Longest: time.Minute}, ""
	for {
		in, err := fromDrive()
		if errors.Is(err, errNoDrive) {
			in, err = instance.Service(ctx, instance.Address)
		}
		if err == nil {
			return in
		}
		if text := err.Error(); text != reported {
			reported = text
			fmt.Fprintln(os.Stderr, "bee guest: ask the cloud what this machine is:", core.Printable(text, 500))
		}
		if errors.Is(err, instance.ErrScript) {
			return in
		}
		core.BestEffort(pause.Wait(ctx))
	}
}

var errNoDrive = errors.New("there is no drive with a configuration")

// fromDrive reads the drive with a configuration.
func fromDrive() (instance.Instance, error) {
	const at = "/run/bee/config"
	for _, label := range instance.Labels() {
		out, err := exec.Command("blkid", "-t", "LABEL="+label, "-o", "device").Output()
		disk, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if err != nil || disk == "" {
			continue
		}
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
	return instance.Instance{}, errNoDrive
}

// Where a machine keeps what it was the last time.
const (
	machineDir   = "/var/lib/bee"
	instanceFile = machineDir + "/instance"
	scriptFile   = machineDir + "/start"
)

// isFirst reports whether this is the first boot of a machine, and keeps that it was: a start script runs once, as
// cloud-init has it. A machine of an image that was made of another one boots for the first time as well.
func isFirst(in instance.Instance) (bool, error) {
	if before, err := os.ReadFile(instanceFile); err == nil && strings.TrimSpace(string(before)) == in.ID {
		return false, nil
	}
	return true, cmp.Or(fsutil.MkdirAll(machineDir, 0o700), fsutil.WriteFile(instanceFile, []byte(in.ID+"\n"), 0o600))
}

// runScript runs the start script. What it prints is on the console.
func runScript(script []byte) error {
	if err := core.WriteProgram(scriptFile, script, 0o700); err != nil {
		return err
	}
	c := exec.Command(scriptFile)
	c.Stdout, c.Stderr, c.Dir = os.Stdout, os.Stderr, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(scriptTime):
		return fmt.Errorf("it has not ended after %v, and runs on", scriptTime)
	}
}

// guardFile is what start scripts of bee leave to end the machine at its expiry, after a restart too.
const guardFile = "/etc/bee/guard"

// guardAgain starts at a later boot what ends the machine at its expiry. There is no systemd to do so.
func guardAgain() {
	if there, err := fsutil.Exists(guardFile); there || err != nil {
		keep("/bin/sh", guardFile)
	}
}

// startLogin serves ssh. The start script may have brought the host's key.
func startLogin() error {
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		return err
	}
	if keys, _ := filepath.Glob("/etc/ssh/ssh_host_*_key"); len(keys) == 0 {
		if err := command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "/etc/ssh/ssh_host_ed25519_key"); err != nil {
			return err
		}
	}
	keep("/usr/sbin/sshd", "-D", "-e")
	return nil
}

// keep starts a program again whenever it has ended.
func keep(argv ...string) {
	go func() {
		for pause := (fsutil.Backoff{First: 5 * time.Second, Longest: time.Minute}); ; core.BestEffort(pause.Wait(context.Background())) {
			c := exec.Command(argv[0], argv[1:]...)
			log, err := os.OpenFile("/run/"+filepath.Base(argv[0])+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				c.Stdout, c.Stderr = log, log
				err = c.Run()
				log.Close()
			}
			fmt.Fprintf(os.Stderr, "bee guest: %s has ended, and is started again: %v\n", argv[0], err)
		}
	}()
}
