package benchcmd

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/studies"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image"
	"github.com/bee-hpc/bee/internal/spec"
)

// loadStudy reads a file, or else a study that bee has of its own. It returns its text too.
func loadStudy(word string) (*study.Study, string, error) {
	if _, is := studies.Text(word); is && !isFile(word) {
		return ownStudy(word)
	}
	text, err := spec.ReadText(word)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(word, "./") {
		return nil, "", &core.Error{
			Kind: core.NotFound, Op: "find study", Object: word, Err: errors.New("neither a file nor a study of bee has that name"),
			Remedy: "`bee bench ls` lists the studies; a file is named by its path.",
		}
	}
	s, err2 := study.Load(word)
	return s, string(text), err2
}

// ownStudy is a study that bee has of its own, whatever files the current directory has.
func ownStudy(name string) (*study.Study, string, error) {
	text, _ := studies.Text(name)
	s, err := study.Parse(name+".yaml", []byte(text), workspace.WorkingDir())
	return s, text, err
}

// isFile reports whether a word names a file, and no directory: those of results may have the names of studies.
func isFile(word string) bool {
	info, err := os.Stat(word)
	return err == nil && !info.IsDir()
}

// studyOfJob is a study of a user's own Beefile: its time, or the metrics that were given,
// in each environment of this machine.
func studyOfJob(file string, metrics []string, better string) (*study.Study, string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, "", err
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	var b strings.Builder
	fmt.Fprintf(&b, "study: %s\ntitle: %q\njob: {file: %q}\n", studyName(name), "What do containers cost "+name+"?", path)
	b.WriteString("environments:\n  native: {runtime: native}\n  rootless: {runtime: rootless}\n  docker: {runtime: docker}\n  podman: {runtime: podman}\n  apptainer: {runtime: apptainer}\n  charliecloud: {runtime: charliecloud}\n  lxc: {runtime: lxc}\n")
	b.WriteString("contrasts: [{vary: environment, against: native}]\nmetrics:\n")
	for _, m := range metrics {
		name, source, ok := strings.Cut(m, "=")
		kind, pattern, ok2 := strings.Cut(source, ":")
		if !ok || !ok2 || !slices.Contains([]string{"regex", "keyvalue", "jq"}, kind) {
			return nil, "", &core.Error{Kind: core.Invalid, Op: "read", Object: "--metric " + m, Err: errors.New("it is not NAME=regex:PATTERN"), Remedy: `Write for example --metric 'speed=regex:^Performance:\s+(\S+)' --better higher.`}
		}
		fmt.Fprintf(&b, "  %s: {%s: %q, unit: \"1\", better: %s, primary: true}\n", name, kind, pattern, better)
	}
	if len(metrics) == 0 {
		b.WriteString("  seconds: {builtin: seconds, primary: true}\n")
	}
	b.WriteString("  start: {builtin: start_seconds}\n  cpu: {builtin: host_cpu}\n")
	s, err := study.Parse("the study of "+file, []byte(b.String()), filepath.Dir(path))
	return s, b.String(), err
}

func studyName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", r) {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	if clean = strings.Trim(clean, "-"); clean != "" {
		return clean
	}
	return "job"
}

// resolve makes the plan of a study for this machine. Environments that do not work here are
// dropped with the reason. It is an error of kind Unsupported if only the baseline is left.
func (a *Commands) resolve(ctx context.Context, s *study.Study, text string, o benchOptions, b *bench, images *image.Store) (record.Plan, error) {
	taker := b.taker
	points, err := s.Points(ctx, o.size)
	if err != nil {
		return record.Plan{}, err
	}
	sources, err := a.giveSources(ctx, s, o.source)
	if err == nil {
		err = s.Missing()
	}
	if err != nil {
		return record.Plan{}, err
	}
	p := record.Plan{
		Sources: sources, StandIn: s.StandsIn(),
		Study: s.Name, Title: s.Title, File: text, Dir: s.Dir, Site: o.site, Mapped: o.mapped, Size: o.size, Method: s.Method.Name, Summary: s.Method.Summary, Margin: float64(s.Method.Margin),
		Least: s.Method.Blocks.Least, Most: s.Method.Blocks.Most, BudgetSeconds: time.Duration(s.Method.Budget).Seconds(),
		Baseline: s.Baseline, Machine: measure.Here(a.Version), Created: time.Now(), Seed: seed(),
	}
	if s.Method.Reuse == study.ReuseBlock && s.Method.Name != study.Beserra { // by --method
		p.Reuse = s.Method.Reuse
	}
	for _, point := range points {
		values := map[string]string{}
		for k, v := range point.Values {
			values[k] = string(v)
		}
		environments := slices.DeleteFunc(slices.Clone(point.Environments), func(e string) bool { return !o.wants(s, e) })
		p.Points = append(p.Points, record.Point{ID: point.ID(s.Variables), Values: values, Environments: environments})
	}
	for _, name := range s.MetricNames {
		m := s.Metrics[name]
		p.Metrics = append(p.Metrics, record.Metric{Name: name, Unit: m.Unit, Better: m.Better, Primary: m.Primary, Sweep: m.Sweep()})
	}
	if err := a.trustStudy(o.file, s, p.Points, taker, o.trust); err != nil {
		return p, err
	}
	if err := b.choose(&p, s); err != nil {
		return p, err
	}
	if err := tooFew(&p, o); err != nil { // before hosts are acquired and sources built
		return p, err
	}
	if err := b.hosts.require(taker, &p); err != nil {
		return p, err
	}
	if err := a.buildSources(ctx, images, taker, &p); err != nil {
		return p, err
	}
	compared := 0
	for i, e := range p.Environments {
		if e.Dropped != "" {
			continue
		}
		if most := s.Method.Compare; most > 0 && compared >= most && len(o.env) == 0 && e.Name != s.Baseline {
			p.Environments[i].Dropped, p.Environments[i].Remedy = fmt.Sprintf("the study compares %s unless others are named", console.CountText(most, "environment")), "Name it by --env."
			continue
		}
		if p.Environments[i], err = a.tryEnvironment(ctx, taker, p.Points[0], e.Name); err != nil {
			return p, err
		}
		p.Environments[i].Named, p.Environments[i].Untested = e.Named, e.Untested
		if p.Environments[i].Dropped == "" && e.Name != s.Baseline {
			compared++
		}
		if p.Environments[i].Untried, err = b.untried(p.Points, e.Name); err != nil {
			return p, err
		}
	}
	if i := slices.IndexFunc(p.Environments, func(e record.Environment) bool { return e.Name == s.Baseline }); i < 0 || p.Environments[i].Dropped != "" {
		if i = slices.IndexFunc(p.Environments, func(e record.Environment) bool { return e.Dropped == "" }); i >= 0 {
			p.Replaced, p.Baseline = s.Baseline, p.Environments[i].Name
			a.benchStep(s.Baseline + " does not work here: the others are compared with " + p.Baseline)
		}
	}
	if p.Jobs, err = jobsDigest(&p, taker); err != nil {
		return p, err
	}
	for i := range p.Environments {
		e := &p.Environments[i]
		if e.Keys, err = keyDigests(&p, taker, e.Name); err != nil {
			return p, err
		}
		if p.Reuse != "" {
			if e.Containers, err = taker.Containers(p.Points, e.Name); err != nil {
				return p, err
			}
		}
	}
	if err := b.price(&p); err != nil {
		return p, err
	}
	p.Scales = scalesOf(s, points)
	p.Claims = claimsOf(s, points, o.mapped)
	return p, tooFew(&p, o)
}

