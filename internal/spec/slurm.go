package spec

import (
	"fmt"
	"strings"
	"time"
)

// Slurm is what a site of provider slurm asks sbatch for.
type Slurm struct {
	Partition   string `yaml:"partition"`
	Account     string `yaml:"account"`
	QOS         string `yaml:"qos"`
	Constraint  string `yaml:"constraint"`
	Gres        string `yaml:"gres"`
	Reservation string `yaml:"reservation"`
	Licenses    string `yaml:"licenses"`
	// Exclusive asks for whole nodes also where the number of slots is given.
	Exclusive bool `yaml:"exclusive"`
	// MinSlot is the least time that is worth an attempt: Slurm may grant any
	// from there to Site.Slot, which starts jobs earlier.
	MinSlot time.Duration `yaml:"min_slot"`
	// Options are further options of sbatch, such as --mail-type=END.
	Options []string `yaml:"options"`
	// Job is the number of an allocation of the user's to run in, instead of
	// a job of bee's own; inside one, it is that one by default.
	Job string `yaml:"job"`
}

// Granted means that the site's hosts are those of an allocation of the user's, which may
// be the one that bee runs in.
func (s Site) Granted() bool { return s.Slurm != nil && s.Slurm.Job != "" }

// slurm finds what cannot be at a site of provider slurm.
func (sc *siteCheck) slurm() {
	s, at := sc.site, sc.at
	if s.Provider != "slurm" {
		return
	}
	if s.Hosts.Count != 0 || len(s.Hosts.Patterns) > 0 {
		sc.report.atKey(at+".hosts", "Slurm chooses them; `login` names the login node", "%s.hosts: a slurm site has no list of hosts", at)
	}
	if strings.ContainsAny(s.Login, " \t") || strings.HasPrefix(s.Login, "-") {
		sc.report.at(at+".login", "such as ann@login.example.org", "%s.login: %q is no host name", at, s.Login)
	}
	if s.Slurm == nil {
		return
	}
	for i, o := range s.Slurm.Options {
		if !strings.HasPrefix(o, "-") {
			at := fmt.Sprintf("%s.slurm.options[%d]", at, i)
			sc.report.at(at, "such as [--mail-type=END]", "%s: %q is no option", at, o)
		}
	}
	switch {
	case !sc.report.wasRead(at + ".slot"):
	case s.Slurm.MinSlot > 0 && s.Slot == 0:
		sc.report.atKey(at+".slurm.min_slot", "", "%s.slurm.min_slot: without a `slot` it means nothing", at)
	case s.Slurm.MinSlot > s.Slot:
		sc.report.at(at+".slurm.min_slot", "", "%s.slurm.min_slot: it is longer than the slot", at)
	case strings.Trim(s.Slurm.Job, "0123456789") != "":
		sc.report.at(at+".slurm.job", "", "%s.slurm.job: %q is no number of a job", at, s.Slurm.Job)
	}
}

// InAllocation gives the sites as they are inside an allocation of Slurm's
// (salloc, sbatch), which is used instead of asking for another: the Slurm
// sites of this very cluster, or, without a sites file, the only site.
func InAllocation(sites []Site, job string) []Site {
	out := append([]Site(nil), sites...)
	for i, s := range out {
		if s.Provider != "slurm" || s.Login != "" {
			continue
		}
		own := Slurm{}
		if s.Slurm != nil {
			own = *s.Slurm
		}
		if own.Job == "" {
			own.Job = job
		}
		out[i].Slurm = &own
	}
	return out
}
