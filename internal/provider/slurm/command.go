package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// commandTimeout is how long one of Slurm's programs may take. They give up by
// themselves when the controller is silent, after ten seconds each try.
const commandTimeout = 90 * time.Second

// call runs one of Slurm's programs and gives what it wrote. What is asked for
// is written out in full: the user's own variables for these programs do not
// count.
func call(ctx context.Context, name string, args ...string) (string, error) {
	out, _, err := run(ctx, name, args...)
	return out, err
}

// run is call for those programs that say something on their standard error.
func run(ctx context.Context, name string, args ...string) (output, words string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SQUEUE_") || strings.HasPrefix(v, "SINFO_") || strings.HasPrefix(v, "SBATCH_") || strings.HasPrefix(v, "SCANCEL_")
	}), "LC_ALL=C", "SLURM_TIME_FORMAT=%s")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr, c.WaitDelay = &out, &errs, time.Second // it may be a script of the site's, with children
	err = c.Run()
	if err == nil {
		return out.String(), errs.String(), nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", "", &core.Error{Kind: core.Unsupported, Op: "find", Object: name, Err: errors.New("Slurm's programs are not here"), //nolint:staticcheck // a name
			Remedy: "Run bee on a login node, or name one at the site: `login: me@login.example.org`."}
	}
	return out.String(), errs.String(), explain(name, strings.TrimSpace(errs.String()), err)
}

// explain turns what Slurm printed into an error with a kind and a remedy.
func explain(name, words string, err error) error {
	if words == "" {
		words = err.Error()
	}
	words = oneLine(name, words)
	e := &core.Error{Kind: core.Unsupported, Op: name, Err: errors.New(words)}
	for _, known := range []struct {
		part, remedy string
		kind         core.Kind
	}{
		{"Invalid job id", "", core.NotFound},
		{"Unable to contact slurm controller", "Slurm's controller does not answer; the site's staff know more.", core.Transient},
		{"Socket timed out", "Slurm's controller is busy.", core.Transient},
		{"Zero Bytes were transmitted", "Slurm's controller is busy.", core.Transient},
		{"signal: killed", "Slurm's controller does not answer.", core.Transient},
		{"temporarily unable to accept job", "Slurm's queue is full for now.", core.Transient},
		{"Invalid account", "Name one of your accounts at the site: `slurm: {account: …}`; `sacctmgr show assoc user=$USER` lists them.", core.Unsupported},
		{"Required partition not available", "Name another partition at the site, or wait until it is up (`sinfo`).", core.Busy},
		{"invalid partition", "Name a partition of `sinfo` at the site: `slurm: {partition: …}`.", core.Unsupported},
		{"Invalid qos", "Name a QOS that your account may use: `slurm: {qos: …}`.", core.Unsupported},
		{"SubmitJob", "You have as many jobs queued as your account or QOS may; wait until some are done.", core.Busy},
		{"accounting/QOS policy", "Ask for less time, or fewer nodes or cores, or name another account or QOS: `slurm: {account: …, qos: …}`; `sacctmgr show assoc user=$USER` and `sacctmgr show qos` tell what they allow.", core.Unsupported},
		{"time limit", "Set the job's `time`, or the site's `slot`, to what the partition allows (`sinfo -o '%P %l'`).", core.Unsupported},
		{"node configuration is not available", "Ask for fewer nodes or cores, or check the site's constraint and gres.", core.Unsupported},
		{"feature specification", "Name what nodes have at the site: `slurm: {constraint: …}`; `sinfo -o '%P %f'` lists it.", core.Unsupported},
		{"(gres) specification", "Name what nodes have at the site: `slurm: {gres: …}`; `sinfo -o '%P %G'` lists it.", core.Unsupported},
		{"license specification", "Name licences that there are at the site: `slurm: {licenses: …}`; `scontrol show licenses` lists them.", core.Unsupported},
		{"establish a configuration source", "No cluster is known here: is the site's `login` one of its login nodes? `sinfo` has to work there, in a login without a terminal.", core.Unsupported},
		{"reservation", "Check the site's reservation: `scontrol show reservation`.", core.Unsupported},
	} {
		if strings.Contains(strings.ToLower(words), strings.ToLower(known.part)) {
			e.Kind, e.Remedy = known.kind, known.remedy
			return e
		}
	}
	e.Remedy = "The words are Slurm's; check the site's `slurm` settings."
	return e
}

// oneLine is what one of Slurm's programs printed, without what stands before each line. A
// site's own words (job_submit) come before Slurm's.
func oneLine(name, words string) string {
	lines := strings.Split(words, "\n")
	for i := range lines {
		for _, front := range []string{name + ": ", "error: ", "fatal: "} {
			lines[i] = strings.TrimPrefix(lines[i], front)
		}
	}
	return strings.Join(lines, "; ")
}

// version gives Slurm's, or nothing.
func (p *provider) version(ctx context.Context) string {
	out, _ := p.s.Queue.cachedCall(ctx, settled, "sinfo", "--version")
	_, number, _ := strings.Cut(strings.TrimSpace(out), " ") // slurm 23.11.4, or slurm-wlm 22.05.8
	return number
}

