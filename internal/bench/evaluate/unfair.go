package evaluate

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/record"
)

// computing are the libraries whose absence on one side makes another program of it: libc,
// mathematics, linear algebra, Fourier transforms, compilers' own, and MPI. Others differ for
// good reasons.
var computing = regexp.MustCompile(`^(lib(c|m|mvec|gfortran|gomp|iomp5|mpi|open-pal|open-rte|atlas|mkl|fftw)|lib[a-z0-9_-]*(blas|lapack))[._-]`)

// transports are the components by which Open MPI sends messages. It loads others before it
// chooses one, so that a single row is no proof.
var transports = regexp.MustCompile(`^mca_(pml|mtl)_`)

// enoughLooks are rows from which on transports are compared. Fewer have no verdict.
const enoughLooks = 5

// used is what computed in the counted rows of an environment at a point.
type used struct {
	rows   int            // in which programs were seen
	files  map[string]int // rows that have each file
	sums   map[string]string
	cores  map[int]bool
	memory map[int64]bool
	// mixed are files of the same path with other contents within the environment.
	mixed []string
}

func (x *table) used(point, environment string) used {
	u := used{files: map[string]int{}, sums: map[string]string{}, cores: map[int]bool{}, memory: map[int64]bool{}}
	for _, c := range x.order[series{point, environment}] {
		r := x.cells[c]
		if r.Cores > 0 {
			u.cores[r.Cores] = true
		}
		if r.MemoryLimit != nil {
			u.memory[*r.MemoryLimit] = true
		}
		if len(r.Programs) > 0 {
			u.rows++
		}
		for file, sum := range r.Programs {
			u.files[file]++
			if before, is := u.sums[file]; is && before != sum && !slices.Contains(u.mixed, file) {
				u.mixed = append(u.mixed, file)
			}
			u.sums[file] = sum
		}
	}
	return u
}

