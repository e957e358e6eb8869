package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
)

// firmware is where Debian's ovmf has the UEFI of virtual machines.
const firmware = "/usr/share/OVMF"

// dockerAnswers is what a machine of bee's own image prints on its console.
const dockerAnswers = "bee: docker answers"

// machineImage compares the boot of bee's own image for rented machines with that of Debian as it comes, with Docker and
// cloud-init in it: both in QEMU with the same accelerator, processors and memory, from the start of QEMU until docker
// answers. The own image boots by UEFI and reads a drive with its configuration. Debian's kernel is loaded by QEMU.
func (g guestBench) machineImage(rounds int) error {
	if _, err := os.Stat(firmware); err != nil {
		return fmt.Errorf("find the firmware (package ovmf): %w", err)
	}
	const name = "measured"
	if _, err := g.b.do(g.b.bee, "cloud", "image", "build", name); err != nil {
		return err
	}
	defer g.b.do(g.b.bee, "cloud", "image", "rm", name) //nolint:errcheck // it lies in the user's cache
	raw, err := g.b.command(g.b.bee, "cloud", "image", "ls", "--json").Output()
	if err != nil {
		return err
	}
	var list []struct{ Name, File string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	disk := ""
	for _, i := range list {
		if i.Name == name {
			disk = i.File
		}
	}
	config := filepath.Join(g.b.dir, "config-drive")
	if err := configDrive(config, "#!/bin/sh\ntrue\n"); err != nil {
		return err
	}
	tree, stock, err := g.stockDisk()
	if err != nil {
		return err
	}
	var own, others []time.Duration
	for range max(rounds/10, 3) + 1 { // the first is not counted
		took, err := g.machineStart(disk, config)
		if err != nil {
			return err
		}
		own = append(own, took)
		if took, err = g.stockStart(tree, stock); err != nil {
			return err
		}
		others = append(others, took)
	}
	g.b.row("own image of a rented machine, by UEFI, until docker answers", middle(own[1:]), "Debian with cloud-init and docker in it, its kernel loaded by QEMU", middle(others[1:]))
	return nil
}

// machineStart boots an image for rented machines.
func (g guestBench) machineStart(image, config string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	disk, vars, console := filepath.Join(g.b.dir, "machine.disk"), filepath.Join(g.b.dir, "machine.vars"), filepath.Join(g.b.dir, "machine.console")
	for to, from := range map[string]string{disk: image, vars: filepath.Join(firmware, "OVMF_VARS.fd")} {
		if _, err := g.b.do("cp", "--sparse=always", "--no-preserve=mode", from, to); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(os.Truncate(disk, 6<<30), os.WriteFile(console, nil, 0o600)); err != nil {
		return 0, err
	}
	c := exec.CommandContext(ctx, qemu.Program(), "-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35,accel="+g.b.accel, "-cpu", "max", "-smp", "2", "-m", "2048",
		"-drive", "if=pflash,format=raw,readonly=on,file="+filepath.Join(firmware, "OVMF_CODE.fd"), "-drive", "if=pflash,format=raw,file="+vars,
		"-drive", "if=virtio,format=raw,cache=unsafe,file="+disk, "-drive", "if=virtio,format=raw,readonly=on,file="+config,
		"-netdev", "user,id=net,restrict=on", "-device", "virtio-net-pci,netdev=net,romfile=", "-serial", "file:"+console)
	return untilPrinted(ctx, "machine", c, console, dockerAnswers)
}

// configDrive makes a drive with the configuration of a machine, as OpenStack does.
func configDrive(path, script string) error {
	const size = 64 << 20
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		return err
	}
	drive, err := fat32.Create(file.New(f, false), size, 0, 512, "CONFIG-2", true)
	if err == nil {
		err = drive.Mkdir("/openstack/latest")
	}
	for name, text := range map[string]string{"meta_data.json": `{"uuid": "2b6d8c1e-0000-4000-8000-000000000001", "hostname": "measured"}`, "user_data": script} {
		if err != nil {
			return err
		}
		out, oerr := drive.OpenFile("/openstack/latest/"+name, os.O_CREATE|os.O_RDWR)
		if oerr != nil {
			return oerr
		}
		_, werr := out.Write([]byte(text))
		err = cmp.Or(werr, out.Close())
	}
	return err
}
