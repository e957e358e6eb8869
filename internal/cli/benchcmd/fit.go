package benchcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"golang.org/x/sys/unix"
)

// A room is what this machine has for the jobs of a study; 0: not known.
type room struct {
	memory int64
	cores  int
	hosts  int
	// disk is free where the files of runs are.
	disk int64
}

// roomHere is that of a site's hosts, where they are on this machine.
func roomHere(site spec.Site, scratch string) room {
	r := room{memory: core.HostMemory(), cores: runtime.NumCPU(), hosts: max(1, site.Hosts.Count)}
	if site.Slots > 0 {
		r.cores = site.Slots
	}
	for dir := filepath.Clean(scratch); ; dir = filepath.Dir(dir) {
		var st unix.Statfs_t
		err := unix.Statfs(dir, &st)
		if err == nil {
			r.disk = int64(st.Bavail) * st.Bsize
		}
		if !errors.Is(err, unix.ENOENT) || dir == filepath.Dir(dir) {
			return r
		}
	}
}

// lacks is why a job does not fit, or "".
func (r room) lacks(job *spec.Job) string {
	memory, cores := int64(job.Memory)*int64(max(1, job.Nodes)), job.Cores
	if vm := job.VM; vm != nil {
		memory, cores = int64(vm.Memory)*int64(max(1, job.Nodes)), vm.CPUs
	}
	if hosts := job.Hosts(); r.hosts > 0 && hosts > r.hosts {
		return fmt.Sprintf("it needs %s, and the site has %d", console.CountText(hosts, "host"), r.hosts)
	}
	if r.memory > 0 && memory > r.memory {
		return fmt.Sprintf("it needs %s of memory, and this machine has %s", console.BytesText(memory), console.BytesText(r.memory))
	}
	if job.VM == nil && r.cores > 0 && cores > r.cores {
		return fmt.Sprintf("it needs %d cores, and this machine has %d", cores, r.cores)
	}
	if disk := inputBytes(job); r.disk > 0 && disk > r.disk {
		return fmt.Sprintf("its inputs have %s, and %s of the disk are free", console.BytesText(disk), console.BytesText(r.disk))
	}
	return ""
}

// inputBytes is the size of a job's local inputs. What cannot be read counts nothing: the run
// reports it.
func inputBytes(job *spec.Job) (n int64) {
	files := []string{job.Volume.From}
	for _, in := range job.Inputs {
		files = append(files, in.From)
	}
	for _, file := range files {
		if file == "" || strings.Contains(file, "://") {
			continue
		}
		core.BestEffort(filepath.WalkDir(file, func(_ string, e fs.DirEntry, err error) error { // what cannot be read counts nothing
			if err != nil {
				return nil // see above
			}
			if info, ierr := e.Info(); ierr == nil && info.Mode().IsRegular() {
				n += info.Size()
			}
			return nil
		}))
	}
	return n
}

// unfit is why an environment cannot be measured, and the remedy, by what is known before
// anything starts: a way that this bee does not have, or the first point that does not fit into
// this machine. Where the reason is "", it fits, or its hosts are elsewhere.
func (b *bench) unfit(points []record.Point, environment string) (reason, remedy string, err error) {
	var here *room
	for _, p := range points {
		if !slices.Contains(p.Environments, environment) {
			continue
		}
		job, err := b.taker.Job(p, environment, "")
		if err != nil {
			return "", "", err
		}
		sites, err := b.sites(job)
		if err != nil || len(sites) == 0 { // the trial reports it
			return "", "", nil // see above
		}
		if reason, remedy := unmeasurable(b.taker.Study.Environments[environment], job, sites); reason != "" {
			return reason, remedy, nil
		}
		if sites[0].Provider != "local" {
			if known, hosts := sites[0].HostsKnown(), job.Hosts(); known > 0 && hosts > known {
				why := fmt.Sprintf("it needs %s, and site %q has %d", console.CountText(hosts, "host"), sites[0].Name, known)
				return atPoint(p, why), "Choose a smaller --size, or another site by `site:` or --map.", nil
			}
			continue
		}
		if here == nil {
			r := roomHere(sites[0], scratchOf(sites[0]))
			here = &r
		}
		fits := *here
		if splits(b.taker.Study.Environments[environment], job) { // its containers are hosts of their own
			fits.hosts = 0
		}
		if why := fits.lacks(job); why != "" {
			return atPoint(p, why), "Choose a smaller --size, or another machine by --site.", nil
		}
	}
	return "", "", nil
}

// atPoint is a reason that holds at a point.
func atPoint(p record.Point, why string) string {
	if p.ID == "" {
		return why
	}
	return "at " + p.ID + ", " + why
}

// scratchOf is where the files of runs are on a site whose hosts are on this machine.
func scratchOf(site spec.Site) string {
	for _, dir := range []string{site.Scratch, os.Getenv("BEE_SCRATCH")} {
		if dir != "" {
			return os.ExpandEnv(dir)
		}
	}
	return os.TempDir()
}
