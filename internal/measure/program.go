package measure

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// meaning of a number that a line of a program has.
type meaning int

const (
	// steps are done, of all that the program will do.
	steps meaning = iota
	// total is how many steps there are.
	total
	// further is how many steps there are beyond those that the next line has.
	further
	// residual falls from its first value to the goal, by decades.
	residual
	goal
	// ended is a text: all is done.
	ended
)

// rule is the meaning of the lines that match a pattern.
type rule struct {
	meaning meaning
	pattern string
}

// program is how a program prints its progress.
type program struct {
	rules []rule
	// file is a path of a text in the job's directory that has the total in a line that matches
	// in; "": the program prints it.
	file, in string
}

// programs by name. Except those of NAMD, which are written after its manual, the patterns are
// tested with what the programs have printed: testdata.
func programs() map[string]program {
	return map[string]program{
		"gromacs": {rules: []rule{ // mdrun -v
			{total, `^(\d+) steps, +[0-9.]+ ps`},
			{steps, `(?:^|\s)step +(\d+)(?:,|$)`},
			{total, `^ +Number of steps += +(\d+)`}, // of a minimization
			{steps, `^Step= +(\d+),`},
		}},
		"lammps": {rules: []rule{ // -echo screen
			{further, `^run\s+(\d+)(?:\s+(?:start|stop|pre|post|every|#).*)?\s*$`},
			{total, `^run\s+(\d+)\s+upto`},
			{further, `^minimize\s+\S+\s+\S+\s+(\d+)`},
			{steps, `Current step +: (\d+)`},
			{steps, `^ *(\d+)(?: +-?[0-9][-+.0-9eE]*)+ *$`},
			{steps, `^-+ Step +(\d+) `}, // thermo_style multi
		}},
		"quantum-espresso": {rules: []rule{
			{goal, `scf convergence threshold += +(\S+)`},
			{residual, `estimated scf accuracy +< +(\S+)`},
			{total, `^ +nstep += +(\d+)`}, // of pw.x which moves ions
			{steps, `Entering Dynamics: +iteration = +(\d+)`},
			{steps, `number of scf cycles += +(\d+)`},
			{ended, `(JOB DONE\.)`},
		}},
		"openfoam": {
			rules: []rule{{steps, `^Time = ([0-9.eE+-]+)s?$`}},
			file:  "system/controlDict", in: `(?m)^\s*endTime\s+([0-9.eE+-]+)\s*;`,
		},
		"namd": {rules: []rule{
			{total, `^Info: NUMBER OF STEPS +(\d+)`},
			{further, `^TCL: (?:Running|Minimizing) for (\d+) steps`},
			{steps, `^ENERGY: +(\d+)`},
		}},
	}
}

// Programs are the names of the programs whose progress is known, sorted.
func Programs() []string { return slices.Sorted(maps.Keys(programs())) }

// Source is where progress is read from in the output; an empty one reads none.
type Source struct {
	// Pattern is of lines that have the progress, with one group for a percentage, or two for what
	// is done and the total.
	Pattern string
	// Program is one of Programs, in place of a pattern.
	Program string
	// Total is known beforehand; 0: it is read too.
	Total float64
}

// TotalFile is the path of a text in which the total has to be looked for, relative to the job's
// directory; "": there is none.
func (s Source) TotalFile() string {
	if s.Total > 0 {
		return ""
	}
	return programs()[s.Program].file
}

// follower follows the progress of a program by its lines.
type follower struct {
	fixed bool // the total is known beforehand
	// done of total; nothing was done yet: -1.
	done, total, further float64
	first, residual      float64
	goal                 float64
}

func newFollower(known float64) *follower {
	return &follower{fixed: known > 0, total: known, done: -1}
}

// take reads a number, or a text that means the end, and returns the progress.
func (f *follower) take(m meaning, text string) (done, total float64, is bool) {
	n, number := Number(text)
	switch {
	case m == ended:
		return f.end()
	case !number || n < 0:
		return 0, 0, false
	}
	switch m {
	case steps:
		if f.further > 0 && !f.fixed {
			f.total = n + f.further
		}
		f.done, f.further = n, 0
	case further:
		f.further = n
	case residual:
		if f.residual = n; f.first == 0 {
			f.first = n
		}
	case goal:
		f.goal, f.first, f.residual = n, 0, 0
	default:
		if !f.fixed {
			f.total = n
		}
	}
	return f.progress()
}

func (f *follower) end() (done, total float64, is bool) {
	if _, total, is = f.progress(); is {
		f.done, f.residual = f.total, f.goal
	}
	return total, total, is
}

// progress is by steps where their total is known, else by decades of the residual.
func (f *follower) progress() (done, total float64, is bool) {
	if f.total > 0 {
		return f.done, f.total, f.done >= 0
	}
	if f.goal <= 0 || f.first <= f.goal {
		return 0, 0, false
	}
	total = math.Log10(f.first / f.goal)
	if f.residual <= f.goal {
		return total, total, true
	}
	return max(0, math.Log10(f.first/f.residual)), total, true
}

// follows makes what follows a source, by its pattern or those of its program.
func (r *Reader) follows(s Source) error {
	if s.Pattern != "" {
		most := ProgressGroups
		if s.Total > 0 {
			most = 1
		}
		p, err := ParsePattern(s.Pattern, most)
		if err != nil {
			return err
		}
		r.progress = append(r.progress, matched{p, func(groups []string) {
			if s.Total > 0 {
				groups = append(groups, fmt.Sprint(s.Total))
			}
			r.progressed(groups)
		}})
		return nil
	}
	if s.Program == "" {
		return nil
	}
	known, is := programs()[s.Program]
	if !is {
		return errors.New("the progress of " + s.Program + " is not known: name one of " + strings.Join(Programs(), ", "))
	}
	f := newFollower(s.Total)
	for _, rule := range known.rules {
		p, err := ParsePattern(rule.pattern, 1)
		if err != nil {
			return err
		}
		r.progress = append(r.progress, matched{p, func(groups []string) {
			if done, total, is := f.take(rule.meaning, groups[0]); is {
				r.reached(done, total)
			}
		}})
	}
	if known.in != "" {
		in, err := regexp.Compile(known.in)
		if err != nil {
			return err
		}
		r.total = func(text string) bool {
			found := in.FindStringSubmatch(text)
			if found == nil {
				return false
			}
			if done, total, is := f.take(total, found[1]); is {
				r.reached(done, total)
			}
			return f.total > 0
		}
	}
	return nil
}

// Total reads the total from the text of Source.TotalFile, and reports whether it is there.
func (r *Reader) Total(text string) (is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total != nil && r.total(text)
}