// parseSpan reads Slurm's [days-][hours:]minutes:seconds; infinite is 0.
func parseSpan(s string) (time.Duration, error) {
	if s == "infinite" || s == "UNLIMITED" || s == "n/a" || s == "NOT_SET" {
		return 0, nil
	}
	days, rest, dashed := strings.Cut(s, "-")
	if !dashed {
		days, rest = "0", s
	}
	total, err := strconv.Atoi(days)
	fields := strings.Split(rest, ":")
	if err != nil || len(fields) > 3 || len(fields) < 2 && !dashed {
		return 0, fmt.Errorf("%q is no time", s)
	}
	for len(fields) < 3 {
		if dashed { // days-hours:minutes
			fields = append(fields, "0")
		} else {
			fields = append([]string{"0"}, fields...)
		}
	}
	for i, unit := range []int{24, 60, 60} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, fmt.Errorf("%q is no time", s)
		}
		total = total*unit + n
	}
	return time.Duration(total) * time.Second, nil
}

// job is one as squeue reports it.
type job struct {
	// id is the number that each element of a job array and each component of a
	// heterogeneous job has for itself, and name what people call it: 12_3, 12+1.
	id, name       string
	state, reason  string
	start, end     time.Time // zero when Slurm does not know
	nodes          int
	partition, qos string // those that it runs in
	dir            string
}

// jobFormat: number, name, state, reason, start, end, number of nodes, partition, QOS,
// working directory. What a site's own squeue prints beside that has not its beginning.
const (
	jobFormat = "--format=" + jobMark + "%A|%i|%T|%r|%S|%e|%D|%P|%q|%Z"
	jobMark   = "bee-job|"
)

// jobs asks for the user's jobs, those included that ended a while ago.
func jobs(ctx context.Context, filter ...string) ([]job, error) {
	out, err := call(ctx, "squeue", append([]string{"--noheader", "--states=all", jobFormat}, filter...)...)
	if core.IsKind(err, core.NotFound) {
		return nil, nil // forgotten by Slurm
	}
	if err != nil {
		return nil, err
	}
	return parseJobs(out)
}

func parseJobs(out string) ([]job, error) {
	var list []job
	for line := range strings.Lines(out) {
		line, ours := strings.CutPrefix(strings.TrimSuffix(line, "\n"), jobMark)
		if !ours {
			continue
		}
		f := strings.SplitN(line, "|", 10)
		if len(f) != 10 {
			return nil, fmt.Errorf("squeue printed %q", line)
		}
		nodes, _ := strconv.Atoi(f[6])
		list = append(list, job{
			id: f[0], name: f[1], state: f[2], reason: f[3], start: parseTime(f[4]), end: parseTime(f[5]), nodes: nodes,
			partition: f[7], qos: f[8], dir: f[9],
		})
	}
	return list, nil
}

// parseTime reads seconds since 1970; what else Slurm says means that it does
// not know.
func parseTime(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// jobNumbered gives a job, or nil when Slurm has forgotten it.
func jobNumbered(ctx context.Context, id string) (*job, error) {
	list, err := jobs(ctx, "--jobs="+id)
	if err != nil {
		return nil, err
	}
	return numbered(list, id), nil
}

// numbered finds a job, by its number or its name: of an array or a heterogeneous job
// squeue gives all of it.
func numbered(list []job, id string) *job {
	for _, is := range []func(job) bool{func(j job) bool { return j.id == id }, func(j job) bool { return j.name == id }} {
		if at := slices.IndexFunc(list, is); at >= 0 {
			return &list[at]
		}
	}
	return nil
}

// stepRuns reports whether a step of a job, JOB.STEP, is still there. Of an array or a
// heterogeneous job squeue calls it by the job's name.
func stepRuns(ctx context.Context, id string) (bool, error) {
	number, step, _ := strings.Cut(id, ".")
	out, err := call(ctx, "squeue", "--noheader", "--steps", "--format=%i", "--jobs="+number)
	if core.IsKind(err, core.NotFound) {
		return false, nil
	}
	steps := strings.Fields(out)
	if err != nil || slices.Contains(steps, id) || !strings.ContainsAny(out, "_+") {
		return slices.Contains(steps, id), err
	}
	j, err := jobNumbered(ctx, number)
	return j != nil && slices.Contains(steps, j.name+"."+step), err
}

// restarts reports how often Slurm has requeued a job; "": that is not known. NotFound:
// there is no such job.
func restarts(ctx context.Context, id string) (string, error) {
	out, err := call(ctx, "squeue", "--noheader", "--Format=JobID:20,RestartCnt:20", "--jobs="+id)
	if err != nil {
		return "", err
	}
	count, found := restartsIn(out, id)
	if !found {
		return "", &core.Error{Kind: core.NotFound, Op: "find", Object: "Slurm job " + id, Err: errors.New("it is not in the queue"), Remedy: "It has ended: `sacct --jobs " + id + "` prints how."}
	}
	return count, nil
}

// restartsIn finds a job's count in lines of two numbers, or takes the only one: the job
// may be called by another name than its number (see numbered).
func restartsIn(out, id string) (count string, found bool) {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, line := range lines {
		f := strings.Fields(line)
		if len(f) == 2 && (f[0] == id || len(lines) == 1) {
			return f[1], true
		}
	}
	return "", len(lines) > 1
}

// jobsIn gives the jobs with a working directory.
func jobsIn(ctx context.Context, dir string) ([]job, error) {
	list, err := jobs(ctx, "--user="+strconv.Itoa(os.Getuid()))
	return slices.DeleteFunc(list, func(j job) bool { return j.dir != dir }), err
}
