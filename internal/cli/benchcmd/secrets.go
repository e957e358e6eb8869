package benchcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// A secretReader reads the secrets of a measurement, and keeps their values, so that nothing that is
// written has them. Another read of a source may have another value.
type secretReader struct {
	lock   sync.Mutex
	values []string
}

// read reads the secrets of a job.
func (r *secretReader) read(ctx context.Context, job *spec.Job) (map[string]string, error) {
	values, err := submission.Secrets(ctx, job)
	if err != nil {
		return nil, err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := values[name]
		if v != "" && len(v) < measure.LeastSecret {
			return nil, &core.Error{
				Kind: core.Invalid, Op: "measure a job with secret", Object: name, Err: fmt.Errorf("its value has fewer than %d characters, so that results cannot be without it", measure.LeastSecret),
				Remedy: "Give this variable by `env:` if it is no secret, or a longer value.",
			}
		}
		r.values = append(r.values, v)
	}
	return values, nil
}

// all are the values that were read.
func (r *secretReader) all() []string {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.Clone(r.values)
}

// pass reads the secrets of a job for another bee program: the job then names variables, which the
// program gets.
func (r *secretReader) pass(ctx context.Context, job *spec.Job) (env []string, err error) {
	values, err := r.read(ctx, job)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	job.Secrets = make(map[string]spec.Secret, len(values))
	for i, name := range slices.Sorted(maps.Keys(values)) {
		variable := fmt.Sprintf("BENCH_SECRET_%d", i)
		job.Secrets[name], env = spec.Secret{Env: variable}, append(env, variable+"="+values[name])
		if slices.Contains([]byte(values[name]), 0) { // no variable has it
			return nil, &core.Error{Kind: core.Invalid, Op: "pass secret", Object: name, Err: errors.New("its value has a zero byte"), Remedy: "Give a value of text."}
		}
	}
	return env, nil
}