// choose lists the environments of a plan. Those that cannot be measured here, as far as is
// known before anything starts, are left out with the reason.
func (b *bench) choose(p *record.Plan, s *study.Study) error {
	for _, name := range s.EnvironmentNames {
		if !b.o.wants(s, name) {
			continue
		}
		reason, remedy, err := b.unfit(p.Points, name)
		if err != nil {
			return err
		}
		p.Environments = append(p.Environments, record.Environment{Name: name, Dropped: reason, Remedy: remedy, Named: slices.Contains(b.o.env, name), Untested: s.Environments[name].Untested})
	}
	return nil
}

// untried is what the driver of an environment's site was never run with, or "".
func (b *bench) untried(points []record.Point, environment string) (string, error) {
	i := slices.IndexFunc(points, func(p record.Point) bool { return slices.Contains(p.Environments, environment) })
	if i < 0 {
		return "", nil
	}
	job, err := b.taker.Job(points[i], environment, "")
	if err != nil {
		return "", err
	}
	sites, err := b.sites(job)
	if err != nil || len(sites) == 0 { // the trial has reported it
		return "", nil
	}
	p, err := b.hosts.s.Provider(sites[0])
	if err != nil { // the same
		return "", nil
	}
	return p.Info().Untried, nil
}

// tooFew is an error of kind Unsupported where a plan has nothing to compare.
func tooFew(p *record.Plan, o benchOptions) error {
	left := 0
	var reasons []string
	for _, e := range p.Environments {
		if e.Dropped == "" {
			left++
		} else {
			reasons = append(reasons, e.Name+": "+e.Dropped)
		}
	}
	if left > 1 || left == 1 && o.calibrate {
		return nil
	}
	return &core.Error{Kind: core.Unsupported, Op: "compare environments of study", Object: p.Study, Err: fmt.Errorf("at most one of them works here (%s)", strings.Join(reasons, "; ")), Remedy: "`bee doctor` names what is missing."}
}

// trustStudy shows what a study's jobs do on this machine outside of its directory. Where
// another user may have written it, the user has to agree; so too to programs that nothing
// isolates.
func (a *Commands) trustStudy(file string, s *study.Study, points []record.Point, taker *measure.Taker, t console.Trust) error {
	if file == "" {
		return nil
	}
	strange := console.StrangerOf(file)
	if strange == "" {
		return nil
	}
	var reaches []spec.Reach
	for _, name := range s.EnvironmentNames {
		for _, p := range points {
			job, err := taker.Job(p, name, s.Dir)
			if err != nil {
				return err
			}
			for _, r := range job.Reaches(s.Dir) {
				if !slices.Contains(reaches, r) {
					reaches = append(reaches, r)
				}
			}
		}
		if program := s.Environments[name].Bee; program != "" {
			reaches = append(reaches, spec.Reach{Key: "environments." + name + ".bee", Does: "runs", What: program})
		}
		if e := s.Environments[name]; e.Runtime == spec.NativeRuntime && !e.Keys.Has("vm") {
			what := "the image's programs on this machine, isolated by nothing"
			if e.Native == study.NativeHost {
				what = "programs of this machine, isolated by nothing"
			}
			reaches = append(reaches, spec.Reach{Key: "environments." + name, Does: "runs", What: what})
		}
	}
	return a.Allow(file, strange, reaches, t, true)
}

func seed() uint64 {
	var raw [8]byte
	rand.Read(raw[:])
	return binary.LittleEndian.Uint64(raw[:])
}
