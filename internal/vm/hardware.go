package vm

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/reservation"
	"github.com/bee-hpc/bee/internal/vm/qemu"
)

// Disk is a disk of the job's: empty, of Size bytes, or the raw image From on
// this host, which is only read. It appears in the container at To.
type Disk struct {
	Size     int64
	From, To string
}

// attach gives the machine the job's disks, and what the container mounts.
func (b *boot) attach(disks []Disk) ([]driver.Mount, error) {
	var mounts []driver.Mount
	for i, d := range disks {
		serial := api.ExtraDisk(i)
		target := path.Join("/mnt", serial)
		file := d.From
		if file == "" {
			file = filepath.Join(b.dir, serial)
			if err := sparse(file, d.Size); err != nil {
				return nil, err
			}
		} else if f, err := os.Open(file); err != nil {
			return nil, &core.Error{Kind: core.Unsupported, Op: "attach disk", Object: file, Err: err, Remedy: "`vm: {disks: [{from: …}]}` names a file on every host, which you can read."}
		} else {
			f.Close()
		}
		b.qemu.Disks = append(b.qemu.Disks, qemu.Disk{File: file, Serial: serial, ReadOnly: d.From != ""})
		b.config.Disks = append(b.config.Disks, api.Disk{Serial: serial, Target: target, Empty: d.From == ""})
		mounts = append(mounts, driver.Mount{Source: target, Target: d.To, ReadOnly: d.From != ""})
	}
	return mounts, nil
}

// FreeMemory is what this host can give guests of a run beside what this user's runs have
// reserved here.
func FreeMemory(run string) driver.Memory {
	others, _ := reservation.Own().Reservations() // the caller that starts a guest says why there are none
	return memoryBeside(others, run)
}

func memoryBeside(others []reservation.Reservation, run string) (m driver.Memory) {
	m.Free, m.All = qemu.FreeMemory(reservation.Guests(others))
	jobs, _ := reservation.Reserved(others, run, true)
	if jobs > 0 && m.Free > 0 && reservation.Job(os.Getenv) == "" { // which have taken none of a batch job's
		m.Free = max(1, min(m.Free, m.All-jobs))
	}
	for _, p := range others {
		if p.Bytes == 0 || p.Run == run && p.Site != "" {
			continue
		}
		i := slices.IndexFunc(m.Reserved, func(known driver.Reserved) bool { return known.Run == p.Run })
		if i < 0 {
			i, m.Reserved = len(m.Reserved), append(m.Reserved, driver.Reserved{Run: p.Run})
		}
		m.Reserved[i].Bytes += p.Bytes
	}
	return m
}

// reserved refuses what would drive the host into swapping or killing, and has others
// reckon with what it does not refuse. Memory in huge pages is taken at once; what guests share is not in such pages.
func (r *Runtime) reserved(s driver.ContainerSpec, want, shared int64, huge bool) (*reservation.Held, error) {
	if huge {
		if err := enoughHugePages(want); err != nil || shared == 0 {
			return nil, err
		}
		want = 0
	}
	want += shared
	held, why, err := reservation.Own().Make(reservation.New(s.Owner.Run, want), func(others []reservation.Reservation) error {
		return memoryBeside(others, s.Owner.Run).Enough(hostname(s), 1, want)
	})
	if why != nil {
		r.report("what other runs have promised their virtual machines here is not known: " + why.Error())
	}
	return held, err
}

// enoughHugePages refuses more than are free.
func enoughHugePages(want int64) error {
	free, page := qemu.FreeHugePages()
	if want <= free {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "start virtual machine", Err: fmt.Errorf("it wants %d MiB of memory in huge pages, and %d MiB of the host's are free (in pages of %d KiB)", want>>20, free>>20, page>>10),
		Remedy: "The host's administrator sets them aside (sysctl vm.nr_hugepages); or leave `huge_pages` out.",
	}
}

// Processors chooses those of the host's for the guests of one machine, of
// which this is the i-th: one each, and none twice.
func Processors(i, guests, each int) ([]int, error) {
	allowed, err := qemu.AllowedCPUs()
	if err != nil {
		return nil, err
	}
	if guests*each > len(allowed) {
		return nil, &core.Error{Kind: core.Unsupported, Op: "pin virtual machines", Err: errors.New(strconv.Itoa(guests) + " with " + strconv.Itoa(each) + " processors each want " +
			strconv.Itoa(guests*each) + " of this host's, of which " + strconv.Itoa(len(allowed)) + " may be used"), Remedy: "Set `vm: {cpus: …}` to fewer, or leave `pin` out."}
	}
	return allowed[i*each : (i+1)*each], nil
}
