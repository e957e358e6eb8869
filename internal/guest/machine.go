package guest

import (
	"context"
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
	before, err := readIdentity(machineDir)
	complain("read which machine this was", err)
	firmware := firmwareID()
	same := before.Firmware == firmware
	guarded := same && firmware != ""
	if guarded { // whether or not there are a network and an answer of the cloud
		guardAgain()
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
	ctx := context.Background()
	complain("set the network up", command("ip", "link", "set", "lo", "up"))
	complain("set the network up", machineCards().start(ctx, networkTime))
	if !same { // another machine may have another source
		before.Source = ""
	}
	in, from := learn(ctx, machineSources(before.ID), before.Source)
	if in.Hostname != "" {
		c.Hostname = in.Hostname
		complain("name the machine", writeNames(c))
	}
	if in.ID == before.ID && !guarded {
		guardAgain()
	}
	complain("start as the cloud has it", begin(machineDir, before, identity{ID: in.ID, Source: from, Firmware: firmware}, func() error { return runScript(in.Script) }))
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

// scriptTime is after which the start script is not waited for.
const scriptTime = 10 * time.Minute

// scriptFile has the start script.
const scriptFile = machineDir + "/start"

// runScript runs the start script, if there is one. What it prints is on the console.
func runScript(script []byte) error {
	if len(script) == 0 {
		return nil
	}
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