// lacks returns the computing libraries and transports that most rows of one side have, and no row of the
// other. A look at the processes may miss a short one, but not each time.
func (u *used) lacks(of *used) []string {
	var all []string
	enough := min(u.rows, of.rows) >= enoughLooks
	for file, n := range of.files {
		name := path.Base(file)
		if n*2 > of.rows && u.rows > 0 && u.files[file] == 0 && (computing.MatchString(name) || enough && transports.MatchString(name)) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// foreign returns what an environment used of the host's own: programs, and libraries that
// compute.
func (x *table) foreign(point, environment string) []string {
	var all []string
	for _, c := range x.order[series{point, environment}] {
		for _, file := range x.cells[c].Foreign {
			name := path.Base(file)
			if (computing.MatchString(name) || !strings.Contains(name, ".so")) && !slices.Contains(all, file) {
				all = append(all, file)
			}
		}
	}
	slices.Sort(all)
	return all
}

// unfair returns the reasons for which an environment cannot be compared with the baseline,
// without those that the study wants.
func (x *table) unfair(p *record.Plan, point, environment, baseline string) []string {
	reasons, binaries := x.differences(p, point, environment, baseline)
	if otherBinaries(p, environment, baseline) {
		return reasons
	}
	return slices.Concat(reasons, binaries)
}

// otherBinaries reports whether a study wants to compare other programs.
func otherBinaries(p *record.Plan, environments ...string) bool {
	return slices.ContainsFunc(p.Environments, func(e record.Environment) bool {
		return e.OtherBinaries && slices.Contains(environments, e.Name)
	})
}

// hostPrograms reports whether an environment runs programs that its host has installed.
func hostPrograms(p *record.Plan, environment string) bool {
	return slices.ContainsFunc(p.Environments, func(e record.Environment) bool { return e.HostPrograms && e.Name == environment })
}

// binaryFlags are the differences of programs that a study wants, for each environment.
func (x *table) binaryFlags(p *record.Plan) (all []Flag) {
	for _, point := range p.Points {
		for _, e := range p.Environments {
			if e.Name == p.Baseline || !otherBinaries(p, e.Name, p.Baseline) {
				continue
			}
			_, binaries := x.differences(p, point.ID, e.Name, p.Baseline)
			for _, text := range binaries {
				at := slices.IndexFunc(all, func(f Flag) bool { return f.Environment == e.Name && f.Text == text })
				if at < 0 {
					all, at = append(all, Flag{Environment: e.Name, Text: text}), len(all)
				}
				all[at].Rows += len(x.order[series{point.ID, e.Name}])
			}
		}
	}
	return all
}

// differences returns the reasons for which an environment cannot be compared with the
// baseline, and those about other programs.
func (x *table) differences(p *record.Plan, point, environment, baseline string) (reasons, binaries []string) {
	add := func(reason string) {
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	other := func(reason string) { binaries = append(binaries, "other binaries: "+reason) }
	for _, name := range []string{environment, baseline} {
		for _, c := range x.order[series{point, name}] {
			for _, u := range x.cells[c].Unfair {
				add(name + ": " + u)
			}
		}
	}
	for _, name := range []string{environment, baseline} {
		if files := x.foreign(point, name); len(files) > 0 {
			add(fmt.Sprintf("%s uses %s of the host in place of the image's", name, strings.Join(files, ", ")))
		}
	}
	if environment == baseline {
		return reasons, nil
	}
	one, base := x.used(point, environment), x.used(point, baseline)
	for _, file := range slices.Sorted(maps.Keys(one.sums)) {
		if sum, is := base.sums[file]; is && sum != one.sums[file] {
			other("the program " + file + " is not the same file in both")
		}
	}
	for _, u := range []struct {
		name string
		used *used
	}{{environment, &one}, {baseline, &base}} {
		for _, file := range u.used.mixed {
			add(u.name + ": the program " + file + " changed between measurements")
		}
	}
	if missing := one.lacks(&base); len(missing) > 0 {
		other(fmt.Sprintf("%s does not use %s, which %s uses", environment, strings.Join(missing, ", "), baseline))
	}
	if missing := base.lacks(&one); len(missing) > 0 {
		other(fmt.Sprintf("%s uses %s, which %s does not", environment, strings.Join(missing, ", "), baseline))
	}
	if hostPrograms(p, environment) != hostPrograms(p, baseline) {
		host, image := environment, baseline
		if hostPrograms(p, baseline) {
			host, image = baseline, environment
		}
		other(fmt.Sprintf("%s runs programs that its host has installed, and %s those of the image", host, image))
	}
	if len(one.cores) > 0 && len(base.cores) > 0 && !maps.Equal(one.cores, base.cores) {
		add(fmt.Sprintf("%s computes on %s cores, and %s on %s", environment, numbers(one.cores), baseline, numbers(base.cores)))
	}
	if len(one.memory) > 0 && len(base.memory) > 0 && !alike(one.memory, base.memory) {
		add(fmt.Sprintf("%s may use %s of memory, and %s %s", environment, limits(one.memory), baseline, limits(base.memory)))
	}
	return reasons, binaries
}

// alike reports whether limits of memory of two sides differ by at most 1 %: parts of a host
// that was split are rounded.
func alike(one, other map[int64]bool) bool {
	all := slices.Sorted(maps.Keys(one))
	all = append(all, slices.Sorted(maps.Keys(other))...)
	least, most := slices.Min(all), slices.Max(all)
	return least == most || least > 0 && most-least <= most/100
}

func limits(set map[int64]bool) string {
	var all []string
	for _, n := range slices.Sorted(maps.Keys(set)) {
		if n == 0 {
			all = append(all, "all")
		} else {
			all = append(all, fmt.Sprintf("%d MiB", n>>20))
		}
	}
	return strings.Join(all, " or ")
}

func numbers(set map[int]bool) string {
	var all []string
	for _, n := range slices.Sorted(maps.Keys(set)) {
		all = append(all, fmt.Sprint(n))
	}
	return strings.Join(all, " or ")
}
