package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// DraftPlaces finds outputs that may come to one place: those of cases of an array, and those of
// several jobs of a file. It also finds cases that cannot share a lease as they are to.
type DraftPlaces struct {
	draft *Draft
	index PlaceIndex
	added []addedOutput
	cases int
	wrong bool
	first *Job // of the pack that is being added
	lead  int  // its number
}

// addedOutput is one of the outputs that were added.
type addedOutput struct {
	key    string
	places Places
}

// OutputPlaces returns what the outputs of the draft's job, or of the cases of its array, are added to.
func (t *Draft) OutputPlaces() *DraftPlaces { return &DraftPlaces{draft: t} }

// Add adds the outputs of the complete job, or of a case with a number. What is wrong between cases is
// a problem of the draft, and the first one is enough: it returns false then.
func (p *DraftPlaces) Add(job *Job, number int) bool {
	if number > 0 {
		p.together(job, number)
	}
	from := len(p.added)
	for i, o := range job.Outputs {
		o.To = strings.ReplaceAll(o.To, RunID, fmt.Sprintf("run %d of %s", number, job.Name)) // no other run has its id
		one := *job
		one.Outputs = []Output{o}
		added := addedOutput{fmt.Sprintf("outputs[%d].to", i), one.Places()}
		if other, to := p.index.Find(added.places); to != "" && !p.wrong {
			p.wrong = true
			p.draft.report.at(added.key, "name a value in it, such as ./results/${case.seed}, or the run, as ${run.id}", "%s: cases %d and %d may write the same outputs to %s", added.key, other, number, to)
		}
		p.added = append(p.added, added)
	}
	for _, o := range p.added[from:] {
		p.index.Add(o.places, number)
	}
	return !p.wrong
}

// AddCases adds all cases of the draft's array, calls each with every one, and returns what is wrong
// with one of them or between them.
func (p *DraftPlaces) AddCases(each func(*Job)) error {
	for n := range p.draft.cases {
		job, err := p.draft.Case(n + 1).Finish()
		if err != nil {
			return err
		}
		if !p.Add(job, n+1) {
			break
		}
		each(job)
	}
	return p.draft.Problems()
}

// together finds what keeps a case from sharing a lease with those before it.
func (p *DraftPlaces) together(job *Job, number int) {
	a := p.draft.Job.Array
	if a == nil || a.Pack < 1 || p.wrong {
		return
	}
	if p.cases%a.Pack == 0 {
		p.first, p.lead = job, number
	}
	p.cases++
	if key := job.NotInPack(); key != "" {
		p.wrong = true
		p.draft.report.atKey(key, "leave out `array.pack`, or change it", "%s: case %d has it, and cases of a pack cannot have it", key, number)
		return
	}
	if key := packsBy(p.first, job); key != "" {
		p.wrong = true
		p.draft.report.atKey(key, "leave out `array.pack`, or the value of a case", "%s: cases %d and %d differ in it, and share a lease", key, p.lead, number)
	}
}

// ownInPack are the keys in which cases that share a lease may differ.
func ownInPack() []string {
	return []string{"name", "array", "env", "labels", "workdir", "setup", "run", "post", "resume", "outputs"}
}

// packsBy returns a key in which cases differ that are to share a lease; "": none.
func packsBy(one, other *Job) string {
	a, b := reflect.ValueOf(*one), reflect.ValueOf(*other)
	for i := range a.NumField() {
		key := keyOf(a.Type().Field(i))
		if key != "" && !slices.Contains(ownInPack(), key) && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			return key
		}
	}
	return ""
}

// OutputsApart finds jobs of a file whose outputs may come to one place at the same time: none of
// the two is over when the other begins. all are those of its jobs, in their order.
func OutputsApart(all []*DraftPlaces) error {
	var wrong error
	for k, later := range all {
		for i, earlier := range all[:k] {
			if earlier.index.Empty() || waitsFor(all, k, i) || waitsFor(all, i, k) {
				continue
			}
			for _, o := range later.added {
				if _, to := earlier.index.Find(o.places); to != "" {
					later.draft.report.at(o.key, "name another directory, or have one of the jobs begin `after:` the other", "%s: job %q may write the same outputs to %s at the same time", o.key, earlier.draft.Job.Name, to)
					break
				}
			}
		}
		wrong = Both(wrong, later.draft.Problems())
	}
	return wrong
}

// waitsFor reports whether a job of a file begins after another one, or after one that does.
func waitsFor(all []*DraftPlaces, job, other int) bool {
	seen := make([]bool, len(all))
	var visit func(i int) bool
	visit = func(i int) bool {
		if seen[i] {
			return false
		}
		seen[i] = true
		return slices.ContainsFunc(all[i].draft.links, func(l Link) bool { return l.Job == other || visit(l.Job) })
	}
	return visit(job)
}
