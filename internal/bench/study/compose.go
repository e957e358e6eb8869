package study

import (
	"github.com/bee-hpc/bee/internal/spec"
)

// ComposeJob returns the job of an environment at a point. Its runtime is the
// environment's, which a Beefile may not know.
func (s *Study) ComposeJob(p *Point, environment string) (*spec.Job, error) {
	var job *spec.Job
	_, err := spec.ReadDocument(s.Name, []byte("{}"), func(d *spec.Document, _ *struct{}) {
		job = s.compose(d, p, environment, map[string]bool{})
	})
	if err == nil {
		err = s.build(job)
	}
	return job, err
}

// compose checks the job of an environment at a point, and notes the variables it uses.
func (s *Study) compose(d *spec.Document, p *Point, environment string, used map[string]bool) *spec.Job {
	variables := make(map[string]string, len(p.Values))
	for name, v := range p.Values {
		variables[name] = string(v)
	}
	for _, v := range []Value{s.Copies.Count, s.Environments[environment].Limit.Cores} {
		if name, is := v.variable(); is {
			used[name] = true
		}
	}
	return d.Job("environments."+environment, variables, used, s.Dir, s.base, s.Job.Keys, s.Environments[environment].Keys)
}
