package spec

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/shell"
)

// LoadJob reads a Beefile.
func LoadJob(file string) (*Job, error) {
	t, err := ReadDraft(file)
	if err != nil {
		return nil, err
	}
	return t.Finish()
}

// FileError is the error of a Beefile, sites file or the like, as what says, which
// cannot be read: NotFound or else Invalid, as it is the user's to name another.
// err is that of package os.
func FileError(what, file string, err error) error {
	e := &core.Error{Kind: core.Invalid, Op: "read " + what, Object: file, Err: errors.Unwrap(err), Remedy: "Name a " + what + " that you can read."}
	if errors.Is(err, os.ErrNotExist) {
		e.Kind = core.NotFound
	}
	return e
}

// ReadText reads a file of the user's. Of one that is larger than a Beefile may be, it returns
// only as much as shows that, and parsing refuses it.
func ReadText(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f)
}

// ParseJob reads a Beefile's text. Its relative paths start at dir.
func ParseJob(file string, data []byte, dir string) (*Job, error) {
	return parseDraft(file, data, dir).Finish()
}

// complete fills in defaults and makes local paths absolute.
func (j *Job) complete(file string) {
	j.Name = j.nameOr(file)
	j.Volume.Path = path.Clean(j.Volume.Path)
	if c := j.Checkpoint; c != nil {
		if c.File != "" {
			c.File = j.inWorkdir(c.File)
		}
		for i, p := range c.Paths {
			c.Paths[i] = j.inWorkdir(p)
		}
	}
	if p := j.Progress; p != nil && p.File != "" {
		p.File = j.inWorkdir(p.File)
	}
	for i, p := range j.Volume.Prefetch {
		j.Volume.Prefetch[i] = j.inWorkdir(p)
	}
	j.Store = localStore(j.Store, j.local)
	j.Volume.Remote = localStore(j.Volume.Remote, j.local)
	if j.Volume.From != "" {
		j.Volume.From = j.local(j.Volume.From)
	}
	for i := range j.Inputs {
		in := &j.Inputs[i]
		if in.SHA256 = strings.ToLower(in.SHA256); in.From != "" && !IsRemote(in.From) {
			in.From = j.local(in.From)
		}
	}
	j.completeOutputs()
	completeNotify(j.Notify, j.local)
	for name, s := range j.Secrets {
		if s.File != "" {
			s.File = j.local(s.File)
			j.Secrets[name] = s
		}
	}
	if b := j.Build; b != nil {
		if b.Context != "" {
			b.Context = j.local(b.Context)
		}
		for i := range b.Copy {
			b.Copy[i].From = j.local(b.Copy[i].From)
		}
	}
}

// local makes a path of the Beefile absolute.
func (j *Job) local(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(j.Dir, p)
}

// Words of Job.User.
const (
	UserRoot   = "root"
	UserCaller = "caller"
)

// Words of Job.Order.
const (
	OrderListed   = "listed"
	OrderCheapest = "cheapest"
	OrderSoonest  = "soonest"
)

// SitesFile is what a sites file says.
type SitesFile struct {
	Sites []Site `yaml:"sites"`
	// Store is that of jobs whose Beefile names none.
	Store string `yaml:"store"`
	// Notify are the receivers of notifications about all runs.
	Notify []Notify `yaml:"notify"`
	// Exchange is what a unit of each currency is worth in that of prices without one.
	Exchange map[string]float64 `yaml:"exchange"`
	// Path of the file; "" where there is none.
	Path string `yaml:"-"`
}

// DefaultSites is what a user without a sites file has: this machine.
func DefaultSites() []Site { return []Site{{Name: "local", Provider: "local"}} }

// LoadSites reads a sites file. One that others can change is an error.
func LoadSites(file string) (SitesFile, error) {
	data, err := readSitesFile(file)
	if err != nil {
		return SitesFile{}, err
	}
	f, err := parseSites(file, data)
	if err != nil && isJob(file, data) {
		return SitesFile{}, &core.Error{
			Kind: core.Invalid, Op: "read sites file", Object: file, Err: fmt.Errorf("it is a %s", KindBeefile),
			Remedy: "`bee run " + shell.Word(file) + "` runs it, and `bee init --sites` writes a sites file.",
		}
	}
	f.Path = file
	absolute := func(p string) string {
		if abs, err := filepath.Abs(file); err == nil {
			return (&Job{Dir: filepath.Dir(abs)}).local(p)
		}
		return p
	}
	f.Store = localStore(f.Store, absolute)
	completeNotify(f.Notify, absolute)
	return f, err
}

// ParseSites reads a sites file's text.
func ParseSites(file string, data []byte) ([]Site, error) {
	f, err := parseSites(file, data)
	return f.Sites, err
}

func parseSites(file string, data []byte) (SitesFile, error) {
	d := newDecoder(file, data)
	var f SitesFile
	if root := d.root(data); root != nil {
		d.decode(root, reflect.ValueOf(&f).Elem(), "")
		d.report.checkSites(f.Sites)
		d.report.exchange(&f)
		d.report.checkStore(f.Store)
		d.report.checkNotify(f.Notify)
	}
	return f, asError(d.report.problems)
}

// FindSites gives the user's sites file: the one of the flag, else of
// BEE_SITES, else of the user's configuration; else what holds without one.
func FindSites(flag string) (SitesFile, error) {
	if flag == "" {
		flag = os.Getenv("BEE_SITES")
	}
	if flag != "" {
		return LoadSites(flag)
	}
	none := SitesFile{Sites: DefaultSites()}
	file, err := SitesPath()
	if err != nil {
		return none, nil // without a home there is no configuration
	}
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return none, nil
	}
	return LoadSites(file)
}

// SitesPath is the path of the user's sites file, which need not exist.
func SitesPath() (string, error) {
	if file := os.Getenv("BEE_SITES"); file != "" {
		return file, nil
	}
	config := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", &core.Error{Kind: core.Invalid, Op: "find the home directory", Err: err, Remedy: "Set HOME, or BEE_SITES."}
		}
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "bee", "sites.yaml"), nil
}

// SelectSites gives the sites that a job may use, in its order.
func SelectSites(j *Job, all []Site, file string) ([]Site, error) {
	if len(j.Sites) == 0 {
		return all, nil
	}
	byName := map[string]Site{}
	for _, s := range all {
		byName[s.Name] = s
	}
	var chosen []Site
	for _, name := range j.Sites {
		s, ok := byName[name]
		if !ok {
			where, remedy := noSite(name, all, file)
			return nil, &core.Error{Kind: core.Invalid, Op: "find site", Object: name, Err: fmt.Errorf("it is not in %s", where), Remedy: remedy}
		}
		chosen = append(chosen, s)
	}
	return chosen, nil
}

// noSite says where a site was looked for, and what there is.
func noSite(name string, all []Site, file string) (where, remedy string) {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	where, remedy = "your sites file "+file, "It has: "+strings.Join(names, ", ")+"."
	if file == "" {
		where, remedy = "your sites", "Without a sites file there is only: "+strings.Join(names, ", ")+"."
	}
	if near := nearest(name, names); near != "" {
		remedy = fmt.Sprintf("Did you mean %q? %s", near, remedy)
	}
	return where, remedy
}
