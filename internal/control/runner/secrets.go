package runner

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// unreadName is a file in a run's directory whose age is how long ago a controller could
// not read the run's secrets.
const unreadName = "secrets-unread"

// retrySecrets is the least time between two tries to read secrets by a command, which may
// ask a server, or its user for a password.
const retrySecrets = time.Minute

// mostKeys bounds the wait for credentials of a bucket: a program or a server may give them.
const mostKeys = 10 * time.Second

// unread is an error of reading secrets of a run that another controller has begun with:
// this one may lack a variable, or a login, that the next controller has.
type unread struct{ error }

func (u unread) Unwrap() error { return u.error }

func unreadPath(store *state.Store, id string) string {
	return filepath.Join(store.RunDir(id), unreadName)
}

// private is what nodes get of a run, and no disk has.
type private struct {
	values map[string]string // of secrets
	keys   *core.BucketKeys  // nil: none are sent
}

// usesKeys reports whether a job needs the user's credentials for a bucket on this machine.
func usesKeys(j *spec.Job) bool {
	return j.SendsKeys() || j.Volume.Credentials == spec.CredentialsRelay
}

// secrets reads those of the run's job, and the credentials that are sent for its burst buffer. Those by which this
// machine passes requests on have to be there, too.
func (r *controlled) secrets(ctx context.Context) (private, error) {
	read := submission.Secrets
	if r.c.ReadSecrets != nil {
		read = r.c.ReadSecrets
	}
	values, err := read(ctx, &r.sub.Job)
	p := private{values: values}
	if err == nil && usesKeys(&r.sub.Job) {
		var keys core.BucketKeys
		if keys, err = r.c.BucketKeys(ctx, r.sub.Job.Volume.Remote); err == nil && r.sub.Job.SendsKeys() {
			p.keys = &keys
		}
	}
	if err == nil && r.continued {
		fsutil.TryRemove(unreadPath(r.c.Store, r.run.ID)) // commands that can read them too do not look at its age
	}
	if err == nil || !r.continued || ctx.Err() != nil {
		return p, err
	}
	if err := fsutil.WriteFile(unreadPath(r.c.Store, r.run.ID), nil, 0o600); err != nil {
		r.c.Log.Warn("that secrets could not be read could not be recorded: each command tries it", "run", r.run.ID, "err", err)
	}
	r.recordLast(ctx, event.SecretsUnreadable{Cause: event.CauseOf(err)})
	return private{}, unread{&core.Error{
		Kind: core.Transient, Op: "continue run", Object: r.run.ID, Err: err,
		Remedy: "Nothing is lost. `bee supervise`, where its secrets can be read, continues it; `bee stop " + r.run.ID + "` ends it.",
	}}
}

// waitsForSecrets reports whether a run cannot continue because its secrets could not be
// read, and cannot be read here either. A command that prints one is run by controllers only.
func (c *Runner) waitsForSecrets(ctx context.Context, id string) bool {
	store := c.Store
	tried, err := os.Stat(unreadPath(store, id))
	if err != nil {
		return false
	}
	run, err := store.Run(ctx, id)
	if err != nil || run.StopAsked || run.State.Final() || run.State == state.Suspended {
		return false
	}
	sub, err := submission.Of(run)
	if err != nil {
		return false
	}
	recent := time.Since(tried.ModTime()).Abs() < retrySecrets
	if usesKeys(&sub.Job) {
		if recent {
			return true
		}
		most, cancel := context.WithTimeout(ctx, mostKeys)
		_, err := c.BucketKeys(most, sub.Job.Volume.Remote)
		cancel()
		if err != nil {
			return true
		}
	}
	for _, from := range sub.Job.Secrets {
		if from.Exec == "" {
			_, err = submission.ReadSecret(ctx, from)
		}
		if err != nil || from.Exec != "" && recent {
			return true
		}
	}
	return false
}
