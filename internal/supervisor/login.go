// Package supervisor holds the controllers of detached runs in a background process, and
// starts `bee supervise` when its user logs in, or the machine starts: by a user unit of
// systemd, else by cron. It knows records and locks of runs, and neither sites nor
// terminals: what a controller does is given to it.
package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Login is an entry that starts a program at login.
type Login struct {
	// Name distinguishes this entry from others of the user.
	Name string
	// Args are the absolute path of the program, and its arguments.
	Args []string
	// Path is the PATH that the program gets.
	Path string
	// Config is the directory of the user's configuration files, as XDG_CONFIG_HOME.
	Config string
}

// scheduler is a service that starts programs of a user.
type scheduler interface {
	// usable reports whether the service answers.
	usable(ctx context.Context) bool
	// install adds the entry, or replaces it, and returns its place.
	install(ctx context.Context) (place string, err error)
	// uninstall removes the entry. An entry that is gone is success.
	uninstall(ctx context.Context) error
}

func (l Login) schedulers() []scheduler { return []scheduler{systemd{l}, cron{l}} }

// timeout bounds each call of a scheduler's program.
const timeout = 20 * time.Second

// Install adds the entry to the first scheduler that answers, and returns its place for
// people.
func (l Login) Install(ctx context.Context) (place string, err error) {
	for _, s := range l.schedulers() {
		if s.usable(ctx) {
			return s.install(ctx)
		}
	}
	return "", &core.Error{
		Kind: core.Unsupported, Op: "start at login", Object: l.Name, Err: errors.New("neither systemd for users nor cron answers"),
		Remedy: "Run `bee supervise` after each login, for example from ~/.profile.",
	}
}

// Uninstall removes the entry from every scheduler that answers.
func (l Login) Uninstall(ctx context.Context) error {
	var errs error
	for _, s := range l.schedulers() {
		if s.usable(ctx) {
			errs = errors.Join(errs, s.uninstall(ctx))
		}
	}
	return errs
}
