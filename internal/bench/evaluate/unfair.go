package evaluate

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// computing are the libraries whose absence on one side makes another program of it: libc,
// mathematics, linear algebra, Fourier transforms, compilers' own, and MPI. Others differ for
// good reasons.
var computing = regexp.MustCompile(`^(lib(c|m|mvec|gfortran|gomp|iomp5|mpi|open-pal|open-rte|atlas|mkl|fftw)|lib[a-z0-9_-]*(blas|lapack))[._-]`)

// transports are the parts of Open MPI that it sends by. It looks at others before it chooses
// one, so that a single look is no proof.
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

// unfair returns the reasons for which an environment cannot be compared with the baseline.
func (x *table) unfair(point, environment, baseline string) []string {
	var reasons []string
	add := func(reason string) {
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
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
		return reasons
	}
	one, base := x.used(point, environment), x.used(point, baseline)
	for _, file := range slices.Sorted(maps.Keys(one.sums)) {
		if sum, is := base.sums[file]; is && sum != one.sums[file] {
			add("the program " + file + " is not the same file in both")
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
		add(fmt.Sprintf("%s does not use %s, which %s uses", environment, strings.Join(missing, ", "), baseline))
	}
	if missing := base.lacks(&one); len(missing) > 0 {
		add(fmt.Sprintf("%s uses %s, which %s does not", environment, strings.Join(missing, ", "), baseline))
	}
	if len(one.cores) > 0 && len(base.cores) > 0 && !maps.Equal(one.cores, base.cores) {
		add(fmt.Sprintf("%s computes on %s cores, and %s on %s", environment, numbers(one.cores), baseline, numbers(base.cores)))
	}
	if len(one.memory) > 0 && len(base.memory) > 0 && !maps.Equal(one.memory, base.memory) {
		add(fmt.Sprintf("%s may use %s of memory, and %s %s", environment, limits(one.memory), baseline, limits(base.memory)))
	}
	return reasons
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
